"""What every queue answers, whichever kind of policy it serves."""

import pytest

from pets.core.allocator import queue_for
from pets.core.budget import Budget
from pets.core.queues import ReplicaTotals
from pets.core.record import Record
from pets.errors import StateError
from pets.policies.okg import OKG
from pets.policies.okg_weighted import OKGWeighted
from pets.policies.uniform import Uniform

POLICIES = [OKG(), OKG(waves=2), OKGWeighted(), Uniform()]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_every_queue_serves_what_was_added_and_nothing_that_was_removed(policy):
    horizon = 2 if policy in (POLICIES[0], POLICIES[2], POLICIES[3]) else None
    queue = queue_for(policy, Budget(20), horizon, seed=0)
    records = [Record(name, i, 2, policy.sees == "traces") for i, name in enumerate("ab")]
    for record in records:
        queue.add(record)
    queue.remove(records[0])
    launches = queue.take(4)
    assert launches and {launch.question for launch in launches} == {"b"}
    assert sum(queue.batch().values()) == 1
    assert queue.promised >= 0 and queue.wave == 0


@pytest.mark.parametrize("policy", POLICIES[:3], ids=repr)
def test_a_queue_that_compares_all_questions_shares_no_stream(policy):
    queue = queue_for(policy, Budget(20), None, seed=0)
    with pytest.raises(StateError, match="nothing is shared"):
        queue.sync_replicas(ReplicaTotals(arrived=1))


def test_only_a_queue_with_waves_begins_one():
    assert [queue_for(policy, Budget(20), None, seed=0).next_wave(extra=True) for policy in POLICIES] == [
        False, True, False, False
    ]  # fmt: skip


def test_totals_of_replicas_add_up():
    assert sum([ReplicaTotals(arrived=1, spent=2), ReplicaTotals(spent=3)], ReplicaTotals()) == ReplicaTotals(
        1, spent=5
    )
