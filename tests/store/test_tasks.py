"""The requests of a shared run: claimed once, answered once, and lost with their worker."""

import contextlib

import pytest

from pets.errors import StateError
from pets.store import RunSettings, Store
from pets.store.tasks import TaskQueue


@pytest.fixture
def queues(postgres_url, problems):
    """Two connections to the tasks of one run."""
    with Store.open(postgres_url) as store:
        run = store.create(RunSettings("okg", 10), problems)
        run.close()
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(TaskQueue(postgres_url, run.id))) for _ in range(2)]


def test_a_task_is_claimed_once_oldest_first(queues):
    leader, other = queues
    leader.add([(id, f"request {id}") for id in (3, 1, 2)])
    first, second = leader.enter(4), other.enter(4)
    assert leader.exchange(first, [], [], 2) == (True, [(1, "request 1"), (2, "request 2")])
    assert other.exchange(second, [], [], 9) == (True, [(3, "request 3")])
    assert leader.exchange(first, [], [], 9) == (True, [])


def test_claims_do_not_wait_for_each_other(queues):
    leader, other = queues
    leader.add([(1, "a"), (2, "b")])
    first, second = leader.enter(1), other.enter(1)
    with leader._database.transaction():  # its claim is not committed yet
        assert leader.exchange(first, [], [], 1)[1] == [(1, "a")]
        assert other.exchange(second, [], [], 9)[1] == [(2, "b")]


def test_a_reply_is_collected_once_and_only_from_the_worker_that_claimed(queues):
    leader, other = queues
    leader.add([(1, "a"), (2, "b")])
    first, second = leader.enter(1), other.enter(1)
    leader.exchange(first, [], [], 1)
    other.exchange(second, [(1, "not mine")], [], 1)
    assert leader.collect() == []
    leader.exchange(first, [(1, "reply")], [], 0)
    assert leader.collect() == [(1, "reply")] and leader.collect() == []


def test_what_is_given_back_others_may_have(queues):
    leader, other = queues
    leader.add([(1, "a")])
    first, second = leader.enter(1), other.enter(1)
    leader.exchange(first, [], [], 1)
    leader.exchange(first, [], [1], 0)
    assert other.exchange(second, [], [], 1)[1] == [(1, "a")]


def test_the_claims_of_a_worker_that_is_gone_are_lost_once(queues):
    leader, other = queues
    leader.add([(1, "a"), (2, "b"), (3, "c")])
    first, second = leader.enter(1), other.enter(2)
    leader.exchange(first, [], [], 1)
    other.exchange(second, [(9, "nothing")], [], 1)
    (beat,) = [worker for worker in leader.workers() if worker.id == second]
    other.exchange(second, [], [], 0)
    leader.expire(beat)  # it has beaten since
    assert leader.lost() == []
    leader.expire(next(worker for worker in leader.workers() if worker.id == second))
    assert leader.lost() == [2] and leader.lost() == []
    assert other.exchange(second, [(2, "late")], [], 9) == (False, []) and leader.collect() == []


def test_a_run_that_begins_anew_has_no_tasks(queues):
    leader, other = queues
    leader.add([(1, "a"), (2, "b")])
    leader.withdraw([1])
    leader.clear()
    assert other.exchange(other.enter(1), [], [], 9)[1] == []


def test_a_lost_connection_is_one_line(queues):
    leader, _ = queues
    leader.close()
    with pytest.raises(StateError, match="What was written before is safe") as error:
        leader.collect()
    assert "\n" not in str(error.value)


def test_no_more_tasks_are_claimed_than_there_is_room_for_whatever_the_plan(queues):
    leader, other = queues
    leader.add([(id, "request") for id in range(9)])
    worker = leader.enter(9)
    for method in ("hashjoin", "mergejoin", "hashagg", "sort", "material", "memoize"):
        leader._execute(f"SET enable_{method} = off", rows=False)
    claimed = leader.exchange(worker, [], [], 2)[1]
    assert [id for id, _ in claimed] == [0, 1]
    assert len(other.exchange(other.enter(9), [], [], 9)[1]) == 7
