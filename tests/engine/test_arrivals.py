"""Where questions come from: none is taken from a source and then left."""

import asyncio

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.arrivals import StreamArrivals
from pets.engine.assemble import assemble
from pets.engine.fetch import Fetcher
from pets.engine.ledger import Ledger
from pets.engine.question import OpenQuestions
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.policies.uniform import Uniform

from ..simulated_time import run_simulated
from .conftest import Paced, asked


class Source:
    """Questions without end; counts those that were taken."""

    def __init__(self):
        self.taken = 0

    async def __aiter__(self):
        while True:
            self.taken += 1
            yield asked([f"q{self.taken}"])[0]


class SlowLedger(Ledger):
    """Takes a second to write a question down."""

    async def admit(self, problem):
        await asyncio.sleep(1.0)


async def answered(most, after):
    """How many questions were taken and answered by a stream that is told to end after so many seconds, and taken
    before that."""
    source, answers = Source(), []
    allocator, fetcher = Allocator(Uniform(), Budget.per_window(1, 1), ()), Fetcher([Paced()], patience_s=None)

    def stream(wiring):
        return StreamArrivals(wiring, open_questions=most, on_answer=lambda answer, _: answers.append(answer))

    driver = assemble(RunSpec.of(keep_going=True), allocator, Sources(), stream, fetcher=fetcher, ledger=SlowLedger())
    running = asyncio.create_task(driver.run(source))
    await asyncio.sleep(after)
    taken = source.taken
    driver.drain()
    await running
    return taken, source.taken, len(answers)


@pytest.mark.parametrize("after", [0.5, 1.5, 10.0])
def test_a_question_that_was_taken_when_a_stream_ends_is_answered(after):
    before, taken, answers = run_simulated(answered(3, after))
    assert taken == answers == before >= 1


def test_as_many_are_open_as_allowed():
    assert run_simulated(answered(1, 1.5))[0] == 1
    assert run_simulated(answered(2, 2.5))[0] >= 2


async def assembled(spec, problems):
    """The driver of a batch."""
    allocator = Allocator(Uniform(), Budget(64), [OpenQuestions().make(problem, 0).question for problem in problems])
    return assemble(spec, allocator, Sources(), problems, fetcher=Fetcher([Paced()]))


def test_the_seed_of_a_launch_follows_from_its_questions_place_and_its_number():
    spec = RunSpec.of(seed=7, system="Be brief.", keep_going=True)
    driver = run_simulated(assembled(spec, asked([f"q{place}" for place in range(8)])))
    request = driver.arrivals.request(driver.questions.get("q5"), 3, (1, 1))
    assert request.seed == spec.seeds(8).at(5, 3) and (request.first, request.size) == (3, 2)
    assert [message.role for message in request.prompt.content] == ["system", "user"] and not request.streamed
