"""The whole system on a simulated clock, from one seed: ``python -m tests.simulation 1000`` (``make simulate``).

A seed decides a world: questions, budget, policy and width; a server that delays, reorders, cuts short, refuses, breaks
off and dies; clients that come and leave; and when the process is killed. Engine, run store and gateway ledger are the
real ones. Every life of the process is a forked child that ends at its hour by ``os._exit``: what it had in
memory is gone, nothing is closed, and the next life opens the store that it left.

The server keeps its own account in a file. Whenever nothing is left to do but to wait, and after every death, these
laws are checked:

- what is spent and held never exceeds the budget;
- the ledger (traces stored, what is in flight) is never below what the server sampled, and equal to it when a life ends
  by itself: nothing is free, and nothing is paid twice;
- no seed of a prompt is delivered twice;
- at the end every question has an answer, or no trace of it voted; certificates lie within [0, 1];
- the votes of an answer are those of its stored traces.

A law that is broken prints the seed and the command that replays it.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.simulated_time import run_simulated

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine import Engine, RunSpec
from pets.engine.assemble import assemble_submissions
from pets.engine.driver import Driver
from pets.engine.fetch import Fetcher
from pets.engine.models import model_shares
from pets.engine.places import Places
from pets.engine.sources import Sources, mixed
from pets.engine.stream import Stream
from pets.engine.submissions import VoteLimits
from pets.errors import BusyError, PetsError, RefusedError, ReplyError, UnreachableError
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import GatewayLedger, RequestAccount
from pets.gateway.sqlite_backend import SQLiteBackend
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.store import Store

from .streams import make_stream, stream_settings

MOST_LIVES = 12  # of one world; the last is neither killed nor disturbed
KILLED = 9  # the exit code of a life that met its end
TRACE_S = (0.1, 1.0, 3.0)
WRITES_S = (0.0, 0.01, 0.05, 0.3)
KILLS_S = (0.0, 0.05, 0.1, 0.7, 1.0, 2.5, 8.0, 20.0)
ROOT = Path(__file__).parents[1]


class LawBrokenError(Exception):
    """A law that does not hold, and the figures that show it."""


def hold(law: str, holds: bool, **figures: object) -> None:
    """Stop the world where a law does not hold."""
    if not holds:
        raise LawBrokenError(f"{law}: {', '.join(f'{name} {value}' for name, value in figures.items())}")


class ServerAccount:
    """What a server sampled and delivered, by its own account, which outlives every process that asked."""

    def __init__(self, path: Path) -> None:
        self.sampled = 0
        self.delivered: Counter[tuple[str, int]] = Counter()
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        with path.open() as lines:
            for line in lines:
                self._count(*json.loads(line))

    def count(self, sampled: int, delivered: list[tuple[str, int]]) -> None:
        """Put down traces that were sampled, and those of them that were sent."""
        os.write(self._file, (json.dumps([sampled, delivered]) + "\n").encode())
        self._count(sampled, delivered)

    def _count(self, sampled: int, delivered: list[tuple[str, int]]) -> None:
        self.sampled += sampled
        self.delivered.update((prompt, seed) for prompt, seed in delivered)


class Server(Sampler):
    """Takes its time and fails at random, and keeps account of what it sampled."""

    def __init__(self, rng: random.Random, account: ServerAccount, *, steady: bool) -> None:
        self.rng, self.account, self.steady = rng, account, steady
        self.widest = self.in_flight = 0
        self._served = False
        self._shortest_s = float("inf")  # of the traces that this life saw delivered
        self._max_n = rng.choice([None, None, 1, 2, 4])
        faults = {"slow down": 2, "down": 2, "away": 2, "refused": 0.3, "timeout": 2, "broken": 1, "late 502": 1}
        self._shares = {"all": 10.0} if steady else {"all": 10.0, "fewer": 1.0, "cut": 1.0, "unreadable": 1.0}
        if not steady:
            self._shares |= {fault: rng.choice([0, share]) for fault, share in faults.items()}
        begins = rng.choice([1e9, 1e9, rng.uniform(0, 10)])
        self._outage = (1e9, 1e9) if steady else (begins, begins + rng.choice([0.5, 5.0, 60.0]))

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        loop = asyncio.get_running_loop()
        begun, takes_s = loop.time(), self.rng.choice(TRACE_S)
        if self._is_away(begun):
            raise UnreachableError("nobody is there")
        self.in_flight += n
        self.widest = max(self.widest, self.in_flight)
        try:
            await asyncio.sleep(takes_s)
        except asyncio.CancelledError:
            self.account.count(n, [])
            raise
        finally:
            self.in_flight -= n
        if self._max_n is not None and n > self._max_n:
            raise RefusedError("n is too large", status=400)
        if self._is_away(loop.time()):
            self.account.count(n, [])
            raise BusyError("the connection was lost")
        return self._reply(str(prompt.content), n, seed, takes_s)

    def _is_away(self, now: float) -> bool:
        begin, end = self._outage
        return begin <= now < end

    def _reply(self, prompt: str, n: int, seed: int, takes_s: float) -> list[Completion]:
        (event,) = self.rng.choices(list(self._shares), list(self._shares.values()))
        if event == "refused" and not self._served:
            event = "down"  # else all is refused, also what was in flight when the run ended
        if event == "late 502" and takes_s < self._shortest_s / 2:
            event = "down"  # too soon to have sampled anything
        if event in ("slow down", "down", "away", "refused"):
            raise {
                "slow down": BusyError("slow down", status=429, retry_after=2.0),
                "down": BusyError("down", status=503),
                "away": UnreachableError("nobody is there"),
                "refused": RefusedError("this prompt is too long", status=400),
            }[event]
        if event in ("timeout", "broken", "late 502"):
            self.account.count(n if event != "late 502" or self._served else 0, [])
            raise {
                "timeout": BusyError("no answer in time"),
                "broken": ReplyError("half a reply"),
                "late 502": BusyError("bad gateway", status=502),
            }[event]
        n = self.rng.randint(1, n) if event == "fewer" else n
        self._served, self._shortest_s = True, min(self._shortest_s, takes_s)
        self.account.count(n, [(prompt, seed + i) for i in range(n)])
        texts = {"unreadable": "Who knows?"}
        finish = "length" if event == "cut" else "stop"
        return [
            Completion(texts.get(event, f"The answer is {'AAAB'[(seed + i) % 4]}."), finish, 10, 5) for i in range(n)
        ]


class World:
    """One seed: what is asked, under which budget, and how the process fares; ``live`` is one life of it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.rng = random.Random(seed)
        self.store = folder / "store.db"
        self.concurrency = self.rng.choice([1, 4, 64])
        self.tries = self.rng.choice([1, 2, 6])
        self.models = random.Random(f"{seed} models").choice([None, None, ["a", "b=2"]])  # several vote in some worlds
        self.problems = [
            Problem(f"q{i}", Prompt.chat(f"Question {i}"), "choice:options=4") for i in range(self.rng.randint(1, 10))
        ]

    def live(self, life: int) -> bool:
        """One life; whether the work is done."""
        rng = random.Random(f"{self.seed} {life}")
        last = life == MOST_LIVES - 1
        self.account = ServerAccount(self.folder / "account")
        self.server = Server(rng, self.account, steady=last)
        self.servers = {"a": self.server}
        if self.models:
            self.servers["b"] = Server(random.Random(f"{self.seed} {life} b"), self.account, steady=last)
        killed_at = None if last else rng.choice([None, *KILLS_S])

        def wait(until: float) -> None:
            if killed_at is not None and until >= killed_at:
                self.account.count(sum(server.in_flight for server in self.servers.values()), [])  # servers go on
                os._exit(KILLED)
            self.check()

        done = run_simulated(self.work(rng), lambda: rng.choice(WRITES_S), wait)
        self.check_rest()
        return done

    async def work(self, rng: random.Random) -> bool:
        """What the process does in one life; whether nothing is left to do."""
        raise NotImplementedError

    def check(self) -> None:
        """The laws that hold at every moment."""
        widest = max(server.widest for server in self.servers.values())
        hold("the width is kept", widest <= self.concurrency, widest=widest)

    def samplers(self) -> list[Sampler]:
        """The server, or those of several models that vote together."""
        models = RunSpec.of(models=model_shares(self.models))
        return mixed(models, {name: [s] for name, s in self.servers.items()}) if self.models else [self.server]

    def check_rest(self) -> None:
        """The laws that hold when a life has ended by itself."""

    def check_death(self) -> None:
        """The laws that hold of what a killed life left, seen from outside."""


class RunWorld(World):
    """A run with a store: ``solve`` or a stream."""

    total: int | None
    adopted = 0  # what the store says was spent when this life took it up
    driver: Driver | None = None

    def check(self) -> None:
        super().check()
        twice = [key for key, times in self.account.delivered.items() if times > 1]
        hold("no seed of a prompt is delivered twice", not twice, twice=twice)
        if self.driver is not None:
            budget = self.driver.allocator.budget
            committed, most = budget.spent + budget.reserved, max(budget.total, self.adopted)
            hold("spent and held keep to the budget", committed <= most, budget=budget, adopted=self.adopted)

    def check_rest(self) -> None:
        spent, sampled = self.stored_spend(), self.account.sampled
        hold("what is charged is what was sampled", spent >= sampled, spent=spent, sampled=sampled)

    def check_death(self) -> None:
        account = ServerAccount(self.folder / "account")
        spent, sampled = self.stored_spend(), account.sampled
        hold("a death loses nothing that was paid for", spent >= sampled, spent=spent, sampled=sampled)
        hold("the store keeps to the budget", self.total is None or spent <= self.total, spent=spent, total=self.total)

    def stored_spend(self) -> int:
        """What the store says was spent, launches without a trace at what was held for them."""
        if not self.store.exists():
            return 0
        with Store.open(self.store) as store:
            return sum(run.spent for run in store.runs())

    def has_run(self) -> bool:
        """Whether an earlier life made the run."""
        if not self.store.exists():
            return False
        with Store.open(self.store) as store:
            return bool(store.runs())

    def check_votes(self, votes: dict[str, dict[str, int]]) -> None:
        """Every question's votes are those of the traces in the store."""
        with Store.open(self.store) as store:
            stored: dict[str, Counter[str]] = {problem.id: Counter() for problem in self.problems}
            for trace in store.view().traces(texts=False):
                if trace.answer is not None:
                    stored[trace.question][trace.answer] += 1
        hold("votes are those of the stored traces", votes == {id: dict(v) for id, v in stored.items()}, votes=votes)


class BatchWorld(RunWorld):
    """``solve``, killed and taken up again."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.total = len(self.problems) * self.rng.randint(1, 6)
        self.options = {
            "budget": self.total,
            "policy": self.rng.choice(["uniform", "okg"]),
            "max_traces": self.rng.choice([8, 32]),
            "concurrency": self.concurrency,
            "tries": self.tries,
            "keep_going": True,
        }

    async def work(self, rng: random.Random) -> bool:
        try:
            if self.has_run():
                made = Engine.resume(self.store, sampler=self.samplers())
            else:
                made = Engine(
                    self.problems, model=self.models, sampler=self.samplers(), store=self.store, **self.options
                )
            async with made as engine:
                running = asyncio.ensure_future(engine.run())
                drain_s = None if self.server.steady else rng.choice([None, None, None, 0.3, 2.0])
                if drain_s is not None:
                    asyncio.get_running_loop().call_later(drain_s, engine.drain)
                solution = await running
                answers = list(engine.answers())
        except PetsError:
            return False
        if not solution.complete:
            return False
        hold("the solution and the store agree", solution.spent == self.stored_spend(), spent=solution.spent)
        for answer in answers:
            certificate = answer.certificate
            hold("a certificate is a probability", certificate is None or 0 <= certificate <= 1, of=answer)
            hold("a question with votes has an answer", (answer.answer is not None) == bool(answer.votes), of=answer)
        self.check_votes({answer.id: dict(answer.votes) for answer in answers})
        return True


class StreamWorld(RunWorld):
    """Questions that arrive one by one; a life answers what the one before left open."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        windows, mean = self.rng.choice([True, False]), self.rng.randint(4, 6)
        self.total = None if windows else mean * len(self.problems)
        budget = Budget.per_window(4, 4 * mean, cap=8) if windows else Budget(self.total or 0, 8)
        spec = RunSpec.of(concurrency=self.concurrency, tries=self.tries, keep_going=True)
        policy = self.rng.choice([Uniform(), PriceRule(rounds=2)])
        horizon = None if windows else len(self.problems)
        self.settings = stream_settings(policy, budget, spec, horizon, open_questions=self.rng.choice([1, 3, 8]))

    async def work(self, rng: random.Random) -> bool:
        answered: list[str] = []

        def answer(given: object) -> None:
            certificate = given.certificate  # type: ignore[attr-defined]
            hold("a certificate is a probability", certificate is None or 0 <= certificate <= 1, of=given)
            answered.append(given.id)  # type: ignore[attr-defined]

        async def arriving() -> object:
            for problem in self.problems:
                await asyncio.sleep(0.2)
                yield problem

        if self.has_run():
            # With windows, what came to nothing is a debt that later windows pay: an earlier life may have left one.
            self.adopted = self.stored_spend()
            stream = Stream.resume(self.store, "last", lambda spec, record: Sources(self.samplers()), answer)
        else:
            stream = make_stream(self.settings, self.samplers(), answer, store=self.store)
        async with stream as running:
            drain_s = None if self.server.steady else rng.choice([None, None, 0.3, 2.0])
            if drain_s is not None:
                asyncio.get_running_loop().call_later(drain_s, running.drain)
            self.driver = running.driver
            try:
                await running.run(arriving())
            except PetsError:
                return False
        hold("an answer is given once", len(answered) == len(set(answered)), answered=answered)
        return not running.driver.stops.drained


class GatewayWorld(World):
    """Requests to a gateway's driver and ledger; each life serves others on what the last one left of the budget."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.limit = self.rng.choice([None, 5, 40])
        self.ledger: GatewayLedger | None = None

    async def work(self, rng: random.Random) -> bool:
        self.ledger = ledger = GatewayLedger(SQLiteBackend(self.store), total=self.limit)
        several = rng.random() < 0.5
        driver, submissions = assemble_submissions(
            Allocator(PriceRule(rounds=2), Budget.per_window(4, 32, cap=16)),
            Fetcher(self.samplers(), tries=self.tries, patience_s=None, rpm=rng.choice([None, 30])),
            Places(self.concurrency, lambda: several),
            ledger,
        )

        async def submit(problem: Problem) -> None:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(rng.choice([0.0, 0.5, 3.0]))
            account = RequestAccount(ApiKey("key", None), problem.id)
            deadline = loop.time() + rng.choice([0.0, 0.1, 3.0, 1000.0])
            single, rounds = rng.random() < 0.2, rng.choice([None, 0, 1])
            limits = VoteLimits(
                Sampling(),
                0,
                8,
                deadline,
                rounds=rounds,
                single=single,
                context=account,
                payer=rng.choice("ab"),
            )
            task = asyncio.ensure_future(submissions.submit(problem, limits))
            leaves_s = rng.choice([None, None, *KILLS_S])
            await asyncio.wait([task], timeout=leaves_s)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=1e6)
            hold("a request ends", bool(done), of=problem.id)
            if not task.cancelled() and task.exception() is not None and not isinstance(task.exception(), PetsError):
                raise task.exception()  # type: ignore[misc]

        await asyncio.gather(*(submit(problem) for problem in self.problems))
        spent, held = ledger.total.spent, ledger.total.held
        hold("nothing stays held", held == 0 and driver.allocator.budget.reserved == 0, held=held)
        hold(
            "what is charged is what was sampled",
            spent >= self.account.sampled,
            spent=spent,
            account=self.account.sampled,
        )
        driver.close()
        await ledger.close()
        return self.server.steady or rng.random() < 0.5

    def check(self) -> None:
        super().check()
        if self.ledger is not None and self.limit is not None:
            total = self.ledger.total
            hold("spent and held keep to the budget", total.spent + total.held <= self.limit, total=total)


WORLDS = (BatchWorld, StreamWorld, GatewayWorld)


@contextmanager
def world_of(seed: int) -> Iterator[World]:
    """The world of a seed, in a folder that goes with it."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="pets-", dir=shared if shared.is_dir() else None))
    try:
        yield WORLDS[seed % len(WORLDS)](seed, folder)
    finally:
        shutil.rmtree(folder)


def simulate(seed: int) -> str | None:
    """Live through a world; the law that broke, or ``None``."""
    with world_of(seed) as world:
        for life in range(MOST_LIVES):
            report = world.folder / "report"
            child = os.fork()
            if child == 0:
                os._exit(_live(world, life, report))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code == 0:
                return None
            if code not in (KILLED, 1):
                return report.read_text() if report.exists() else f"life {life} ended with {code}"
            try:
                world.check_death()
            except LawBrokenError as error:
                return f"after life {life}: {error}"
        return "the last life, undisturbed, did not end its work"


def warm_up() -> None:
    """Live through some undisturbed worlds in this process: its children inherit what is imported and cached."""
    logging.disable(logging.WARNING)  # models that fail are the point
    for seed in range(4 * len(WORLDS)):
        with suppress(LawBrokenError), world_of(seed) as world:  # what breaks here breaks below, with its seed
            world.live(MOST_LIVES - 1)


def _live(world: World, life: int, report: Path) -> int:
    try:
        return 0 if world.live(life) else 1
    except BaseException:  # noqa: BLE001 (the child's only boundary: its parent reads the report)
        report.write_text(f"life {life}: {traceback.format_exc()}")
        return 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("seeds", type=int, nargs="?", default=300, help="How many seeds, from --first on.")
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="Processes.")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    begun, broken = time.perf_counter(), 0
    with ProcessPoolExecutor(arguments.workers, initializer=warm_up) as pool:
        for seed, law in zip(seeds, pool.map(simulate, seeds, chunksize=8), strict=True):
            if law is not None:
                broken += 1
                print(f"seed {seed}: {law}\nAgain: python -m tests.simulation 1 --first {seed}", flush=True)  # noqa: T201
    seconds = time.perf_counter() - begun
    print(f"{len(seeds) - broken} of {len(seeds)} worlds kept every law, {seconds:.0f} s.")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
