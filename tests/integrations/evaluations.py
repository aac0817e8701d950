"""Tasks of inspect_ai on its mock model; a module of its own, as importing inspect_ai takes seconds in every worker."""

import inspect_ai
import numpy as np
from inspect_ai import Epochs, Task, eval_retry, eval_set, task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalConfig, EvalDataset, EvalSpec
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import SampleScore, Score, match
from inspect_ai.solver import generate, solver

from pets.integrations.inspect_ai import TraceBudget, vote

__all__ = [
    "EPOCHS", "QUESTIONS", "SURE", "TORN", "Answers", "EvalConfig", "EvalDataset", "EvalSpec", "Sample", "SampleScore",
    "Score", "TraceBudget", "eval_retry", "eval_set", "evaluate", "get_model", "inspect_ai", "make_task", "retried",
    "vote",
]  # fmt: skip

EPOCHS = 12
SURE, TORN = "sure", "torn"
QUESTIONS = [f"{SURE} {i}" for i in range(5)] + [f"{TORN} {i}" for i in range(4)]


class Answers:
    """A mock model that always knows what it is sure of, and guesses the rest; ``fails`` names calls that raise."""

    def __init__(self, fails=()):
        self.rng, self.fails, self.calls = np.random.default_rng(0), fails, 0

    def __call__(self, messages, tools, tool_choice, config):
        self.calls += 1
        if self.calls in self.fails:
            raise RuntimeError("no answer today")
        right = messages[-1].text.startswith(SURE) or self.rng.random() < 0.6
        output = ModelOutput.from_content("mockllm/model", f"The answer is {17 if right else self.rng.integers(16)}.")
        # without a usage the mock would load a tokenizer from the network to make one up
        output.usage = ModelUsage(input_tokens=9, output_tokens=20, total_tokens=29)
        return output


def make_task(early_stopping, solve=None, **options):
    dataset = [Sample(id=name, input=name, target="17") for name in QUESTIONS]
    scorer = match(numeric=True)
    return Task(dataset, solver=solve or generate(), scorer=scorer, epochs=Epochs(EPOCHS, vote("number")),
                early_stopping=early_stopping, **options)  # fmt: skip


def evaluate(task, folder, model=None, **options):
    model = get_model("mockllm/model", custom_outputs=model or Answers())
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(folder), display="none", **options)
    return log


flaky = Answers(fails=(26,))


@task
def retried():
    """A task whose solver answers by itself: a retry reads this file and makes the model anew, without its answers."""

    @solver
    def answering():
        async def solve(state, generate):
            state.output = flaky(state.messages, [], None, None)
            return state

        return solve

    return make_task(TraceBudget("5x", answer="number"), solve=answering())
