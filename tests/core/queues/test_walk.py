"""The fast path of quota policies against the allocator itself, step by step."""

from zlib import crc32

import numpy as np
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import QuotaPolicy, Training
from pets.core.queues.walk import States, Walk
from pets.registry import make_policy, policies
from pets.types import Question, Trace

ARRIVALS = (5, 1, 9, 0, 11, 3, 7)
SPECS = ["uniform", "dsc:cap=8", "dsc:threshold=0.8,run=2", "price:rounds=1", "online_grid", "online_grid:K=2"]
SPECS += ["price", "price:rounds=3", "price:rounds=2,warmup=2", "price:prior=1", "price:prior=1,rounds=2"]
SPECS += ["price:rounds=2,use_up=true,leave=3"]
SOLITARY = sorted(name for name, policy in policies().items() if issubclass(policy, QuotaPolicy) and policy.solitary)


def recorded(questions=12, traces=8, *, nulls=0.1, tokens=True, seed=0):
    """Paths of questions from Dir(1/2) over three answers; some traces give none."""
    rng = np.random.default_rng(seed)
    paths = {}
    for q in range(questions):
        theta = rng.dirichlet([0.5] * 3)
        answers = [None if rng.random() < nulls else "ABC"[rng.choice(3, p=theta)] for _ in range(traces)]
        lengths = rng.integers(10, 99, traces).tolist() if tokens else [0] * traces
        confidences = rng.uniform(5, 20, traces).tolist()
        paths[f"q{q}"] = [
            Trace(f"q{q}", n, answer, confidence, tokens=length)
            for n, (answer, confidence, length) in enumerate(zip(answers, confidences, lengths, strict=True))
        ]
    return paths


def streamed(policy, paths, rows, total, seed, options=3):
    """What the allocator gives questions that arrive one by one, each after the last has stopped."""
    cap = len(paths["q0"])
    allocator = Allocator(policy, Budget(total, cap), horizon=len(rows), seed=seed)
    sizes = []
    for id in (f"q{row}" for row in rows):
        allocator.add(Question(id, options=options))
        while launches := allocator.ask(cap):
            for launch in launches:
                allocator.tell(paths[id][launch.number])
        sizes.append(allocator.verdict(id).traces)
    return sizes


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("tokens", [True, False])
def test_arrivals_are_given_what_the_allocator_gives(spec, tokens):
    paths = recorded(tokens=tokens)
    training = [[trace.answer for trace in path] for path in recorded(questions=5, traces=24, seed=1).values()]
    policy, walk = make_policy(spec).fit(Training(training, options=3)), Walk(paths, 3)
    for total in (28, 31, 40, 56, 90):
        assert walk.arrivals(policy, ARRIVALS, total, 3).tolist() == streamed(policy, paths, ARRIVALS, total, 3)


@pytest.mark.parametrize("total", [3, 13, 32, 90])
def test_a_budget_of_less_than_a_trace_per_question_is_walked_too(total):
    paths, policy = recorded(), make_policy("uniform")
    expected = streamed(policy, paths, ARRIVALS, total, 0)
    assert Walk(paths, 3).arrivals(policy, ARRIVALS, total, 0).tolist() == expected


class Asks(QuotaPolicy):
    """Wants what a checksum says of all that it is shown."""

    def __init__(self, seed, warmup, rounds):
        self.seed, self._warmup, self._rounds = seed, warmup, rounds

    warmup = property(lambda self: self._warmup)
    rounds = property(lambda self: self._rounds)

    def quota(self, tally, view):
        return tally.launched + crc32(f"{self.seed} {tally} {view}".encode()) % 5 - 0.5


@pytest.mark.parametrize("tokens", [True, False])
def test_a_policy_is_asked_the_same_at_every_step(tokens):
    rng, paths = np.random.default_rng(0), recorded(tokens=tokens)
    walk = Walk(paths, 3)
    for seed in range(40):
        warmup, rounds, extra = rng.integers(0, [10, 4, 60]).tolist()
        policy, total = Asks(seed, warmup, rounds), warmup * len(ARRIVALS) + extra
        assert walk.arrivals(policy, ARRIVALS, total, seed).tolist() == streamed(policy, paths, ARRIVALS, total, seed)


def test_more_questions_than_a_block_of_coins():
    paths, rows = recorded(questions=1030), range(1030)
    policy = make_policy("online_grid")
    assert Walk(paths, 3).arrivals(policy, rows, 5000, 7).tolist() == streamed(policy, paths, rows, 5000, 7)


@pytest.mark.parametrize("name", SOLITARY)
def test_a_solitary_rule_stops_where_the_allocator_stops(name):
    option, values = policies()[name].sweep
    states = States()
    for seed in range(3):
        paths = recorded(traces=30, nulls=0.2, seed=seed)
        walk = Walk(paths, 3, states)
        for value in values:
            rule = policies()[name](**{option: value, "cap": 30})
            allocator = Allocator(rule, Budget(30 * 12, 30), [Question(id, options=3) for id in paths])
            while launches := allocator.ask(7):
                for launch in launches:
                    allocator.tell(paths[launch.question][launch.number])
            assert walk.stops(rule).tolist() == [allocator.verdict(id).traces for id in paths], (name, value)


def test_every_state_is_counts_and_no_answers():
    paths = recorded(traces=12, nulls=0.3)
    walk = Walk(paths, 3)
    for row, path in enumerate(paths.values()):
        for n in range(13):
            answers = [trace.answer for trace in path[:n]]
            counts = sorted((answers.count(a) for a in set(answers) - {None}), reverse=True)
            assert walk.states.keys[walk.along[row][n]] == (tuple(counts), answers.count(None))
