"""What the mock can say: recorded traces by seed, known distributions, and nothing that depends on the process."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pets.errors import InputError
from pets.mock import DistributionAnswers, PoolAnswers, synthetic
from pets.pools import Pool, PooledQuestion

ANSWERS = st.lists(st.sampled_from(["A", "B", "C", None]), min_size=1, max_size=40)


def recorded(answers, **rest):
    lengths = tuple(range(10, 10 + len(answers)))
    return PoolAnswers(Pool("p", (PooledQuestion("q", tuple(answers), tokens=lengths, gold="A"),)), **rest)


@given(ANSWERS, st.integers(0, 2**40))
def test_seeds_that_count_up_draw_every_recorded_trace_once(answers, start):
    start -= start % 65_536  # within a stretch of seeds that walk in one order
    source = recorded(answers)
    drawn = [source.draw("q", start + 100 + at) for at in range(len(answers))]
    assert sorted(spec.tokens for spec in drawn) == list(range(10, 10 + len(answers)))
    assert all(spec.answer == answers[spec.tokens - 10] for spec in drawn)


def test_the_walk_is_shuffled_and_another_far_off():
    answers = recorded(["A"] * 50)
    near, far = ([answers.draw("q", start + at).tokens for at in range(50)] for start in (0, 1 << 20))
    assert near != sorted(near) and near != far
    assert abs(np.corrcoef(near, far)[0, 1]) < 0.4


@pytest.mark.parametrize("stride", [1, 64, 1 << 16, 1_000_003])
def test_over_spaced_seeds_answers_come_as_often_as_they_were_recorded(stride):
    answers = recorded(["A"] * 31 + ["B"] * 20 + [None] * 10)  # 61: prime, so that no stride here skips traces
    drawn = Counter(answers.draw("q", stride * at).answer for at in range(6100))
    assert chisquare([drawn["A"], drawn["B"], drawn[None]], [3100, 2000, 1000]).pvalue > 1e-4


def test_temperature_zero_says_the_vote_of_the_pool():
    assert recorded([None, "B", "A", "A", "B"]).greedy("q").answer == "B"
    assert recorded([None, None]).greedy("q").answer is None
    assert recorded(["A"]).gold("q") == "A"


def test_lengths_that_were_not_recorded_are_drawn_around_the_mean():
    answers = PoolAnswers(Pool("p", (PooledQuestion("q", ("A",) * 400),)), tokens=100)
    lengths = [answers.draw("q", seed).tokens for seed in range(400)]
    assert min(lengths) >= 50 and max(lengths) <= 150 and np.mean(lengths) == pytest.approx(100, abs=6)


def test_known_answers_come_with_their_probabilities_and_seeds_are_independent():
    answers = DistributionAnswers({"q": {"yes": 0.5, "no": 0.3}, "r": {"yes": 0.5, "no": 0.3}})
    first, second = ([answers.draw(id, seed).answer for seed in range(5000)] for id in ("q", "r"))
    assert chisquare([first.count(one) for one in ("yes", "no", None)], [2500, 1500, 1000]).pvalue > 1e-4
    for one, other in ((first, second), (first[1:], first[:-1])):
        pairs = np.corrcoef([[answer == "yes" for answer in side] for side in (one, other[: len(one)])])
        assert abs(pairs[0, 1]) < 0.06
    assert answers.greedy("q").answer == "yes" and answers.gold("q") is None
    assert (
        DistributionAnswers({"q": {}}).greedy("q").answer
        is None
        is DistributionAnswers({"q": {"A": 0.0}}).greedy("q").answer
    )


def test_made_up_questions_are_the_same_for_the_same_seed():
    one, same, other = (synthetic(3, 5, 0.5, seed=seed) for seed in (1, 1, 2))
    draws = [[answers.draw("q2", seed) for seed in range(50)] for answers in (one, same, other)]
    assert draws[0] == draws[1] != draws[2]


def test_draws_do_not_depend_on_the_process():
    code = "from pets.mock import synthetic; b = synthetic(2); print([b.draw('q1', s).answer for s in range(20)])"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout and "'A'" in runs[0].stdout


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DistributionAnswers({}),
        lambda: DistributionAnswers({"q": {"A": 0.8, "B": 0.3}}),
        lambda: DistributionAnswers({"q": {"A": -0.1}}),
        lambda: DistributionAnswers({"q": {"A": float("nan")}}),
        lambda: DistributionAnswers({"q": {"A": "0.5"}}),
        lambda: DistributionAnswers({"q": {"": 0.5}}),
        lambda: DistributionAnswers({"": {"A": 0.5}}),
        lambda: DistributionAnswers({"q": {"A": 1}}, tokens=0),
        lambda: synthetic(0),
        lambda: synthetic(5, options=27),
        lambda: synthetic(5, strength=0),
    ],
)
def test_a_book_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InputError):
        wrong()
