"""Where questions come from: none is taken from a source and then left."""

import asyncio

import pytest

from pets.engine.arrivals import Asking, Intake
from pets.engine.questions import OpenQuestions
from pets.samplers import Sampling, Seeds

from ..simulated_time import run_simulated
from .conftest import asked


class Source:
    """Questions without end; counts those that were taken."""

    def __init__(self):
        self.taken = 0

    async def __aiter__(self):
        while True:
            self.taken += 1
            yield asked([f"q{self.taken}"])[0]


async def admitted(most, work):
    """What an intake admits while ``work(intake, admitted)`` is done beside it."""
    source, intake, problems = Source(), Intake(most), []

    async def admit(problem):
        await asyncio.sleep(1.0)
        problems.append(problem.id)

    async with asyncio.TaskGroup() as group:
        intake.begin(group, source, admit, open_now=0)
        await work(intake, problems)
    return source.taken, problems


def test_as_many_are_open_as_allowed_and_one_more_for_each_that_is_over():
    async def work(intake, problems):
        await asyncio.sleep(100.0)
        assert problems == ["q1", "q2"]
        intake.make_room(open_now=1)
        await asyncio.sleep(100.0)
        intake.make_room(open_now=2)  # no room: as many are open as may be
        await asyncio.sleep(100.0)
        intake.stop()

    assert run_simulated(admitted(2, work)) == (3, ["q1", "q2", "q3"])


@pytest.mark.parametrize("after", [0.5, 1.5, 10.0])
def test_a_question_that_was_taken_when_the_intake_stops_is_admitted(after):
    async def work(intake, problems):
        await asyncio.sleep(after)
        intake.stop()

    taken, problems = run_simulated(admitted(3, work))
    assert taken == len(problems) >= 1


def test_the_seed_of_a_launch_follows_from_its_questions_place_and_its_number():
    seeds, (problem,) = Seeds(7, cap=64), asked(["q"])
    question = OpenQuestions().make(problem, 5)
    request = Asking(Sampling(), seeds, system="Be brief.").request(question, 3, (1, 1))
    assert request.seed == seeds.at(5, 3) and (request.first, request.size) == (3, 2)
    assert [message.role for message in request.prompt.content] == ["system", "user"]
