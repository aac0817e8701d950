"""8 epochs of every sample by inspect_ai, then 5 on average: ``pip install "pets-llm[inspect,mock]" openai``.

A mock server on this machine stands in for a model. Both times a sample's score is that of its vote.
"""

from tempfile import mkdtemp

import inspect_ai
from inspect_ai import Epochs, Task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import pattern

from pets.integrations.inspect_ai import TraceBudget, vote
from pets.mock import MockModel, PoolAnswers, running
from pets.pools import load
from pets.questions import question_set

problems = question_set("starter").problems
samples = [Sample(id=p.id, input=str(p.prompt.content), target=str(p.gold)) for p in problems]


def score(name: str, epochs: int, early_stopping: TraceBudget | None = None) -> None:
    """Evaluate the task; print what it paid and how it did."""
    mock = MockModel(PoolAnswers(load("starter")), prompts={str(p.prompt.content): p.id for p in problems})
    boxed = pattern(r"boxed\{(.*)\}")
    task = Task(samples, scorer=boxed, epochs=Epochs(epochs, vote("text")), early_stopping=early_stopping)
    with running(mock) as url:
        [log] = inspect_ai.eval(
            task, model="openai/mock", model_base_url=url, model_args={"api_key": "none", "responses_api": False},
            temperature=0.7, max_connections=32, max_samples=32, log_dir=mkdtemp(), display="none",
        )  # fmt: skip
    right = log.results.scores[0].metrics["accuracy"].value
    print(f"{name}: {mock.stats.traces} generations, {100 * right:.1f} % right")


score("before", epochs=8)
score("after", epochs=32, early_stopping=TraceBudget("5x", answer="text"))
