"""The clock: races on recorded lengths, against one at a time and against what can be counted by hand."""

from dataclasses import replace

import numpy as np
import pytest

from pets.core.policy import View
from pets.core.queues.walk import States, Walk
from pets.errors import InputError
from pets.lab import replay
from pets.lab.clock import (
    ALL,
    FixedVotes,
    RacePace,
    by_state,
    paced,
    race,
    race_alone,
    race_arrivals,
    race_batch,
    timed,
)
from pets.lab.config import ReplayConfig
from pets.lab.draws import draw_traces
from pets.lab.labelled import read_answers
from pets.policies.asc import ASC
from pets.policies.esc import ESC
from pets.policies.okg import OKG
from pets.policies.price import PriceRule
from pets.types import Trace

TOKENS = (5, 1, 4, 2, 3)


@pytest.fixture
def draw(pool):
    return draw_traces(timed(read_answers(pool)), ReplayConfig(size=16), 0)


def path_of(answers, tokens=TOKENS):
    return [Trace("q", n, answer, tokens=tokens[n]) for n, answer in enumerate(answers)]


def first_back(votes):
    return lambda state, back, tokens: max(0, votes - len(back))


def test_all_at_once_takes_as_long_as_the_longest():
    finish = race(path_of("AABBA"), first_back(5), RacePace(), States())
    assert (finish.back, finish.time, finish.tokens, finish.parts) == ((1, 3, 4, 2, 0), 5, sum(TOKENS), ())


def test_one_at_a_time_takes_the_sum():
    finish = race(path_of("AABBA"), first_back(3), RacePace(places=1), States())
    assert (finish.back, finish.time, finish.tokens) == ((0, 1, 2), 10, 10)


def test_the_first_of_several_pay_for_what_the_others_have_written():
    finish = race(path_of("AABBA"), first_back(2), RacePace(ALL, launches=4), States())
    assert (finish.back, finish.time, sorted(finish.parts)) == ((1, 3), 2, [2, 2])
    assert finish.tokens == 1 + 2 + 2 + 2


def test_a_batch_waits_for_its_last_trace():
    finish = race(path_of("AABBA"), first_back(3), RacePace(batch=0.5), States())  # 2, then 1
    assert (finish.back, finish.time) == ((1, 0, 2), 5 + 4)


@pytest.mark.parametrize("threshold", [0.76, 0.88, 0.95])
def test_hurry_0_has_the_traces_of_one_at_a_time_in_less_time(draw, threshold):
    rule, states = ASC(threshold, cap=16), States()
    stops = Walk(draw.traces, draw.pool.options, states).stops(rule)
    alone, raced = (race_alone(rule, draw, pace, states) for pace in (RacePace(places=1), RacePace()))
    assert [len(finish.back) for finish in alone] == stops.tolist()
    for one, other in zip(alone, raced, strict=True):
        assert sorted(other.back) == list(one.back)
        assert not other.parts and other.tokens == one.tokens == one.time
        assert other.time <= one.time
    assert sum(finish.time for finish in raced) < 0.8 * sum(finish.time for finish in alone)


def test_hurry_takes_tokens_and_saves_time(draw):
    totals = [
        (sum(f.tokens for f in finishes), sum(f.time for f in finishes))
        for finishes in (race_alone(ASC(0.9, cap=16), draw, RacePace(h), States()) for h in (0.0, 0.5, 2.0))
    ]
    assert totals[0][0] < totals[1][0] < totals[2][0] and totals[0][1] > totals[1][1] > totals[2][1]


def test_places_bound_what_is_in_flight(draw):
    wide, narrow = (race_alone(ASC(0.9, cap=16), draw, RacePace(1.0, places), States()) for places in (64, 2))
    assert max(len(finish.parts) for finish in narrow) <= 1 < max(len(finish.parts) for finish in wide)


def test_a_rule_is_asked_once_for_each_state():
    states, asked = States(), []

    class Counting(ASC):
        def fewest(self, tally, view, price=0.0):
            asked.append(tally.counts)
            return super().fewest(tally, view, price)

    fewest = by_state(Counting(0.9), states, None, View(cap=16))
    finishes = [race(path_of("AAAAA"), fewest, RacePace(), states) for _ in range(3)]
    assert len(set(finishes)) == 1 and asked == [(), (1,), (2,), (3,)]


def test_a_policy_that_sees_traces_races_too(draw):
    assert all(len(finish.back) % 4 == 0 for finish in race_alone(ESC(window=4, cap=16), draw, RacePace(), States()))


def test_questions_that_arrive_keep_to_the_budget(draw):
    rows, total = list(range(len(draw.paths))), 72
    for pace in (RacePace(places=1), RacePace(), RacePace(1.0)):
        finishes = race_arrivals(PriceRule(warmup=2), draw, pace, States(), rows, total, seed=0)
        assert sum(len(finish.back) for finish in finishes) <= total
    assert all(len(finish.back) >= 2 for finish in finishes)


def test_price_with_rounds_goes_out_in_so_many_batches(draw):
    rule = PriceRule(rounds=1)
    finishes = race_arrivals(rule, draw, RacePace(batch=1.0), States(), [0], 12, seed=0)
    path = next(iter(draw.traces.values()))
    warmup = max(trace.tokens for trace in path[:4])
    rest = [trace.tokens for trace in path[4 : len(finishes[0].back)]]
    assert finishes[0].time == warmup + max(rest, default=0)


def test_failed_requests_are_left_out_and_a_pool_without_lengths_is_refused(build):
    read = read_answers(build(tokens=False))
    with pytest.raises(InputError, match='has no "tokens"; a clock needs the length'):
        timed(read)
    pool = read_answers(build(questions=1))
    question = pool.questions[0]
    dead = (*question.tokens[1:], 0)
    kept = timed(replace(pool, questions=(replace(question, tokens=dead),))).questions[0]
    assert kept.tokens == question.tokens[1:] and kept.labels == question.labels[:-1]


@pytest.mark.parametrize("spec", ["all:many", "asc:hurry=x", "short_m:8", "asc:hurry=-1"])
def test_a_pace_that_is_none_is_refused(spec):
    with pytest.raises(InputError, match="is no number, 0 or more"):
        paced(spec)


def test_specs_name_paces_and_rivals():
    assert paced("its_beta:threshold=0.9") == ("asc:threshold=0.9", RacePace(ALL, launches=32))
    assert paced("short_m:3/9") == (FixedVotes(3), RacePace(ALL, launches=9))
    assert paced("okg:prior=1") == ("okg:prior=1", None)


def test_a_replay_on_the_clock_has_times_in_the_questions_own_traces(pool):
    specs = ["asc:threshold=0.9,places=1", "asc:threshold=0.9", "all:8", "price:hurry=0.5"]
    (found,) = replay([pool], specs, clock=True, repetitions=3, size=16, train=4, budgets=(4.0, 8.0))
    alone, raced, together, price = found.results
    assert [raced.option, raced.values[:2], price.option, price.values] == ["hurry", (0.0, 0.25), "budget", (4.0, 8.0)]
    assert (raced.agree[:, 0] == alone.agree[:, 0]).all() and (raced.tokens[:, 0] == alone.tokens[:, 0]).all()
    assert np.allclose(alone.on_clock["trace_tokens"], alone.on_clock["time"])
    assert np.allclose(together.on_clock["trace_tokens"].mean(), 8.0, rtol=0.1)
    assert (raced.on_clock["cancelled"][:, 0] == 0).all() and (raced.on_clock["cancelled"][:, -1] > 0).all()
    assert price.questions == len(pool.questions) - 4


@pytest.mark.parametrize(("spec", "match"), [("dsc", "looks at the questions before"), ("okg:batch=2", "say waves=")])
def test_what_does_not_race_is_refused(pool, spec, match):
    with pytest.raises(InputError, match=match):
        replay([pool], [spec], clock=True)


def test_questions_under_one_budget_race_as_they_do_live(pool):
    specs = [
        "okg:places=8",
        "okg:hurry=1,places=8",
        "okg:hurry=1,places=32",
        "okg:waves=3,places=8",
        "uniform:places=8",
    ]
    (found,) = replay([pool], specs, clock=True, repetitions=2, size=16, budgets=(4.0, 6.0))
    calm, hurried, wide, waves, uniform = found.results
    assert calm.option == "budget" and calm.values == (4.0, 6.0) and calm.questions == len(pool.questions)
    assert (calm.on_clock["cancelled"] == 0).all() and (waves.on_clock["cancelled"] == 0).all()
    assert (hurried.on_clock["cancelled"] > 0).any()
    assert (wide.on_clock["time"].mean(axis=0) < hurried.on_clock["time"].mean(axis=0)).all()
    assert (uniform.spent == np.array([4, 6]) * len(pool.questions)).all()
    (over_hurries,) = replay([pool], ["okg"], clock=True, repetitions=1, size=16)[0].results
    assert over_hurries.option == "hurry"


def test_the_budget_of_a_raced_batch_pays_for_cancelled_parts_and_is_kept(pool):
    config = ReplayConfig(1, 16, clock=True)
    draw = draw_traces(timed(read_answers(pool)), config, 0)
    total = 6 * len(draw.paths)
    finishes = race_batch(OKG(), draw, RacePace(hurry=1.0, places=16), total, seed=0)
    voted, cancelled = sum(len(f.back) for f in finishes), sum(len(f.parts) for f in finishes)
    assert cancelled > 0 and voted < total <= voted + cancelled
    assert len({f.time for f in finishes}) == 1
