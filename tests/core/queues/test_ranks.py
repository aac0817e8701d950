"""The queue of policies that see traces: the score follows every change, stale entries do not count."""

from dataclasses import dataclass
from typing import ClassVar

from pets.core.budget import Budget
from pets.core.policy import IndexPolicy
from pets.core.queues.ranks import RankQueue
from pets.core.record import Record
from pets.types import Trace


@dataclass(frozen=True, slots=True)
class LeastSure(IndexPolicy):
    """Serves the question with the lowest mean confidence."""

    sees: ClassVar[str] = "traces"

    def index(self, tally, view):
        return -sum(tally.confidences) / max(1, len(tally.confidences)) - 100 * tally.pending


def tell(queue, record, confidence):
    record.votes["A"] = record.votes.get("A", 0) + 1
    record.traces.append(Trace(record.id, record.told, "A", confidence))
    record.told += 1
    record.returned += 1
    queue.told(record, 0)


def test_the_score_follows_what_is_told():
    queue = RankQueue(LeastSure(), Budget(99, cap=4))
    records = {name: Record(name, i, None, keep_traces=True) for i, name in enumerate("ab")}
    for record in records.values():
        queue.add(record)
    assert [launch.question for launch in queue.take(2)] == ["a", "b"]
    tell(queue, records["a"], 9.0)
    tell(queue, records["b"], 2.0)
    assert queue.take(1)[0].question == "b"
    tell(queue, records["b"], 30.0)
    assert queue.take(1)[0].question == "a"


def test_the_cap_holds_and_a_cancelled_launch_frees_its_place():
    queue = RankQueue(LeastSure(), Budget(99, cap=2))
    record = Record("a", 0, None, keep_traces=True)
    queue.add(record)
    assert [launch.number for launch in queue.take(9)] == [0, 1] and queue.stopped(record)
    record.taken_back += 1
    queue.taken_back(record)
    assert [launch.number for launch in queue.take(9)] == [2]


@dataclass(frozen=True, slots=True)
class Reluctant(LeastSure):
    """The same with a warm-up of two."""

    @property
    def warmup(self):
        return 2


def test_the_warm_up_comes_first():
    queue = RankQueue(Reluctant(), Budget(99))
    records = [Record(name, i, None, keep_traces=True) for i, name in enumerate("ab")]
    for record in records:
        queue.add(record)
    for _ in range(2):
        assert queue.take(1)[0].question == "a"
        tell(queue, records[0], 0.001)  # the least sure by far, but "b" has not warmed up
    assert [launch.question for launch in queue.take(2)] == ["b", "b"]
