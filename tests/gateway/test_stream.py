"""One allocator over questions that come and go."""

import random

import pytest

from pets.errors import InputError
from pets.gateway import stream as module
from pets.gateway.stream import Stream
from pets.policies.okg import OKG
from pets.policies.online_grid import OnlineGrid
from pets.types import Trace


def answer(stream, launches, rng):
    for launch in launches:
        stream.tell(Trace(launch.question, launch.number, rng.choice("AAB")))


def test_the_budget_is_kept_while_questions_come_go_and_break_off(monkeypatch):
    monkeypatch.setattr(module, "EPOCH", 40)
    rng = random.Random(0)
    stream = Stream(OnlineGrid(), mean_budget=8, window=20)
    paid, epochs, open_ids = 0, set(), []
    for number in range(200):
        stream.add(f"q{number}")
        open_ids.append(f"q{number}")
        launches = stream.ask(1000)
        if rng.random() < 0.2:  # its client goes: nothing was sent
            stream.leave(open_ids.pop())
            launches = [launch for launch in launches if launch.question != f"q{number}"]
        answer(stream, launches, rng)
        paid += len(launches)
        while more := stream.ask(1000):
            answer(stream, more, rng)
            paid += len(more)
        for id in [id for id in open_ids if stream.stopped(id)]:
            stream.leave(id)
            open_ids.remove(id)
        epochs.add(id_of(stream))
        spent, total = stream.spent()
        assert spent <= total
    assert paid <= 8 * 200 and paid > 0.95 * 8 * 200 - 8 * 20  # what a broken-off question leaves is used by others
    assert len(epochs) >= 4 and len(stream._epochs) == 1  # memory is bounded
    assert not stream._where and len(stream._noting.notes) == 0


def id_of(stream):
    return id(stream._epochs[-1])


def test_a_question_that_left_gets_nothing_more():
    stream = Stream(OnlineGrid(), mean_budget=16, window=4)
    stream.add("gone")
    stream.add("here")
    first = stream.ask(6)
    stream.leave("gone")
    rest = stream.ask(100)
    assert {launch.question for launch in rest} == {"here"}
    assert len([launch for launch in first + rest if launch.question == "here"]) == 4


def test_policies_that_need_the_whole_batch_are_refused():
    with pytest.raises(InputError, match="not for a stream"):
        Stream(OKG(), mean_budget=8)
    with pytest.raises(InputError, match="warm-up"):
        Stream(OnlineGrid(), mean_budget=3)
