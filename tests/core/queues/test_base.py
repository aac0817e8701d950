"""What every queue answers, whichever kind of policy it serves."""

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.queues import ReplicaTotals
from pets.errors import StateError
from pets.policies.okg import OKG
from pets.policies.okg_weighted import OKGWeighted
from pets.policies.uniform import Uniform
from pets.types import Question

POLICIES = [OKG(), OKG(waves=2), OKGWeighted(), Uniform()]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_every_queue_serves_what_was_added_and_nothing_that_was_removed(policy):
    horizon = None if policy.waves else 2
    allocator = Allocator(policy, Budget(20), [Question(id, options=2) for id in "ab"], horizon=horizon)
    allocator.withdraw("a")
    launches = allocator.ask(4)
    assert launches and {launch.question for launch in launches} == {"b"}
    assert [verdict.question for verdict in allocator.verdicts()] == ["b"]
    assert 0 <= allocator.spare <= 20 and allocator.wave == 0


@pytest.mark.parametrize("policy", POLICIES[:3], ids=repr)
def test_a_queue_that_compares_all_questions_shares_no_stream(policy):
    with pytest.raises(StateError, match="nothing is shared"):
        Allocator(policy, Budget(20)).sync_replicas(ReplicaTotals(arrived=1))


def test_only_a_queue_with_waves_begins_one():
    allocators = [Allocator(policy, Budget(20)) for policy in POLICIES]
    assert [allocator.next_wave(extra=True) for allocator in allocators] == [False, True, False, False]


def test_totals_of_replicas_add_up():
    assert sum([ReplicaTotals(arrived=1, spent=2), ReplicaTotals(spent=3)], ReplicaTotals()) == ReplicaTotals(
        1, spent=5
    )
