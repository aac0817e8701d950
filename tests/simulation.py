"""The whole system on a simulated clock, from one seed: ``python -m tests.simulation 1000`` (``make simulate``).

A seed decides a world: questions, budget, policy and width; a server that delays, reorders, cuts short, refuses, breaks
off and dies; races, and what is cancelled when they are settled; clients that come and leave; and when the process is
killed. Engine, run store and gateway ledger are the
real ones. Every life of the process is a forked child that ends at its hour by ``os._exit``: what it had in
memory is gone, nothing is closed, and the next life opens the store that it left.

The server keeps its own account in a file. Whenever nothing is left to do but to wait, and after every death, these
laws are checked:

- what is spent and held never exceeds the budget; by windows, tries that came to nothing may, and later windows pay for
  them before anything else is launched;
- what each run paid for (traces stored but for those of other runs, what is in flight) is never below what the server
  sampled for it: nothing is free;
- no seed of a prompt is delivered twice to a run, nor to a run that began when the store held its trace, and one that
  was cancelled is never asked for again by its run;
- a trace that was reused is the one that its run paid for, at the same cost;
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tests.simulated_time import run_simulated

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.mixture import ModelMixture
from pets.core.money import TRACES, Currency
from pets.engine import Engine, RunSpec
from pets.engine.assemble import assemble_submissions
from pets.engine.budget import model_shares
from pets.engine.fetch import Fetcher
from pets.engine.sources import Servers, sources_of
from pets.engine.stream import Stream
from pets.engine.submissions import Places, VoteLimits
from pets.errors import BusyError, PetsError, RefusedError, ReplyError, UnreachableError
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import GatewayLedger, RequestAccount
from pets.gateway.ledger_backend import LedgerBackend
from pets.gateway.sqlite_store import SQLiteStore
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler, Sampling, Written
from pets.store import RunSummary, Store, StoredTrace

from .streams import make_stream, stream_settings

MOST_LIVES = 12  # of one world; the last is neither killed nor disturbed
KILLED = 9  # the exit code of a life that met its end
TOKENS, PROMPT_TOKENS, MOST_TOKENS = 10, 5, 150  # of a trace, and more than are held for one at first
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


Seed = tuple[str, str]
"""What is paid for once: a prompt, and the model and seed that its trace begins with."""


class ServerAccount:
    """What servers sampled and delivered for each ``run``, by their own account, which outlives all that asked."""

    def __init__(self, path: Path) -> None:
        self.run = 1
        self.tokens: Counter[int] = Counter()
        self.prompts: Counter[int] = Counter()
        self.delivered: Counter[tuple[int, Seed]] = Counter()
        self.cancelled: set[tuple[int, Seed]] = set()
        self._path = path
        if path.exists():
            for line in path.read_text().splitlines():
                self._count(*json.loads(line))

    def count(
        self, sampled: int, delivered: Sequence[Seed] = (), cancelled: Sequence[Seed] = (), tokens: int = TOKENS
    ) -> None:
        """Put down traces that were sampled, of so many tokens each, those of them that were sent or cancelled."""
        row = self.run, sampled, [*delivered], [*cancelled], tokens
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        self._count(*row)

    def _count(self, run: int, sampled: int, delivered: list[Seed], cancelled: list[Seed], tokens: int) -> None:
        self.tokens[run] += sampled * tokens
        self.prompts[run] += sampled
        self.delivered.update((run, (prompt, seed)) for prompt, seed in delivered)
        self.cancelled.update((run, (prompt, seed)) for prompt, seed in cancelled)

    def sampled(self, run: int, currency: Currency = TRACES) -> float:
        """What was sampled for a run: tokens with those of prompts, or as many whole traces as have its tokens."""
        tokens = self.tokens[run]
        return tokens / TOKENS if currency.counts_traces else tokens + PROMPT_TOKENS * self.prompts[run]


class Server(Sampler):
    """Takes its time and fails at random, and keeps account of what it sampled."""

    def __init__(self, name: str, rng: random.Random, account: ServerAccount, *, steady: bool) -> None:
        self.source, self.rng, self.account, self.steady = name, rng, account, steady
        self.in_flight, self.asked_again = 0, list[Seed]()
        own = random.Random(f"{rng.getstate()[1][:2]} {name} stream")
        self.stops, self._tells, self._ends = own.random() < 0.7, own.random() < 0.7, own.random() < 0.7
        self.meet_run()
        self._max_n = rng.choice([None, None, 1, 2, 4])
        faults = {"slow down": 2, "down": 2, "away": 2, "refused": 0.3, "timeout": 2, "broken": 1, "late 502": 1}
        self._shares = {"all": 10.0} if steady else {"all": 10.0, "fewer": 1.0, "cut": 1.0, "unreadable": 1.0}
        if not steady:
            self._shares |= {fault: rng.choice([0, share]) for fault, share in faults.items()}
        begins = rng.choice([1e9, 1e9, rng.uniform(0, 10)])
        self._outage = (1e9, 1e9) if steady else (begins, begins + rng.choice([0.5, 5.0, 60.0]))

    def meet_run(self) -> None:
        """A run begins, or is taken up, that knows nothing of this server yet."""
        self.widest = 0
        self._served = False
        self._shortest_s = float("inf")  # of the traces that it saw delivered

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        return await self._sample(str(prompt.content), n, seed, Written())

    async def sample_streamed(self, prompt: Prompt, seed: int, sampling: Sampling, written: Written) -> Completion:
        written.seen, written.told, written.prompt_tokens = True, self._tells, PROMPT_TOKENS
        return (await self._sample(str(prompt.content), 1, seed, written))[0]

    async def _sample(self, prompt: str, n: int, seed: int, written: Written) -> list[Completion]:
        loop = asyncio.get_running_loop()
        own = prompt, f"{self.source} {seed}"
        if (self.account.run, own) in self.account.cancelled:
            self.asked_again.append(own)
        begun, takes_s = loop.time(), self.rng.choice(TRACE_S)
        if self._is_away(begun):
            raise UnreachableError("nobody is there")
        self.in_flight += n
        self.widest = max(self.widest, self.in_flight)
        try:
            await self._decode(takes_s, written)
        except asyncio.CancelledError:
            written.ended = self._ends
            tokens = written.tokens if written.seen and self.stops else TOKENS
            self.account.count(n, cancelled=[own], tokens=tokens)
            raise
        finally:
            self.in_flight -= n
        if self._max_n is not None and n > self._max_n:
            raise RefusedError("n is too large", status=400)
        if self._is_away(loop.time()):
            self.account.count(n)
            raise BusyError("the connection was lost")
        return self._reply(prompt, n, seed, takes_s)

    @staticmethod
    async def _decode(takes_s: float, written: Written) -> None:
        """Let the time of a trace pass; a streamed one says on the way how much of it there is."""
        if not written.seen:
            await asyncio.sleep(takes_s)
            return
        clock = asyncio.get_running_loop().time
        for number in range(1, TOKENS + 1):
            await asyncio.sleep(takes_s / TOKENS)
            written.tokens, written.seen_at = number, clock()
            written.begun_at = written.begun_at or clock()

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
            self.account.count(n if event != "late 502" or self._served else 0)
            raise {
                "timeout": BusyError("no answer in time"),
                "broken": ReplyError("half a reply"),
                "late 502": BusyError("bad gateway", status=502),
            }[event]
        n = self.rng.randint(1, n) if event == "fewer" else n
        self._served, self._shortest_s = True, min(self._shortest_s, takes_s)
        seeds = [f"{self.source} {own}" for own in range(seed, seed + n)]
        self.account.count(n, [(prompt, own) for own in seeds])
        says = ["Who knows?" if event == "unreadable" else f"The answer is {'AAAB'[(seed + i) % 4]}." for i in range(n)]
        finish = "length" if event == "cut" else "stop"
        return [
            Completion(f"{own}: {text}", finish, TOKENS, PROMPT_TOKENS) for own, text in zip(seeds, says, strict=True)
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
        self.server = Server("a", rng, self.account, steady=last)
        self.servers = {"a": self.server}
        if self.models:
            self.servers["b"] = Server("b", random.Random(f"{self.seed} {life} b"), self.account, steady=last)
        killed_at = None if last else rng.choice([None, *KILLS_S])

        def wait(until: float) -> None:
            if killed_at is not None and until >= killed_at:
                self.account.count(sum(server.in_flight for server in self.servers.values()))  # servers go on
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
        return list(sources_of(Servers(sampler=self.servers), models).samplers) if self.models else [self.server]

    def check_rest(self) -> None:
        """The laws that hold when a life has ended by itself."""

    def check_death(self) -> None:
        """The laws that hold of what a killed life left, seen from outside."""


def _most(total: int, currency: Currency) -> int:
    """What may be spent of a budget; what a trace will cost in tokens is not known beforehand."""
    return total if currency.counts_traces else int(total * (1 + RunSpec().spending.overshoot))


THIS_RUNS_OWN = {"question": "", "endpoint": 0, "model": 0, "tries": 0, "wasted": 0, "reused_from": None}
"""What a trace that is reused need not share with the one that was paid for."""


class RunWorld(World):
    """Runs with a store: ``solve``, also several times over one store, or a stream."""

    totals: Sequence[int]  # the budget of each run, in its unit
    held: frozenset[Seed] = frozenset()  # what other runs had of the store when the present one was taken up

    def check(self) -> None:
        super().check()
        twice = [key for key, times in self.account.delivered.items() if times > 1]
        hold("no seed of a prompt is delivered twice to a run", not twice, twice=twice)
        again = [seed for run, seed in self.account.delivered if run == self.account.run and seed in self.held]
        hold("what the store held is not asked for again", not again, again=again)
        again = [seed for server in self.servers.values() for seed in server.asked_again]
        hold("what was cancelled is not asked for again", not again, again=again)
        budget = self.budget()
        if budget is not None:
            hold("spent and held keep to the budget", self.is_kept(budget), budget=budget)

    def budget(self) -> Budget | None:
        """The budget of the run under way."""
        return None

    def is_kept(self, budget: Budget) -> bool:
        """Whether no more is spent and held than the budget has."""
        return budget.spent + budget.reserved <= _most(budget.total, budget.currency)

    def total(self, run: RunSummary) -> int:
        """What a run may spend."""
        return self.totals[run.id - 1]

    def check_rest(self) -> None:
        self.check_store(self.account)

    def check_death(self) -> None:
        self.check_store(ServerAccount(self.folder / "account"))

    def check_store(self, account: ServerAccount) -> None:
        """The laws that hold of the store at rest, whatever ended the life before."""
        runs, own, reused = {run.id: run for run in self.runs()}, {}, Counter[int]()
        for run, prompt, _, trace in self.stored_traces():
            if trace.reused_from is None:
                own[run, prompt, trace.number] = trace
                continue
            origin = own.get((trace.reused_from, prompt, trace.number))
            same = (
                origin is not None
                and origin.error is None
                and replace(origin, **THIS_RUNS_OWN) == replace(trace, **THIS_RUNS_OWN)
            )
            hold("a trace that was reused is the one that was paid for", same, trace=trace, origin=origin)
            reused[run] += runs[run].settings.currency.cost(trace)
        for run in runs.values():
            spent, total = run.spent, self.total(run)
            paid, sampled = spent - reused[run.id], account.sampled(run.id, run.settings.currency)
            hold("nothing that was sampled is free", paid >= sampled, run=run.id, paid=paid, sampled=sampled)
            kept = spent <= _most(total, run.settings.currency)
            hold("the store keeps to the budget", kept, run=run.id, spent=spent, total=total)

    def runs(self) -> list[RunSummary]:
        """The runs of the store."""
        if not self.store.exists():
            return []
        with Store.open(self.store) as store:
            return store.runs()

    def stored_traces(self) -> Iterator[tuple[int, str, int, StoredTrace]]:
        """The traces of the store: the run of each, what it was asked, and its turn among the models."""
        for run in self.runs():
            with Store.open(self.store) as store:
                view = store.view(run.id)
                prompts = {problem.id: str(problem.prompt.content) for problem in view.problems()}
                blocks = RunSpec().seeds(1).blocks(view.keys())
                for trace in view.traces():
                    yield run.id, prompts[trace.question], blocks.get(trace.question, 0) + trace.number, trace

    def check_votes(self, votes: dict[str, dict[str, int]]) -> None:
        """Every question's votes are those of the traces in the store."""
        with Store.open(self.store) as store:
            view = store.view()
            stored: dict[str, Counter[str]] = {problem.id: Counter() for problem in view.problems()}
            for trace in view.traces(texts=False):
                if trace.answer is not None:
                    stored[trace.question][trace.answer] += 1
        hold("votes are those of the stored traces", votes == {id: dict(v) for id, v in stored.items()}, votes=votes)


class BatchWorld(RunWorld):
    """``solve``, killed and taken up again; in some worlds several times over one store, the file edited in between."""

    engine: Engine | None = None

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        total = len(self.problems) * self.rng.randint(1, 6)
        policies = ["uniform", "okg"]
        first = {
            "budget": total,
            "policy": self.rng.choice(policies),
            "max_traces": self.rng.choice([8, 32]),
            "concurrency": self.concurrency,
            "tries": self.tries,
            "keep_going": True,
            "hurry": random.Random(f"{seed} hurry").choice([None, 0.0, 1.0]),
        }
        self.calls, totals = [(self.problems, first)], [total]
        rng = random.Random(f"{seed} calls")
        for call in range(rng.choice([0, 0, 1, 2, 3])):
            prompts = rng.sample([problem.prompt for problem in self.problems], rng.randint(1, len(self.problems)))
            prompts.insert(0, Prompt.chat(f"Question of call {call}"))
            file = [Problem(f"row {i}", prompt, "choice:options=4") for i, prompt in enumerate(prompts)]
            total, unit = len(file) * rng.randint(1, 8), rng.choice(["", "tok"])
            total = max(MOST_TOKENS, total * (TOKENS + PROMPT_TOKENS)) if unit else total
            edit = {"policy": rng.choice(policies), "budget": f"{total}{unit}", "concurrency": rng.choice([1, 4, 64])}
            self.calls.append((file, {**first, **edit, "max_tokens": 2 * TOKENS if unit else None}))
            totals.append(total)
        self.totals = totals

    def budget(self) -> Budget | None:
        return self.engine.allocator.budget if self.engine is not None and self.engine.begun else None

    async def work(self, rng: random.Random) -> bool:
        while True:
            runs = self.runs()
            on = bool(runs) and runs[-1].state != "finished"
            if on and len(runs) < len(self.calls) and rng.random() < 0.2:
                on = False  # the user edits the file and never resumes what was broken off
            if not on and len(runs) == len(self.calls):
                return True
            if not await self.solve(rng, None if on else self.calls[len(runs)]):
                return False

    async def solve(self, rng: random.Random, call: tuple[list[Problem], dict[str, object]] | None) -> bool:
        """A new run, or without a call the last one taken up; whether it came to its end."""
        self.engine = None
        self.account.run = len(self.runs()) + (call is not None)
        self.concurrency = self.calls[self.account.run - 1][1]["concurrency"]
        for server in self.servers.values():
            server.meet_run()
        mixture = None if not self.models else ModelMixture((1, 2))
        stored = list(self.stored_traces())
        races: dict[tuple[int, str], int] = {}  # the first launch of a question that was cancelled: none behind is fair
        for run, prompt, _, trace in stored:
            if trace.part is not None:
                races[run, prompt] = min(trace.number, races.get((run, prompt), trace.number))
        self.held = frozenset(
            (prompt, trace.text.partition(":")[0])
            for run, prompt, turn, trace in stored
            if run != self.account.run
            and trace.number <= races.get((run, prompt), trace.number)
            and trace.error is None
            and trace.part is None
            # What a model gave in the place of another, which was away, is asked of that one again.
            and (mixture is None or mixture.model_at(turn, 0) == trace.model)
        )
        try:
            if call is None:
                made = Engine.resume(self.store, sampler=self.samplers())
            else:
                problems, options = call
                made = Engine(problems, model=self.models or "a", sampler=self.samplers(), store=self.store, **options)
            async with made as self.engine:
                running = asyncio.ensure_future(self.engine.run())
                drain_s = None if self.server.steady else rng.choice([None, None, None, 0.3, 2.0])
                if drain_s is not None:
                    asyncio.get_running_loop().call_later(drain_s, self.engine.drain)
                solution = await running
                answers = list(self.engine.answers())
        except PetsError:
            return False
        if not solution.complete:
            return False
        hold("the solution and the store agree", solution.spent == self.runs()[-1].spent, spent=solution.spent)
        for answer in answers:
            certificate = answer.certificate
            hold("a certificate is a probability", certificate is None or 0 <= certificate <= 1, of=answer)
            hold("a question with votes has an answer", (answer.answer is not None) == bool(answer.votes), of=answer)
        self.check_votes({answer.id: dict(answer.votes) for answer in answers})
        return True


class StreamWorld(RunWorld):
    """Questions that arrive one by one; a life answers what the one before left open."""

    adopted = 0  # what the store says was spent when this life took it up
    running: Stream | None = None

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        windows, mean = self.rng.choice([True, False]), self.rng.randint(4, 6)
        self.totals = [mean * len(self.problems)]
        budget = Budget.per_window(4, 4 * mean, cap=8) if windows else Budget(self.totals[0], 8)
        own = random.Random(f"{seed} hurry")
        hurry = own.choice([None, 0.0, 1.0])
        spec = RunSpec.of(concurrency=self.concurrency, tries=self.tries, keep_going=True, hurry=hurry)
        policy = self.rng.choice([Uniform(), PriceRule(rounds=own.choice([0, 2]))])
        horizon = None if windows else len(self.problems)
        self.settings = stream_settings(policy, budget, spec, horizon, open_questions=self.rng.choice([1, 3, 8]))

    def budget(self) -> Budget | None:
        return None if self.running is None else self.running.driver.allocator.budget

    def is_kept(self, budget: Budget) -> bool:
        # With windows, tries that came to nothing are a debt that later windows pay. A life that ends before leaves it
        # to the next one, which launches nothing until it is paid.
        paying = budget.window is not None and budget.spent == self.adopted and not budget.reserved
        return paying or super().is_kept(budget)

    def total(self, run: RunSummary) -> int:
        if run.settings.window is None:
            return super().total(run)
        questions, amount = run.settings.window
        with Store.open(self.store) as store:
            view = store.view(run.id)
            debt = sum(trace.wasted for trace in view.traces(texts=False)) + sum(lost.held - 1 for lost in view.lost())
        return amount * -(-run.questions // questions) + debt

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

        if runs := self.runs():
            self.adopted = runs[-1].spent
            stream = Stream.resume(self.store, "last", Servers(sampler=self.samplers()), answer)
        else:
            stream = make_stream(self.settings, self.samplers(), answer, store=self.store)
        async with stream as running:
            drain_s = None if self.server.steady else rng.choice([None, None, 0.3, 2.0])
            if drain_s is not None:
                asyncio.get_running_loop().call_later(drain_s, running.drain)
            self.running = running
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
        self.rounds = random.Random(f"{seed} rounds").choice([0, 2])

    async def work(self, rng: random.Random) -> bool:
        self.ledger = ledger = GatewayLedger(LedgerBackend(SQLiteStore(self.store)), total=self.limit)
        several = rng.random() < 0.5
        driver, submissions = assemble_submissions(
            Allocator(PriceRule(rounds=self.rounds), Budget.per_window(4, 32, cap=16)),
            Fetcher(self.samplers(), tries=self.tries, patience_s=None, rpm=rng.choice([None, 30])),
            Places(self.concurrency, lambda: several),
            ledger,
        )

        async def submit(problem: Problem) -> None:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(rng.choice([0.0, 0.5, 3.0]))
            account = RequestAccount(ApiKey("key", None), problem.id)
            deadline = loop.time() + rng.choice([0.0, 0.1, 3.0, 1000.0])
            single, hurry = rng.random() < 0.2, rng.choice([None, 0.0, 1.0])
            limits = VoteLimits(
                Sampling(),
                0,
                8,
                deadline,
                hurry=hurry,
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
            spent >= self.account.sampled(1),
            spent=spent,
            account=self.account.sampled(1),
        )
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
