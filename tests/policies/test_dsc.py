"""Difficulty-Adaptive Self-Consistency against its words, on streams from the hardest to the easiest question."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import beta

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.dsc import DSC
from pets.types import Question, Trace


def settled(path, threshold):
    first, second = ([count for _, count in Counter(a for a in path if a is not None).most_common(2)] + [0, 0])[:2]
    return beta.sf(0.5, first + 1, second + 1) >= threshold


def by_its_words(paths, threshold, cap, run, memory):
    stops = []
    for path in paths:
        opening = 4
        while not settled(["A"] * opening, threshold):
            opening += 4
        if len(stops) >= run and all(stop <= opening for stop in stops[-run:]):
            stops.append(1)
            continue
        size = min(opening, cap)
        while size < cap and not settled(path[:size], threshold):
            ahead = 4 * round(np.mean(stops[-memory:]) / 4) if stops and size == opening else 0
            size = min(cap, max(size + 4, ahead))
        stops.append(size)
    return stops


def stream(policy, paths, cap=None):
    """One question after the other, each added when the last has stopped."""
    allocator = Allocator(policy, Budget(total=64 * len(paths), cap=cap), horizon=len(paths))
    for i, path in enumerate(paths):
        allocator.add(Question(str(i)))
        while launches := allocator.ask(1):
            question, number = launches[0]
            allocator.tell(Trace(question, number, path[number]))
    return [verdict.traces for verdict in allocator.verdicts()]


def ranked(rng, questions):
    """Paths of 64 answers, some of them missing, the least agreed first."""
    shares = np.sort(rng.beta(2.0, 0.5, size=questions))
    return [rng.choice(["A", "B", None], size=64, p=[0.95 * s, 0.95 * (1 - s), 0.05]).tolist() for s in shares]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("threshold", "run", "memory"), [(0.95, 32, 16), (0.8, 5, 3), (0.99, 8, 16)])
def test_it_stops_where_its_words_do(seed, threshold, run, memory):
    paths = ranked(np.random.default_rng(seed), 120)
    policy = DSC(threshold, run=run, memory=memory)
    assert stream(policy, paths) == by_its_words(paths, threshold, 40, run, memory)


def test_a_run_of_easy_questions_leaves_one_trace_for_the_rest():
    assert stream(DSC(run=3), [["A"] * 64] * 8) == [4, 4, 4, 1, 1, 1, 1, 1]


def test_hard_beginnings_do_not_make_the_easy_end_expensive():
    hard, easy = ["A", "B"] * 32, ["A"] * 64
    assert stream(DSC(), [hard] * 20 + [easy] * 40) == [40] * 20 + [4] * 32 + [1] * 8


def test_the_batch_after_the_opening_is_the_mean_of_past_stops():
    tally = Tally((2, 2))
    assert DSC().quota(tally, View()) == 8
    assert DSC().quota(tally, View(stops=(40, 20, 20))) == 28
    assert DSC(memory=2).quota(tally, View(stops=(40, 20, 20))) == 20
    assert DSC().quota(Tally((10, 10)), View(stops=(40,))) == 24


def test_without_an_answer_it_draws_to_the_smaller_cap():
    assert stream(DSC(), [[None] * 64] * 3) == [40] * 3
    assert stream(DSC(), [[None] * 64] * 3, cap=10) == [10] * 3
    assert stream(DSC(cap=3), [[None] * 64]) == [3]


@pytest.mark.parametrize(
    "options", [{"threshold": 0.5}, {"cap": 0}, {"window": 0}, {"run": 65}, {"memory": 0}, {"threshold": np.nan}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        DSC(**options)
