"""Processes on one run: requests go to whoever claims them, replies and errors come back as they were."""

import asyncio
import contextlib
import json

import pytest

from pets._version import __version__
from pets.confidence import Confidence
from pets.engine import workers
from pets.engine.workers import SharedSampler, Worker, check_version, follow
from pets.errors import BusyError, RefusedError, ReplyError, StateError, UnreachableError
from pets.prompts import Completion, Prompt, Sampling
from pets.questions import Problem
from pets.samplers import Sampler
from pets.store import RunSettings, Store
from pets.store.postgres import connect
from pets.store.tasks import TaskQueue

from ..waiting import until

SAMPLING = Sampling(max_tokens=9, stop=("END",), top_logprobs=5)


class Scripted(Sampler):
    """Says its name and the seed; ``error`` is raised instead; while ``closed`` it waits."""

    def __init__(self, name, error=None):
        self.name, self.error, self.asked = name, error, []
        self.opened = asyncio.Event()
        self.opened.set()

    async def sample(self, prompt, n, seed, sampling):
        self.asked.append((prompt, n, seed, sampling))
        await self.opened.wait()
        if self.error is not None:
            raise self.error
        confidence = Confidence(1.0, 2.0, 3.0, 4.0, 5)
        return [Completion(f"{self.name} {seed + i}\0", "stop", 3, 2, confidence, size=7) for i in range(n)]


@pytest.fixture
def run(postgres_url):
    with Store.open(postgres_url) as store:
        run = store.create(RunSettings("okg", 10, version=__version__), [Problem("q", Prompt("p"))])
        yield run
        run.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(workers, "LOOK_S", 0.1)


@contextlib.asynccontextmanager
async def leading(url, run, sampler, width=4):
    shared = SharedSampler(url, Worker(url, [sampler], width))
    shared.run = lambda: run.id
    async with shared:
        yield shared


async def serving(url, run, sampler, width=4):
    """Another worker, once it is known."""
    task = asyncio.create_task(Worker(url, [sampler], width).serve(run.id))
    with contextlib.closing(TaskQueue(url, run.id)) as queue:
        before = len(queue.workers())
        await until(lambda: len(queue.workers()) > before, task)
    return task


async def end(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_request_and_its_reply_are_what_they_would_be_without_a_store(postgres_url, run):
    of_a_judge = {"model": "judge", "messages": [{"role": "user", "content": "Which?"}], "max_tokens": 16}
    prompts = [Prompt("2 + 2 ="), Prompt.chat("Which?", system="Be brief."), Prompt.of_body(of_a_judge)]

    async def work():
        own = Scripted("own")
        async with leading(postgres_url, run, own) as shared:
            replies = await asyncio.gather(*(shared.sample(prompt, 2, 7, SAMPLING) for prompt in prompts))
        direct = [await Scripted("own").sample(prompt, 2, 7, SAMPLING) for prompt in prompts]
        assert replies == direct
        assert sorted(own.asked, key=str) == sorted([(prompt, 2, 7, SAMPLING) for prompt in prompts], key=str)

    asyncio.run(work())


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("no such field", status=400),
        BusyError("slow down", status=429, retry_after=2.0),
        ReplyError("half"),
    ],
)
def test_errors_are_raised_as_they_were(postgres_url, run, error):
    async def work():
        async with leading(postgres_url, run, Scripted("own", error)) as shared:
            with pytest.raises(type(error), match=str(error)) as raised:
                await shared.sample(Prompt("p"), 1, 0, SAMPLING)
        assert type(raised.value) is type(error)
        assert (raised.value.status, raised.value.retry_after) == (error.status, error.retry_after)

    asyncio.run(work())


def test_workers_share_the_work_and_the_width_is_that_of_all(postgres_url, run):
    widths = []

    async def work():
        own, other = Scripted("own"), Scripted("other")
        own.opened.clear()
        async with leading(postgres_url, run, own, width=1) as shared:
            shared.on_width = widths.append
            asked = [asyncio.create_task(shared.sample(Prompt("p"), 1, seed, SAMPLING)) for seed in range(6)]
            await until(lambda: own.asked)
            task = await serving(postgres_url, run, other, width=2)
            await until(lambda: sum(reply.done() for reply in asked) == 5)
            own.opened.set()
            replies = await asyncio.gather(*asked)
            await until(lambda: widths and widths[-1] == 3)
            await end(task)
        assert sorted(reply[0].text.split()[0] for reply in replies) == ["other"] * 5 + ["own"]

    asyncio.run(work())


def test_what_a_lost_worker_had_claimed_may_have_been_sampled(postgres_url, run, monkeypatch):
    monkeypatch.setattr(workers, "LOST_AFTER_S", 0.5)
    monkeypatch.setattr(TaskQueue, "leave", lambda self, worker: None)  # as kill -9 leaves it

    async def work():
        own, other = Scripted("own"), Scripted("other")
        other.opened.clear()
        task = await serving(postgres_url, run, other)
        async with leading(postgres_url, run, own, width=0) as shared:
            asked = asyncio.create_task(shared.sample(Prompt("p"), 1, 0, SAMPLING))
            await until(lambda: other.asked)
            await end(task)
            with pytest.raises(ReplyError, match="was lost"):
                await asked

    asyncio.run(work())


def test_a_worker_whose_server_is_away_gives_back_what_it_claimed(postgres_url, run):
    async def work():
        away, own = Scripted("away", UnreachableError("nobody there")), Scripted("own")
        task = await serving(postgres_url, run, away)
        async with leading(postgres_url, run, own, width=0) as shared:
            asked = asyncio.create_task(shared.sample(Prompt("p"), 1, 0, SAMPLING))
            await until(lambda: away.asked)
            healthy = await serving(postgres_url, run, own)
            assert (await asked)[0].text.startswith("own")
            await end(healthy)
        await end(task)

    asyncio.run(work())


def test_a_request_fails_as_unreachable_when_no_worker_can_reach_a_server_and_later_ones_are_tried_again(
    postgres_url, run
):
    async def work():
        own = Scripted("own", UnreachableError("nobody there"))
        other = await serving(postgres_url, run, Scripted("other", UnreachableError("nor there")))
        async with leading(postgres_url, run, own, width=1) as shared:
            asked = [asyncio.create_task(shared.sample(Prompt("p"), 1, seed, SAMPLING)) for seed in range(4)]
            await until(lambda: all(reply.done() for reply in asked))
            assert {str(reply.exception()) for reply in asked} == {"nobody there"}
            assert all(type(reply.exception()) is UnreachableError for reply in asked)
            own.error = None
            assert (await shared.sample(Prompt("p"), 1, 0, SAMPLING))[0].text.startswith("own")
        await end(other)

    asyncio.run(work())


def test_a_request_waits_for_a_worker_that_is_busy_though_the_others_are_away(postgres_url, run):
    widths = []

    async def work():
        own, other = Scripted("own", UnreachableError("nobody there")), Scripted("other")
        other.opened.clear()
        task = await serving(postgres_url, run, other, width=1)
        async with leading(postgres_url, run, own, width=2) as shared:
            shared.on_width = widths.append
            asked = [asyncio.create_task(shared.sample(Prompt("p"), 1, seed, SAMPLING)) for seed in range(3)]
            await until(lambda: len(own.asked) > 2 and other.asked)
            await until(lambda: widths and widths[-1] == 1)
            other.opened.set()
            replies = await asyncio.gather(*asked)
        await end(task)
        assert {reply[0].text.split()[0] for reply in replies} == {"other"}

    asyncio.run(work())


def test_one_of_a_worker_s_servers_that_is_away_leaves_it_the_other(postgres_url, run):
    async def work():
        away, well = Scripted("away", UnreachableError("nobody there")), Scripted("well")
        worker = Worker(postgres_url, [away, well], 4)
        shared = SharedSampler(postgres_url, worker)
        shared.run = lambda: run.id
        async with shared:
            asked = (shared.sample(Prompt("p"), 1, seed, SAMPLING) for seed in range(8))
            assert {reply[0].text.split()[0] for reply in await asyncio.gather(*asked)} == {"well"}
        assert away.asked and worker.outage is None

    asyncio.run(work())


def test_a_drained_worker_gives_back_what_it_could_not_send(postgres_url, run):
    async def work():
        away = Scripted("away", UnreachableError("nobody there"))
        away.opened.clear()
        worker = Worker(postgres_url, [away], 2)
        with contextlib.closing(TaskQueue(postgres_url, run.id)) as queue:
            queue.add([(1, json.dumps(workers._request(Prompt("p"), 1, 0, SAMPLING)))])
            task = asyncio.create_task(worker.serve(run.id))
            await until(lambda: away.asked, task)
            worker.drain()
            away.opened.set()
            await task
            assert queue.lost() == []
            assert [id for id, _ in queue.exchange(queue.enter(1), [], [], 1)[1]] == [1]

    asyncio.run(work())


def test_a_drained_worker_brings_home_what_is_in_flight(postgres_url, run):
    async def work():
        other = Scripted("other")
        other.opened.clear()
        worker = Worker(postgres_url, [other], 2)
        task = asyncio.create_task(follow(postgres_url, run.id, worker))
        async with leading(postgres_url, run, Scripted("own"), width=0) as shared:
            asked = asyncio.create_task(shared.sample(Prompt("p"), 2, 0, SAMPLING))
            await until(lambda: other.asked, task)
            worker.drain()
            other.opened.set()
            assert len(await asked) == 2
            assert await task == "running" and worker.traces == 2

    asyncio.run(work())


def test_a_follower_sees_that_nobody_allocates_any_more(postgres_url, run):
    async def work():
        task = asyncio.create_task(follow(postgres_url, run.id, Worker(postgres_url, [Scripted("other")], 2)))
        await asyncio.sleep(0)
        run.finish()
        run.close()
        assert await task == "finished"

    asyncio.run(work())


def test_a_follower_whose_connection_is_lost_ends_with_one_error(postgres_url, run):
    async def work():
        task = asyncio.create_task(follow(postgres_url, run.id, Worker(postgres_url, [Scripted("other")], 2)))
        with contextlib.closing(TaskQueue(postgres_url, run.id)) as queue:
            await until(queue.workers, task)
            with contextlib.closing(connect(postgres_url)) as server:
                idle_worker = "query ~ '^(UPDATE workers SET beat|WITH free)'"
                sql = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {idle_worker}"
                await until(lambda: server.execute(sql).fetchall())
            with pytest.raises(StateError, match="What was written before is safe"):
                await task

    asyncio.run(work())


def test_a_store_that_fails_ends_the_wait(postgres_url, run):
    async def work():
        async with leading(postgres_url, run, Scripted("own"), width=0) as shared:
            asked = asyncio.create_task(shared.sample(Prompt("p"), 1, 0, SAMPLING))
            await until(lambda: shared._pump is not None)
            sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%FROM tasks%' AND pid <> pg_backend_pid()"  # noqa: E501
            with contextlib.closing(TaskQueue(postgres_url, run.id)) as queue:
                while not asked.done():
                    await asyncio.to_thread(queue._execute, sql)
            with pytest.raises(StateError, match="failed"):
                await asked

    asyncio.run(work())


def test_a_worker_of_another_version_is_refused():
    check_version(RunSettings("okg", 1, version=__version__), 3)
    with pytest.raises(StateError, match=r"run 3 was begun by pets 0\.0\.1"):
        check_version(RunSettings("okg", 1, version="0.0.1"), 3)
