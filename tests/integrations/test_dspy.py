"""DSPy's module `Vote`, against the real DSPy: `make integrations` installs it and runs these."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

dspy = pytest.importorskip("dspy", reason="DSPy is not installed; `make integrations` tests it")

from pets.integrations.dspy import Normalized, Vote  # noqa: E402

pytestmark = [pytest.mark.integrations, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]
EXAMPLE = Path(__file__).parents[2] / "examples" / "dspy_vote.py"
LINE = re.compile(r"^(\w+): (\d+) generations, ([\d.]+) % right$", re.M)


class Rollouts(dspy.LM):
    """A language model that notes which rollouts it was copied for."""

    def __init__(self):
        super().__init__("openai/none", cache=False)
        self.rollouts = []

    def copy(self, **kwargs):
        self.rollouts.append(kwargs["rollout_id"])
        return self


class Canned(dspy.Module):
    """Gives the next of its answers, whoever asks."""

    def __init__(self, answers):
        super().__init__()
        self.answers = iter(answers)

    def get_lm(self):
        return None

    def set_lm(self, lm):
        """Nothing: it asks none."""

    def deepcopy(self):
        return self

    def forward(self, question):
        return dspy.Prediction(answer=next(self.answers), question=question)


@pytest.fixture
def lm():
    model = Rollouts()
    with dspy.context(lm=model):
        yield model


def test_the_prediction_is_a_sample_with_the_winning_answer(lm):
    module = Canned(["The Cat", "dog", "cat.", "Dog", "a cat", "cat", "cat", "dog"])
    prediction = Vote(module, budget=8, horizon=1, max_traces=8)(question="Which?")
    assert dspy.evaluate.normalize_text(prediction.answer) == "cat"
    assert sum(prediction.vote.votes.values()) == prediction.vote.traces <= 8
    assert prediction.vote.canonical == "cat" and 0 < prediction.vote.certificate <= 1


def test_every_sample_has_a_rollout_of_its_own(lm):
    vote = Vote(Canned(iter(lambda: "same", None)), budget="4x", horizon=1)
    traces = vote(question="Which?").vote.traces
    assert sorted(lm.rollouts) == list(range(1, traces + 1)) and vote.budget.spent == traces


def test_a_program_with_an_event_loop_awaits_it(lm):
    vote = Vote(Canned(iter(lambda: "same", None)), budget="4x")

    async def both():
        return await asyncio.gather(vote.acall(question="one"), vote.acall(question="two"))

    assert [prediction.answer for prediction in asyncio.run(both())] == ["same", "same"]


def test_what_the_module_raises_reaches_the_caller(lm):
    with pytest.raises(Exception, match="no more"):
        Vote(Canned(_failing()), budget="4x")(question="Which?")


def _failing():
    raise RuntimeError("no more")
    yield


def test_answers_are_those_of_dspys_majority():
    assert Normalized().labels(["The Cat", "cat", "", "dog"]) == ["cat", "cat", None, "dog"]


def test_an_evaluation_scores_as_majority_at_a_fixed_number_does_for_less():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    rows = {name: (int(paid), float(score)) for name, paid, score in LINE.findall(done.stdout)}
    assert set(rows) == {"before", "after"}, done.stderr
    (full, majority), (paid, voted) = rows["before"], rows["after"]
    standard_error = 100 * (0.25 / 300) ** 0.5
    assert full == 8 * 300 and paid <= 5 * 300 and voted > majority - 2 * standard_error
