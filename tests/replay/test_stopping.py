"""Stop sizes worked out from prefixes are what the allocator does."""

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import QuotaPolicy
from pets.registry import policies
from pets.replay.config import ReplayConfig
from pets.replay.contenders import contenders
from pets.replay.draws import draw
from pets.replay.labelled import read_answers
from pets.replay.stopping import States, stop_sizes

SOLITARY = sorted(name for name, policy in policies().items() if issubclass(policy, QuotaPolicy) and policy.solitary)


@pytest.mark.parametrize("name", SOLITARY)
def test_stop_sizes_equal_the_allocators(name, build):
    (contender,) = contenders([name])
    states = States()
    for seed in range(3):
        pool = read_answers(build(traces=40, nulls=0.2, confidence=True, seed=seed, kind="choice"))
        drawn = draw(pool, ReplayConfig(size=30), seed)
        for value in contender.values:
            rule = contender.rule(value, 30)
            allocator = Allocator(rule, Budget(30 * 12, 30), drawn.questions())
            while launches := allocator.ask(7):
                for launch in launches:
                    allocator.tell(drawn.traces[launch.question][launch.number])
            spent = [allocator.verdict(question.id).traces for question in drawn.pool.questions]
            assert stop_sizes(rule, drawn, states).tolist() == spent, (name, value)


def test_every_state_is_counts_and_no_answers(build):
    drawn = draw(read_answers(build(nulls=0.3)), ReplayConfig(size=12), 0)
    states = States()
    along = states.along(drawn)
    for row, path in enumerate(drawn.traces.values()):
        for n in range(13):
            answers = [trace.answer for trace in path[:n]]
            counts = sorted((answers.count(a) for a in set(answers) - {None}), reverse=True)
            assert states.keys[along[row, n]] == (tuple(counts), answers.count(None))
