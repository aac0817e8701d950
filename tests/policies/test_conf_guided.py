"""DeepConf online against its paper's words, over whole recorded traces."""

import numpy as np
import pytest

from pets.core.policy import View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.conf_guided import ConfGuided


def by_the_paper(path, confidences, warmup, keep, threshold, cap):
    """Bar from the warm-ups; weigh what reaches it; stop at consensus."""
    bar = np.percentile(confidences[:warmup], 100 - keep)
    for n in range(warmup, cap):
        votes = {}
        for answer, confidence in zip(path[:n], confidences[:n], strict=True):
            if answer is not None and confidence >= bar:
                votes[answer] = votes.get(answer, 0.0) + confidence
        if votes and max(votes.values()) / sum(votes.values()) >= threshold:
            return n
    return cap


@pytest.mark.parametrize("seed", range(40))
def test_it_stops_where_the_paper_does(draws, seed):
    rng = np.random.default_rng(seed)
    share, warmup = rng.uniform(0.4, 1.0), int(rng.choice([4, 16]))
    keep, threshold = float(rng.choice([10, 50, 90])), float(rng.choice([0.6, 0.8, 0.95]))
    path = rng.choice(["A", "B", None], size=64, p=[0.9 * share, 0.9 * (1 - share), 0.1]).tolist()
    confidences = [float(rng.gamma(40.0, 0.25 if answer == "A" else 0.2)) for answer in path]
    policy = ConfGuided(warmup, keep, threshold, cap=60)
    assert draws(policy, path, confidences) == by_the_paper(path, confidences, warmup, keep, threshold, 60)


def test_a_unanimous_warmup_is_the_end(draws):
    assert draws(ConfGuided(), ["A"] * 40, [5.0] * 40) == 16


def test_traces_under_the_bar_have_no_vote(draws):
    answers, confidences = ["A", "B"] * 8, [9.0, 3.0] * 8
    assert ConfGuided(keep=50).answer(Tally.of(answers, confidences)) == "A"
    assert draws(ConfGuided(keep=50), answers * 2, confidences * 2) == 16
    assert draws(ConfGuided(keep=90), answers * 2, confidences * 2) == 32


def test_without_an_answer_it_draws_to_the_smaller_cap(draws):
    assert draws(ConfGuided(cap=50), [None] * 60) == 50
    assert draws(ConfGuided(), [None] * 60, cap=20) == 20
    assert draws(ConfGuided(), [None] * 60, cap=9) == 9
    assert ConfGuided().answer(Tally.of([None], [None])) is None


def test_missing_confidences_follow_the_declared_choice():
    tally = Tally.of(["A", "B", "B", None], [9.0, None, 1.0, None])
    with pytest.raises(InputError, match="trace 1 has no confidence"):
        ConfGuided(warmup=4).weights(tally)
    assert ConfGuided(warmup=4, keep=100, missing="ignore").weights(tally) == [9.0, 0.0, 1.0, 0.0]
    unweighted = ConfGuided(warmup=4, keep=10, missing="unweighted")
    assert unweighted.answer(tally) == "B" and unweighted.quota(tally, View()) == 5


def test_a_failed_trace_needs_no_confidence():
    tally = Tally.of(["A", None, "A", "B"], [6.0, None, 8.0, 2.0])
    assert ConfGuided(warmup=4, keep=50).weights(tally) == [6.0, 0.0, 8.0, 0.0]


def test_answers_without_a_confidence_each_are_refused():
    with pytest.raises(InputError, match="2 answers but 0 confidences"):
        ConfGuided().weights(Tally.of(["A", "B"]))


@pytest.mark.parametrize(
    "options", [{"warmup": 0}, {"cap": 15}, {"keep": 0.0}, {"keep": 101.0}, {"threshold": 1.5}, {"missing": "guess"}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        ConfGuided(**options)
