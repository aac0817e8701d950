"""One allocator over questions that come and go."""

import random

import pytest

from pets.errors import InputError
from pets.gateway.stream import Stream
from pets.policies.okg import OKG
from pets.policies.online_grid import OnlineGrid
from pets.types import Trace


def answer(stream, launches, rng):
    for launch in launches:
        stream.tell(Trace(launch.question, launch.number, rng.choice("AAB")))


def test_the_budget_is_kept_while_questions_come_go_and_break_off():
    rng = random.Random(0)
    stream = Stream(OnlineGrid(), mean_budget=8, window=20)
    paid, lost, open_ids = 0, 0, []
    for number in range(200):
        stream.add(f"q{number}")
        open_ids.append(f"q{number}")
        launches = stream.ask(1000)
        if rng.random() < 0.2:  # its client goes: nothing was sent
            stream.leave(open_ids.pop())
            launches = [launch for launch in launches if launch.question != f"q{number}"]
        if rng.random() < 0.1:  # a reply breaks off, is paid for, and asked for again
            stream.charge(4)
            lost += 4
        answer(stream, launches, rng)
        paid += len(launches)
        while more := stream.ask(1000):
            answer(stream, more, rng)
            paid += len(more)
        for id in [id for id in open_ids if stream.stopped(id)]:
            stream.leave(id)
            open_ids.remove(id)
        spent, total = stream.spent()
        assert spent <= total and spent + stream.unpaid == paid + lost
    assert 0.95 * 8 * 200 - 8 * 20 < paid + lost <= 8 * 200  # what a broken-off question leaves is used by others
    assert lost > 40 and stream.unpaid == 0
    assert not stream._open and not stream._noting.notes and not stream._allocator.verdicts()  # memory is bounded


def test_what_breaks_off_does_not_take_the_warm_up_of_questions_to_come():
    stream, rng = Stream(OnlineGrid(), mean_budget=4, window=4), random.Random(0)
    stream.charge(100)
    for number in range(8):
        stream.add(f"q{number}")
        launches = stream.ask(1000)
        assert len(launches) == 4
        answer(stream, launches, rng)
        stream.leave(f"q{number}")
    assert stream.unpaid == 100 and stream.spent() == (32, 32)


@pytest.mark.parametrize(("open_at_once", "room"), [(8, 64), (64, 16)])
def test_what_breaks_off_is_made_up_for_under_any_load(open_at_once, room):
    """A fifth of all requests is lost and paid for; with little room, granted traces always wait."""
    rng, stream = random.Random(1), Stream(OnlineGrid(), mean_budget=8, window=50)
    paid, number, flying, waiting = 0, 0, [], []
    while number < 400 or waiting:
        while number < 400 and len(waiting) < open_at_once:
            stream.add(f"q{number}")
            waiting.append(f"q{number}")
            number += 1
        flying += stream.ask(room - len(flying))
        rng.shuffle(flying)
        some, flying = flying[:8], flying[8:]
        for launch in some:
            paid += 1
            if rng.random() < 0.2:
                stream.charge(1)
                flying.append(launch)
            else:
                stream.tell(Trace(launch.question, launch.number, rng.choice("AAB")))
        busy = {launch.question for launch in flying}
        for id in [id for id in waiting if stream.stopped(id) and id not in busy]:
            stream.leave(id)
            waiting.remove(id)
    assert paid <= 1.02 * stream.spent()[1]


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
