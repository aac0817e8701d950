"""`dspy.majority` over 8 samples of every question, then `Vote` at 5 on average: ``pip install "pets-llm[dspy,mock]"``.

A mock server on this machine stands in for a model.
"""

import dspy

from pets.integrations.dspy import Vote
from pets.mock import MockModel, PoolAnswers, running
from pets.pools import load
from pets.questions import question_set

problems = question_set("starter").problems
devset = [dspy.Example(question=p.id, gold=p.gold).with_inputs("question") for p in problems]


class Asked(dspy.Module):
    """One trace of a question; any module with an ``answer`` would do."""

    def __init__(self) -> None:
        super().__init__()
        self.predict = dspy.Predict("question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        """The prediction with the answer alone: the mock writes a sentence around it."""
        prediction = self.predict(question=question)
        prediction.answer = prediction.answer.partition("boxed{")[2].partition("}")[0]
        return prediction


class Majority(dspy.Module):
    """As DSPy has it: a fixed number of samples of every question."""

    def __init__(self, module: dspy.Module, n: int) -> None:
        super().__init__()
        self.module, self.n = module, n

    def forward(self, question: str) -> dspy.Prediction:
        """The prediction that most samples gave."""
        lm = dspy.settings.lm
        samples = []
        for rollout in range(self.n):
            with dspy.context(lm=lm.copy(rollout_id=rollout, temperature=1.0)):
                samples.append({"answer": self.module(question=question).answer})
        return dspy.majority(samples, field="answer")


def right(example: dspy.Example, prediction: dspy.Prediction, trace: object = None) -> bool:
    """Whether the answer is the gold one."""
    return dspy.evaluate.normalize_text(prediction.answer) == dspy.evaluate.normalize_text(example.gold)


def score(name: str, program: dspy.Module) -> None:
    """Evaluate a program; print what it paid and how it did."""
    mock = MockModel(PoolAnswers(load("starter")))
    with running(mock) as url:
        lm = dspy.LM("openai/mock", api_base=url, api_key="none", temperature=1.0, cache=False)
        with dspy.context(lm=lm, adapter=PlainAdapter()):
            result = dspy.Evaluate(devset=devset, metric=right, num_threads=16, provide_traceback=True)(program)
    print(f"{name}: {mock.stats.traces} generations, {result.score:.1f} % right")


class PlainAdapter(dspy.ChatAdapter):
    """The reply is the answer: the mock knows no fields."""

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, str]:
        """All of the completion."""
        return {"answer": completion}


score("before", Majority(Asked(), 8))
score("after", Vote(Asked(), field="answer", budget="5x", horizon=len(devset)))
