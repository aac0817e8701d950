"""Walked streams against the allocator itself."""

from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from pets.core.policy import QuotaPolicy
from pets.errors import BudgetError
from pets.policies.price import Price
from pets.registry import make_policy
from pets.replay.config import ReplayConfig
from pets.replay.contenders import split
from pets.replay.draws import draw
from pets.replay.drivers import stream_sizes
from pets.replay.labelled import read_answers
from pets.replay.stopping import States
from pets.replay.streams import Prefixes, walked_sizes

ARRIVALS = (5, 1, 9, 0, 11, 3, 7)
SPECS = ["uniform", "dsc:cap=8", "dsc:threshold=0.8,run=2", "price:rounds=1", "online_grid", "online_grid:K=2"]
SPECS += ["price", "price:rounds=3", "price:rounds=2,warmup=2", "price:prior=1", "price:prior=1,rounds=2"]


@pytest.fixture(params=["tokens", "no tokens", "some tokens"])
def drawn(request, build):
    made = read_answers(build(tokens=request.param != "no tokens"))
    if request.param == "some tokens":
        made = with_a_silent_length(made)
    return draw(made, ReplayConfig(size=8), 1)


def with_a_silent_length(pool):
    """A pool of which one question's tokens were not recorded."""
    first, *rest = pool.questions
    return replace(pool, questions=(replace(first, tokens=None), *rest))


@pytest.mark.parametrize("spec", SPECS)
def test_a_walk_gives_what_the_allocator_gives(drawn, spec):
    parts = split(drawn.pool, ReplayConfig(size=8, train=5), 1)
    policy, prefixes = make_policy(spec).fit(parts.training()), Prefixes(drawn, States())
    for total in (28, 31, 40, 56, 90):
        expected = stream_sizes(policy, drawn, ARRIVALS, total, 3)
        assert walked_sizes(policy, prefixes, ARRIVALS, total, 3).tolist() == expected.tolist()


@pytest.mark.parametrize("total", [3, 13, 32, 90])
def test_a_budget_of_less_than_a_trace_per_question_is_walked_too(drawn, total):
    policy = make_policy("uniform")
    expected = stream_sizes(policy, drawn, ARRIVALS, total, 0)
    assert walked_sizes(policy, Prefixes(drawn, States()), ARRIVALS, total, 0).tolist() == expected.tolist()


class Asks(QuotaPolicy):
    """Wants what a checksum says of all that it is shown."""

    def __init__(self, seed, warmup, rounds):
        self.seed, self._warmup, self._rounds = seed, warmup, rounds

    warmup = property(lambda self: self._warmup)
    rounds = property(lambda self: self._rounds)

    def quota(self, tally, view):
        return tally.launched + crc32(f"{self.seed} {tally} {view}".encode()) % 5 - 0.5


def test_a_policy_is_asked_the_same_at_every_step(drawn):
    rng, prefixes = np.random.default_rng(0), Prefixes(drawn, States())
    for seed in range(40):
        warmup, rounds, extra = rng.integers(0, [10, 4, 60]).tolist()
        policy, total = Asks(seed, warmup, rounds), warmup * len(ARRIVALS) + extra
        expected = stream_sizes(policy, drawn, ARRIVALS, total, seed)
        assert walked_sizes(policy, prefixes, ARRIVALS, total, seed).tolist() == expected.tolist()


def test_more_questions_than_a_block_of_coins(build):
    pool = read_answers(build(questions=1030, traces=8))
    drawn, arrivals = draw(pool, ReplayConfig(size=8), 0), range(1030)
    policy = make_policy("online_grid")
    expected = stream_sizes(policy, drawn, arrivals, 5000, 7)
    assert walked_sizes(policy, Prefixes(drawn, States()), arrivals, 5000, 7).tolist() == expected.tolist()


def test_a_policy_that_sees_traces_is_left_to_the_allocator(drawn):
    policy = make_policy("esc:window=2,cap=8")
    expected = stream_sizes(policy, drawn, ARRIVALS, 40, 3)
    assert walked_sizes(policy, Prefixes(drawn, States()), ARRIVALS, 40, 3).tolist() == expected.tolist()


def test_a_budget_that_cannot_warm_all_up_is_refused_as_the_allocator_does(drawn):
    with pytest.raises(BudgetError, match="warm-up of 4 traces for 7 questions"):
        walked_sizes(Price(), Prefixes(drawn, States()), ARRIVALS, 27, 0)
