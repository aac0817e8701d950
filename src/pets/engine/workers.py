"""Several processes on one run: one of them allocates, all of them ask their own servers.

Whoever holds the run's lock allocates. To its driver the others are one more source of traces: :class:`SharedSampler`
puts every request into the store, and a :class:`Worker`, of any process, claims it, asks a server of its own and puts
the reply there. So everything about money stays where it is: a launch is in the ledger before it can be claimed, and a
trace is counted once, by the one who allocates.

A worker whose heartbeat has stood still for LOST_AFTER_S is lost: what it had claimed is charged, since nobody knows
what became of it, and tried again. If the one who allocates is lost, its lock goes with it, and the first to take the
lock takes up the run as ``--resume`` does: what was in flight is charged.

A worker whose servers cannot be reached gives back what it claimed and is of width 0 meanwhile. Where no worker can
reach any, the requests that nobody has claimed fail as unreachable, which is free: so the outage is the fetcher's, with
its messages and its patience, as in a run of one process.
"""

import asyncio
import json
import math
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from pets._version import __version__
from pets.confidence import Confidence
from pets.engine.endpoints import Endpoint, EndpointPool
from pets.engine.fetch import MAX_CHOICES, Outage
from pets.errors import BusyError, RefusedError, ReplyError, SamplerError, StateError, UnreachableError, first_error
from pets.prompts import Completion, Message, Prompt, Sampling, TokenAlternatives
from pets.samplers import Sampler
from pets.store import RunSettings, RunState, Store

if TYPE_CHECKING:  # an extra brings what it needs
    from pets.store.tasks import TaskQueue, WorkerBeat

__all__ = ["SharedSampler", "Worker", "check_version", "follow"]

POLL_S = 0.05  # between two looks at the store
LOOK_S = 1.0  # between two looks at who works on the run
LOST_AFTER_S = 30.0
TASKS_WEIGHT = 0.05  # of the latest in the mean size of a task
ERRORS = {kind.__name__: kind for kind in (RefusedError, BusyError, ReplyError)}


class Worker:
    """Claims requests of a run and has its own servers serve them, ``width`` traces at a time."""

    def __init__(self, location: str | PathLike[str], samplers: Sequence[Sampler], width: int) -> None:
        self.samplers, self.width = samplers, width
        self.traces = 0
        """Traces that its servers gave."""
        self.away: SamplerError | None = None
        """Why its servers cannot be reached; None where they can."""
        self.unreached = 0
        """Requests that could not be sent."""
        self._location = location
        self._pool = EndpointPool(samplers, MAX_CHOICES)
        self._in_flight = 0
        self._away_since = 0.0
        self._traces_per_task = 1.0
        self._draining = False
        self._replies: list[tuple[int, str]] = []
        self._released: list[int] = []

    def drain(self) -> None:
        """Claim nothing more; :meth:`serve` returns when what is in flight has come home."""
        self._draining = True

    def retry(self) -> None:
        """Ask its servers again as soon as there is something to ask, though they are away."""
        for endpoint in self._pool.endpoints:
            endpoint.rest_until = 0.0

    @property
    def outage(self) -> Outage | None:
        """The outage while none of its servers can be reached, by the running event loop's clock."""
        if self.away is None:
            return None
        now = asyncio.get_running_loop().time()
        next_try_s = min(endpoint.wait_s(now) for endpoint in self._pool.endpoints)
        return Outage(self.away, now - self._away_since, next_try_s, None)

    async def serve(self, run: int) -> None:
        """Serve requests of the run until cancelled, or :meth:`drain`."""
        queue = await _open_queue(self._location, run)
        worker = width = 0
        try:
            async with asyncio.TaskGroup() as group:
                is_registered = False
                while not self._draining or self._in_flight or self._replies or self._released:
                    before, width = width, 0 if self.away or self._draining else self.width
                    if not is_registered:  # it is new, or was silent for so long that it was taken for lost
                        worker = await asyncio.to_thread(queue.enter, width)
                    elif width != before:
                        await asyncio.to_thread(queue.resize, worker, width)
                    is_registered = await self._exchange(queue, worker, group)
                    await asyncio.sleep(POLL_S)
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            with suppress(StateError):
                queue.leave(worker)
            queue.close()

    async def _exchange(self, queue: "TaskQueue", worker: int, group: asyncio.TaskGroup) -> bool:
        resting = self._draining or self._pool.rests(asyncio.get_running_loop().time())
        room = 0 if resting else math.ceil(max(0, self.width - self._in_flight) / self._traces_per_task)
        replies, self._replies = self._replies, []
        released, self._released = self._released, []
        is_registered, tasks = await asyncio.to_thread(queue.exchange, worker, replies, released, room)
        away = self._pool.rests(asyncio.get_running_loop().time())  # since a moment ago
        for id, text in tasks:
            if away:
                self._released.append(id)
                continue
            request = json.loads(text)
            self._traces_per_task += TASKS_WEIGHT * (request["n"] - self._traces_per_task)
            self._in_flight += request["n"]
            group.create_task(self._ask(id, request))
        return is_registered

    async def _ask(self, id: int, request: dict[str, Any]) -> None:
        prompt, n, seed, sampling = _request_of(request)
        clock = asyncio.get_running_loop().time
        endpoint = await self._pool.pick()
        begun, tokens = clock(), None
        entry = endpoint.begin(n, begun)
        try:
            completions = await endpoint.sampler.sample(prompt, n, seed, sampling)
            tokens = sum((c.tokens or 0) + (c.prompt_tokens or 0) for c in completions)
            self._replies.append((id, json.dumps([asdict(completion) for completion in completions])))
            self.traces += len(completions)
            endpoint.succeeded(n, len(completions), clock() - begun)
            self.away = None
        except UnreachableError as error:  # nothing was sent: others may have it
            self._released.append(id)
            self._not_reached(endpoint, error)
        except (RefusedError, BusyError, ReplyError) as error:
            self.away, endpoint.failures = None, 0  # whatever it was, somebody is there
            plain = {"error": type(error).__name__, "message": str(error), "status": error.status}
            self._replies.append((id, json.dumps(plain | {"retry_after": error.retry_after})))
        finally:
            endpoint.end(n, entry, tokens, clock())
            self._in_flight -= n

    def _not_reached(self, endpoint: Endpoint, error: UnreachableError) -> None:
        """Let a server rest that is away, and notice when all of them are."""
        now = asyncio.get_running_loop().time()
        endpoint.failed(now, unreachable=True)
        self.unreached += 1
        if all(endpoint.failures for endpoint in self._pool.endpoints):
            self._away_since = now if self.away is None else self._away_since
            self.away = error


class SharedSampler(Sampler):
    """The workers of a run as one source of traces; the process that allocates is one of them.

    ``run`` says which run, once there is one. ``on_width`` is called with the traces that all workers together have in
    flight at most, whenever that changes.
    """

    def __init__(self, location: str | PathLike[str], worker: Worker) -> None:
        self.run: Callable[[], int] = lambda: 0
        self.on_width: Callable[[int], None] = lambda width: None
        self._location, self._worker = location, worker
        self._next = secrets.randbits(30) << 32
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._added: list[tuple[int, str]] = []
        self._withdrawn: list[int] = []
        self._unreached = 0  # requests of its own worker, as last seen
        self._last_tried = 0  # the last request of which that says something
        self._beats: dict[int, tuple[int, float]] = {}  # of each worker, and since when it stands
        self._width = 0
        self._pump: asyncio.Task[None] | None = None
        self._samplers = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for sampler in self._worker.samplers:
            await self._samplers.enter_async_context(sampler)
        return self

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`."""
        if self._pump is None:
            self._pump = asyncio.create_task(self._work())
        if self._pump.done():
            self._pump.result()
        self._next += 1
        id, reply = self._next, asyncio.get_running_loop().create_future()
        self._waiting[id] = reply
        self._added.append((id, json.dumps(_request(prompt, n, seed, sampling))))
        try:
            return _completions(await reply)
        finally:
            if self._waiting.pop(id, None) is not None:  # nobody waits any more
                self._withdrawn.append(id)

    @property
    def width(self) -> int:
        """Traces that this process has in flight at most."""
        return self._worker.width

    async def max_model_len(self) -> int | None:
        """As :meth:`Sampler.max_model_len`, by this process's own servers."""
        lengths = [await sampler.max_model_len() for sampler in self._worker.samplers]
        return min((length for length in lengths if length is not None), default=None)

    async def close(self) -> None:
        """As :meth:`Sampler.close`."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        await self._samplers.aclose()

    async def _work(self) -> None:
        """Exchange requests and replies with the store; whatever ends that ends the run."""
        try:
            queue = await _open_queue(self._location, self.run())
            try:
                await asyncio.to_thread(queue.clear)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._worker.serve(queue.run))
                    looked = 0.0
                    while True:
                        now = asyncio.get_running_loop().time()
                        await self._exchange(queue, look=now - looked >= LOOK_S)
                        looked = now if now - looked >= LOOK_S else looked
                        await asyncio.sleep(POLL_S)
            finally:
                queue.close()
        except BaseExceptionGroup as errors:
            error = first_error(errors)
            self._fail(error, list(self._waiting))
            raise error from None
        except Exception as error:
            self._fail(error, list(self._waiting))
            raise

    def _fail(self, error: BaseException, tasks: Sequence[int]) -> None:
        """Tell those who wait for these tasks."""
        for id in tasks:
            reply = self._waiting.pop(id, None)
            if reply is not None and not reply.done() and isinstance(error, Exception):
                reply.set_exception(error)

    async def _exchange(self, queue: "TaskQueue", *, look: bool) -> None:
        added, self._added = self._added, []
        withdrawn, self._withdrawn = self._withdrawn, []
        gone = set(withdrawn)
        if self._worker.unreached != self._unreached:
            self._unreached, self._last_tried = self._worker.unreached, self._next
        away = self._worker.away
        tried = [] if away is None else [id for id in self._waiting if id <= self._last_tried]

        def exchange() -> "tuple[list[tuple[int, str]], list[int], list[int], list[WorkerBeat]]":
            if fresh := [task for task in added if task[0] not in gone]:
                queue.add(fresh)
            if withdrawn:
                queue.withdraw(withdrawn)
            unserved = queue.withdraw_unserved(tried) if tried else []
            return queue.collect(), unserved, queue.lost() if look else [], queue.workers() if look else []

        replies, unserved, lost, workers = await asyncio.to_thread(exchange)
        for id, text in replies:
            if (reply := self._waiting.pop(id, None)) is not None and not reply.done():
                reply.set_result(text)
        self._fail(UnreachableError(str(away)), unserved)
        if unserved:
            self._worker.retry()  # the fetcher rests
        self._fail(ReplyError("the worker that asked was lost: what became of it is not known."), lost)
        if look:
            await self._look_at(queue, workers)

    async def _look_at(self, queue: "TaskQueue", workers: "Sequence[WorkerBeat]") -> None:
        """Notice workers that are lost, and how many traces the others take."""
        now = asyncio.get_running_loop().time()
        before = self._beats
        self._beats = {
            worker.id: before[worker.id] if before.get(worker.id, (-1,))[0] == worker.beat else (worker.beat, now)
            for worker in workers
        }
        for worker in workers:
            if now - self._beats[worker.id][1] > LOST_AFTER_S:
                await asyncio.to_thread(queue.expire, worker)
        width = sum(worker.width for worker in workers)
        if width and width != self._width:
            self._width = width
            self.on_width(width)


async def follow(location: str | PathLike[str], run: int, worker: Worker) -> RunState:
    """Serve a run that another process allocates, until none does, or the worker is drained; the run's state then."""
    with Store.open(location, create=False) as store:
        view = store.view(run)
        async with AsyncExitStack() as stack:
            for sampler in worker.samplers:
                await stack.enter_async_context(sampler)
            serving = asyncio.create_task(worker.serve(run))
            try:
                while (state := await asyncio.to_thread(view.state)) == "running" and not serving.done():
                    await asyncio.wait([serving], timeout=LOOK_S)
                if serving.done():
                    serving.result()
                return state
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)


async def _open_queue(location: str | PathLike[str], run: int) -> "TaskQueue":
    """The tasks of a run; a connection that is made while this is cancelled is closed."""
    from pets.store.tasks import TaskQueue

    opening = asyncio.ensure_future(asyncio.to_thread(TaskQueue, location, run))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        with suppress(StateError):
            (await opening).close()
        raise


def check_version(settings: RunSettings, run: int) -> None:
    """Refuse to join a run that another version began: it may decide, read or charge otherwise."""
    if settings.version != __version__:
        raise StateError(
            f"run {run} was begun by pets {settings.version or 'of an unknown version'}, this is {__version__}: "
            "processes of one run are of one version. Install that one."
        )


def _request(prompt: Prompt, n: int, seed: int, sampling: Sampling) -> dict[str, Any]:
    content = prompt.content
    plain = content if isinstance(content, str) else [[message.role, message.content] for message in content]
    return {"prompt": plain, "body": prompt.body, "n": n, "seed": seed, "sampling": asdict(sampling)}


def _request_of(plain: dict[str, Any]) -> tuple[Prompt, int, int, Sampling]:
    content = plain["prompt"]
    if not isinstance(content, str):
        content = tuple(Message(role, text) for role, text in content)
    return Prompt(content, plain["body"]), plain["n"], plain["seed"], Sampling(**plain["sampling"])


def _completions(text: str) -> list[Completion]:
    """The traces of a reply; an error is raised as it was."""
    plain = json.loads(text)
    if isinstance(plain, dict):
        kind = ERRORS[plain["error"]]
        raise kind(plain["message"], status=plain["status"], retry_after=plain["retry_after"])
    return [
        Completion(
            **{
                **row,
                "confidence": None if row["confidence"] is None else Confidence(**row["confidence"]),
                "alternatives": tuple(TokenAlternatives(*token) for token in row["alternatives"]),
            }
        )
        for row in plain
    ]
