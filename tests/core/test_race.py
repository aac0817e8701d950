"""Races: the width against brute force, and hurry 0 against one at a time under random delays."""

import heapq
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.policy import View
from pets.core.race import MOST_LOOKS, fewest, width, with_leader_votes
from pets.core.tally import Tally, majority
from pets.policies.asc import ASC
from pets.policies.boinf import BoInf
from pets.policies.conf_guided import ConfGuided
from pets.policies.dsc import DSC
from pets.policies.esc import ESC
from pets.policies.its_adaptive import ITSAdaptive
from pets.policies.lead import Lead
from pets.policies.okg import OKG
from pets.policies.online_grid import OnlineGrid
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform

VIEW = View(budget_left=120, questions_left=10, cap=64)
ONE_BY_ONE = [ASC(0.9), ASC(0.85, cap=12), ASC(0.95, form="dirichlet"), Lead(3), BoInf(10.0)]
ANSWERS = st.lists(st.sampled_from(["A", "A", "B", "C", None]), max_size=12)


def tally_of(answers) -> Tally:
    return Tally.of(answers, [1.0] * len(answers), options=4)


def stops_after(policy, answers) -> bool:
    return policy.quota(tally_of(answers), VIEW) <= len(answers)


@pytest.mark.parametrize("policy", ONE_BY_ONE, ids=repr)
@given(answers=ANSWERS)
def test_m_is_where_a_rule_stops_that_is_shown_the_leader_vote_by_vote(policy, answers):
    leader, path, m = majority(answers) or "A", list(answers), 0
    while not stops_after(policy, path):
        path.append(leader)
        m += 1
    assert policy.fewest(tally_of(answers), VIEW) == m


@pytest.mark.parametrize("policy", [ASC(0.8), Lead(3), BoInf(6.0)], ids=repr)
@given(answers=st.lists(st.sampled_from(["A", "B", None]), max_size=5))
def test_no_votes_whatever_settle_a_question_sooner_than_m(policy, answers):
    m = policy.fewest(tally_of(answers), VIEW)
    for votes in range(min(m, 5)):
        assert not any(stops_after(policy, [*answers, *more]) for more in product(["A", "B", "C", None], repeat=votes))


@pytest.mark.parametrize("policy", [*ONE_BY_ONE, PriceRule(warmup=2), OKG()], ids=lambda policy: type(policy).__name__)
@given(answers=ANSWERS, hurry=st.floats(0.0, 4.0), cap=st.none() | st.integers(12, 64))
def test_a_vote_for_the_leader_makes_the_width_fall_by_one(policy, answers, hurry, cap):
    tally = tally_of(answers)
    m = policy.fewest(tally, VIEW, price=-5.0)
    after = policy.fewest(with_leader_votes(tally, 1), VIEW, price=-5.0)
    if m > 1:
        n = tally.returned
        assert after == m - 1
        assert width(n + 1, after, hurry, cap) == max(0, width(n, m, hurry, cap) - 1)


@given(n=st.integers(0, 64), m=st.integers(1, 64), hurry=st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]))
def test_the_width_is_the_formula(n, m, hurry):
    assert width(n, m, hurry) == math.ceil(m + hurry * (n + m))
    assert width(n, 0, hurry) == 0
    assert width(n, m, hurry, cap=n + 1) == 1


@pytest.mark.parametrize("policy", [ASC(0.75), ASC(0.9), ASC(0.97, cap=40), Lead(2), Lead(4)], ids=repr)
def test_hurry_0_launches_and_votes_what_one_at_a_time_does(policy):
    rng = np.random.default_rng(29)
    for _ in range(800):
        theta = rng.dirichlet([0.6] * 4)
        answers = [label or None for label in rng.choice(["A", "B", "C", ""], size=64, p=theta).tolist()]
        delays = rng.lognormal(0.0, rng.uniform(0.0, 1.5), size=64).tolist()
        alone = next((n for n in range(64) if stops_after(policy, answers[:n])), 64)
        back, launched = _race(policy, list(zip(answers, delays, strict=True)), hurry=0.0)
        assert sorted(back) == list(range(alone)) == list(range(launched))


@given(traces=st.lists(st.tuples(st.sampled_from(["A", "A", "B"]), st.floats(0.01, 100.0)), min_size=64))
def test_with_hurry_nothing_is_too_many_before_the_vote_is_settled(traces):
    for hurry in (0.5, 2.0):
        back, launched = _race(ASC(0.9), traces[:64], hurry)
        assert stops_after(ASC(0.9), [traces[j][0] for j in back]) or launched == 64


def _race(policy, traces, hurry) -> tuple[list[int], int]:
    """The traces that are back when the vote is settled, in the order of their return, and how many were launched."""
    back: list[int] = []
    flying: list[tuple[float, int]] = []
    launched, now, cap = 0, 0.0, len(traces)
    while m := policy.fewest(tally_of([traces[j][0] for j in back]), View(cap=cap)):
        room = width(len(back), m, hurry, cap)
        assert len(flying) <= room
        while len(flying) < room:
            heapq.heappush(flying, (now + traces[launched][1], launched))
            launched += 1
        now, trace = heapq.heappop(flying)
        back.append(trace)
    return back, launched


def test_an_index_policy_is_settled_at_the_price_in_force():
    okg, tally = OKG(prior=1.0), Tally((3, 1), options=4)
    path = [okg.index(Tally((3 + votes, 1), options=4), VIEW) for votes in range(8)]
    for votes, price in enumerate(path):
        assert okg.fewest(tally, VIEW, price) == votes
    assert okg.fewest(tally, View(cap=6)) == 2  # at any price, until the cap
    assert okg.fewest(tally, View()) == MOST_LOOKS


def test_what_is_pending_is_not_back():
    assert Lead(4).fewest(Tally((1,), pending=3), VIEW) == 3
    assert OKG().fewest(Tally((2,), pending=3, options=4), VIEW, -4.0) == OKG().fewest(
        Tally((2,), options=4), VIEW, -4.0
    )


def test_the_warm_up_comes_first():
    assert PriceRule(warmup=4).fewest(Tally(options=4), View(10_000, 10_000, 64)) == 4


def test_batches_of_a_rule_are_whole():
    assert ITSAdaptive().fewest(Tally(), VIEW) == 2
    assert ITSAdaptive().fewest(Tally((1, 1)), VIEW) == 2
    assert ESC(window=5).fewest(tally_of("AB"), VIEW) == 8
    assert DSC().fewest(Tally(), VIEW) == 4
    assert Uniform().fewest(Tally((2,)), View(32, 2)) == 14


def test_a_limit_of_rounds_is_one_batch_and_then_the_end():
    grid = OnlineGrid()
    assert grid.fewest(Tally((1,)), VIEW) == 3
    assert grid.fewest(Tally((2, 2)), VIEW) == grid.quota(Tally((2, 2)), VIEW) - 4
    assert grid.fewest(Tally((2, 2), rounds=1), VIEW) == 0


def test_a_policy_that_sees_traces_is_shown_the_leader_as_sure_as_before():
    tally = Tally.of(["A", "B", "A"], [8.0, 1.0, 4.0])
    assert with_leader_votes(tally, 2).confidences == (8.0, 1.0, 4.0, 6.0, 6.0)
    assert with_leader_votes(Tally(), 1).answers == ("A",)
    assert ConfGuided(warmup=4).fewest(Tally(), VIEW) == 4


def test_a_rule_that_never_stops_is_asked_so_many_times_at_most():
    asked = []
    assert fewest(lambda tally: asked.append(tally) or 2, Tally()) == 2 * MOST_LOOKS == 2 * len(asked)
