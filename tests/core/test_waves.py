"""Plans of waves: within the budget, the best for one wave, a price for more; equal shares for policies without one."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.sequential_design import Mixture, SequentialDesign
from pets.core.tally import Tally
from pets.core.waves import Wave, dealt_shares, fill_up, plan_wave

FLAT = Mixture(2, (1.0,), (1.0,))
LEARNED = Mixture(4, (0.02, 0.2, 1.0), (0.5, 0.3, 0.2))


def of(mixture):
    return lambda tally: mixture


def total(plan):
    return sum(map(sum, plan.values()))


@pytest.mark.parametrize("budget", [1, 3, 5, 8, 12])
def test_the_last_wave_is_as_good_as_any_allocation_of_the_budget(budget):
    """Exhaustive search over three questions; a step of an envelope may be left half-way, but no further."""
    tallies = [Tally((1,), options=2), Tally((2, 1), options=2), Tally((2, 2), options=2)]
    plan = plan_wave(of(FLAT), dict.fromkeys(tallies, 1), Wave(budget, 1, cap=12))
    design = SequentialDesign(FLAT, 12)

    def doubt(tally, k):
        t = tally.votes
        look = design.looks({t: design.rows([tally.counts])}, np.zeros(1), 1, range(1, 13))[t]
        return look.cost[0, look.ends.tolist().index(t + k), 0]

    table = {tally: [doubt(tally, k) for k in range(min(budget, 12 - tally.votes) + 1)] for tally in tallies}
    sizes = product(*(range(len(table[tally])) for tally in tallies))
    best = min(sum(table[q][k] for q, k in zip(tallies, ks, strict=True)) for ks in sizes if sum(ks) <= budget)
    reached = sum(table[tally][plan[tally][0]] for tally in tallies)
    assert total(plan) == budget and reached <= best + 0.02


def test_one_wave_without_data_gives_every_question_the_same():
    plan = plan_wave(of(LEARNED), {Tally(options=4): 10}, Wave(90, 1, cap=64))
    assert total(plan) == 90 and {min(sizes := plan[Tally(options=4)]), max(sizes)} <= {7, 8, 9, 10, 11}


def test_with_waves_to_come_the_first_leaves_something_for_them():
    first = [total(plan_wave(of(LEARNED), {Tally(options=4): 100}, Wave(900, left, 64))) for left in (1, 2, 4, 8)]
    assert first[0] == 900 > first[1] > first[2] > 0 and first[3] < 400


def test_clear_questions_get_nothing_and_equal_ones_the_same_or_nearly():
    close, clear, fresh = Tally((3, 3), options=4), Tally((9,), options=4), Tally(options=4)
    plan = plan_wave(of(LEARNED), {close: 5, clear: 5, fresh: 5}, Wave(80, 3, 64))
    assert plan[clear] == [0] * 5 and min(plan[close]) > 0 and min(plan[fresh]) > 0


def test_expected_spend_meets_the_budget():
    """Play the plan on questions drawn from the prior: what is left for the last wave is what the plan expected."""
    rng, spends = np.random.default_rng(0), []
    for _ in range(10):
        thetas = [rng.dirichlet([LEARNED.strengths[rng.choice(3, p=LEARNED.shares)]] * 4) for _ in range(60)]
        counts = [np.zeros(4, dtype=int) for _ in thetas]
        left = 480
        for waves in (4, 3, 2, 1):
            states = {}
            for n in counts:
                tally = Tally(tuple(sorted((int(v) for v in n if v), reverse=True)), options=4)
                states.setdefault(tally, []).append(n)
            plan = plan_wave(of(LEARNED), {tally: len(rows) for tally, rows in states.items()}, Wave(left, waves, 64))
            if waves == 1:
                spends.append(left)
            left -= total(plan)
            place = {id(n): theta for n, theta in zip(counts, thetas, strict=True)}
            for tally, rows in states.items():
                for n, size in zip(rows, plan[tally], strict=True):
                    n += rng.multinomial(size, place[id(n)])
        assert left == 0
    assert 20 < np.mean(spends) < 140  # neither starved nor flooded


STATES = st.dictionaries(
    st.builds(
        lambda counts, nulls, pending, options: Tally(tuple(sorted(counts, reverse=True)), nulls, pending, options),
        st.lists(st.one_of(st.integers(1, 9), st.integers(1, 300)), max_size=6),
        st.integers(0, 5),
        st.integers(0, 9),
        st.sampled_from([None, 2, 3, 4, 10]),
    ),
    st.integers(1, 20),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(STATES, st.integers(0, 600), st.integers(1, 12), st.sampled_from([None, 1, 7, 64, 400]))
def test_any_states_are_planned_within_budget_and_cap(states, budget, left, cap):
    def prior(tally):
        return Mixture(tally.options or 8, (0.02, 0.3, 1.6), (0.5, 0.3, 0.2))

    plan = plan_wave(prior, states, Wave(budget, left, cap))
    assert {tally: len(sizes) for tally, sizes in plan.items()} == states
    room = sum(many * max(0, (1 << 30 if cap is None else cap) - tally.launched) for tally, many in states.items())
    assert min(min(sizes) for sizes in plan.values()) >= 0 and total(plan) <= min(budget, room)
    for tally, sizes in plan.items():
        assert cap is None or max(sizes) <= max(0, cap - tally.launched)
    if left == 1:
        assert total(plan) == min(budget, room)


def test_what_is_in_flight_is_not_bought_again():
    idle, waiting = (Tally((2, 2), pending=p, options=4) for p in (0, 6))
    plan = plan_wave(of(LEARNED), {idle: 4, waiting: 4}, Wave(60, 2, 64))
    assert sum(plan[waiting]) < sum(plan[idle])


def test_questions_whose_traces_seldom_vote_get_fewer_votes_than_their_doubt_asks_for():
    votes, silent = Tally((1, 1), options=4), Tally((1, 1), nulls=12, options=4)
    plan = plan_wave(of(LEARNED), {votes: 4, silent: 4}, Wave(24, 2, 64))
    assert sum(plan[silent]) * 3 / 15 < sum(plan[votes])  # a fifth of them is expected to vote


def test_equal_shares_go_where_the_index_with_what_was_dealt_pending_is_highest():
    states = {Tally((3, 2)): 2, Tally((9,)): 1, Tally(): 1}
    plan = dealt_shares(lambda tally: -tally.launched, states, Wave(budget=30, left=3))
    assert plan == {Tally((3, 2)): [2, 2], Tally((9,)): [0], Tally(): [6]}


def test_equal_shares_keep_to_the_cap_and_leave_out_what_is_never_served():
    states = {Tally((3,)): 1, Tally((1, 1)): 1}
    plan = dealt_shares(lambda tally: -math.inf if tally.counts == (3,) else 1.0, states, Wave(99, 1, cap=6))
    assert plan == {Tally((3,)): [0], Tally((1, 1)): [4]}


def test_what_nobody_asks_for_goes_to_those_with_the_fewest_traces():
    many, few = Tally((10,), options=2), Tally((2,), options=2)
    assert fill_up({many: [0], few: [0, 0]}, 1, None) == {many: [0], few: [1, 0]}
    assert fill_up({many: [0], few: [0, 0]}, 18, 11) == {many: [1], few: [9, 8]}
