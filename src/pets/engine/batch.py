"""A run by batch jobs: every wave is handed in as a job, and whatever ends this process, the next one goes on with it.

The laws of money are those of :mod:`pets.engine.fetch`, made durable: a launch is in the store before its job is, and a
job before anything of it is sent. A launch without a trace is in a job, which is read (again), or in none, and then it
was never sent and costs nothing. What is charged without a vote is written as a trace, once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Self

from pets.core.policy import IndexPolicy, QuotaPolicy
from pets.engine.arrivals import PendingLaunches
from pets.engine.budget import TokenPrice, price_of
from pets.engine.fetch import Fetcher, TraceRequest, fault_name, may_have_sampled
from pets.engine.ledger import RunLedger
from pets.engine.settlement import Settlement
from pets.engine.spec import RunSpec
from pets.errors import InputError, JobLeftError, RefusedError, SamplerError
from pets.openai.batch import BatchJob, NotExecutedError
from pets.openai.refusals import FieldsRefusedError
from pets.registry import spec_of
from pets.samplers import Completion, Prompt, Sampler, Sampling, Seeds
from pets.samplers.batch import BatchSampler
from pets.samplers.mixture import MixtureSampler
from pets.store import LostLaunch, Run, StoredTrace
from pets.types import Launch

LOGGER = logging.getLogger("pets.engine")
NO_JUDGE = "batch jobs cannot judge: name the judge's server, --answer judge:endpoint=URL."
BATCH_WAVES = 4  # of a policy that plans them and was not told how many
ANY_CONCURRENCY = 1 << 40  # traces in flight: a job is as large as its wave


def launches_in_jobs(
    jobs: Sequence[BatchJob], lost: Iterable[LostLaunch], positions: Mapping[str, int], seeds: Seeds
) -> tuple[list[PendingLaunches], list[Launch]]:
    """The launches without a trace that jobs answer, request by request, and those that no job holds."""
    lines = {seed + offset: (seed, n) for job in jobs for seed, n in job.lines for offset in range(n)}
    requests: dict[tuple[str, tuple[int, int]], list[int]] = {}
    others: list[Launch] = []
    for launch in lost:
        line = lines.get(seeds.at(positions[launch.question] % seeds.questions, launch.number % seeds.cap))
        if line is None:
            others.append(Launch(launch.question, launch.number))
        else:
            requests.setdefault((launch.question, line), []).append(launch.number)
    pending: list[PendingLaunches] = []
    for (id, _), numbers in requests.items():
        for _, group in groupby(enumerate(numbers), lambda row: row[1] - row[0]):  # those without a gap
            own = [number for _, number in group]
            pending.append((id, range(own[0], own[-1] + 1)))
    return pending, others


def batched(spec: RunSpec, model: str) -> RunSpec:
    """The spec as batch jobs need it: waves, their price, any number in flight.

    >>> spec = batched(RunSpec.of(batch_api=True), "gpt-4o-mini")
    >>> spec.spending.policy, spec.spending.price
    ('okg:waves=4', TokenPrice(prompt=0.075, output=0.3, batch=1.0, cached=0.0375))
    """
    policy, shared = spec.make_policy(), spec.spending.price
    if isinstance(policy, QuotaPolicy) and not (policy.blind or policy.rounds):
        name = (spec_of(policy) or type(policy).__name__.lower()).partition(":")[0]
        raise InputError(
            f"{name} decides trace by trace: that would be a job for each step. Choose okg, uniform or price:rounds=3."
        )
    if isinstance(policy, IndexPolicy) and not policy.blind and not policy.waves:
        policy = policy.with_waves(BATCH_WAVES)
    return spec.with_options(
        policy=spec_of(policy) or policy,
        price=_price_in_batches("" if spec.serving.models else model, shared),
        models=tuple(replace(m, price=_price_in_batches(m.name, m.price or shared)) for m in spec.serving.models),
        concurrency=ANY_CONCURRENCY,
    )


def _price_in_batches(model: str, own: TokenPrice | None) -> TokenPrice | None:
    price = price_of(model, own)
    return None if price is None else price.in_batches()


def batch_samplers(samplers: Sequence[Sampler]) -> list[BatchSampler]:
    """The samplers of a run by batch jobs, one for each model."""
    own = [sampler.sampler if isinstance(sampler, MixtureSampler) else sampler for sampler in samplers]
    providers = [sampler for sampler in own if isinstance(sampler, BatchSampler)]
    if len(providers) < len(own) or len({sampler.name for sampler in samplers}) < len(own):
        raise InputError("batch jobs of a model go to one provider; leave --batch-api out, or name one endpoint.")
    return providers


class JobLedger(RunLedger):
    """A run's store for launches that jobs answer: they stay in it until they are settled, whatever ends the run.

    ``samplers`` hand in the jobs, each of the ``wave`` that is under way, and await those that the store holds.
    """

    def __init__(self, run: Run, samplers: Sequence[BatchSampler], wave: Callable[[], int] = lambda: 0) -> None:
        super().__init__(run)
        for sampler in samplers:
            sampler.wave = wave
        self._samplers, self._known = samplers, set[Launch]()  # launches of an earlier process that jobs hold
        self._opening = 0  # attempts that a job waits for, which are about to be in the store

    async def __aenter__(self) -> Self:
        self._known = {Launch(launch.question, launch.number) for launch in self._run.lost()}
        for sampler in self._samplers:
            sampler.begin(self, self._run.jobs())
            sampler.arriving = lambda: self._opening > 0
        return await super().__aenter__()

    async def opened(self, request: TraceRequest) -> None:
        if self._known.issuperset(request.launches):  # an earlier process wrote them
            self._known.difference_update(request.launches)
            self._opened.update(zip(request.launches, request.holds, strict=True))
            return
        self._opening += 1
        try:
            await super().opened(request)
        finally:
            self._opening -= 1

    def abandoned(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        """Leave the launches in their job: the process that goes on with the run reads it."""
        self._forget(request.launches)

    async def write_job(self, job: BatchJob) -> None:
        transaction = self._transaction()
        transaction.jobs.append(job)
        await asyncio.shield(transaction.over)

    async def drop_job(self, job: BatchJob) -> None:
        transaction = self._transaction()
        transaction.dropped_jobs.append(job)
        await asyncio.shield(transaction.over)


class BatchFetcher(Fetcher):
    """Fetches traces by jobs: what is free to fail is handed in again, up to ``tries`` times. A run that is told to end
    ``leaves`` its jobs where they are; else it waits for them, and hands in nothing again."""

    shares_prompts = True

    def __init__(self, samplers: Sequence[Sampler], *, tries: int = 6, seed: int = 0, leaves: bool = True) -> None:
        super().__init__(samplers, tries=tries if leaves else 1, patience_s=None, seed=seed)
        self._providers, self._leaves = batch_samplers(samplers), leaves
        self._receiving = 0
        self._served_at = 0.0  # what a job holds may be paid for whatever others say

    def not_coming(self, *, draining: bool) -> SamplerError | None:
        """As :meth:`Fetcher.not_coming`: the jobs that stay where they are while the run ends."""
        if self._receiving or not draining or not (self._leaves or any(p.left for p in self._providers)):
            return None
        return JobLeftError(left_words([job for p in self._providers for job in p.open_jobs.values()]))

    async def ask(self, prompt: Prompt, sampling: Sampling, seed: int = 0) -> Completion:
        """Refused: a job is for traces, whose numbers tell its requests apart."""
        raise InputError(NO_JUDGE)

    async def fetch(self, request: TraceRequest, receiver: Settlement) -> None:
        """Ask the provider whose job holds a request, else one that takes its launches."""
        parts = [request]
        while len(parts) == 1:
            request, line = parts[0], (parts[0].seed, parts[0].size)
            awaiting = (e for e, p in zip(self.pool.endpoints, self._providers, strict=True) if p.awaits(line))
            endpoint = next(awaiting, None) or self.pool.takers(request.turn, request.attempt)[0]
            outcome = await self.attempt(endpoint, request, receiver)
            if outcome is None:
                await receiver.given_up(request, None)
                return
            if isinstance(outcome, SamplerError):
                parts = await self._failed(request, outcome, receiver)
            else:
                parts = await self._received(request, outcome, receiver)
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(self.fetch(part, receiver))

    async def _received(
        self, request: TraceRequest, completions: Sequence[Completion], receiver: Settlement
    ) -> list[TraceRequest]:
        self._receiving += 1
        try:
            await receiver.delivered(request, completions)
        finally:
            self._receiving -= 1
        if len(completions) == request.size:
            return []
        self.faults["fewer choices"] += 1
        rest = request.part(len(completions), request.size - len(completions))
        receiver.released(rest, None)  # not before: until its traces are written, a job is read again as it was sent
        return [rest]

    async def _failed(self, request: TraceRequest, error: SamplerError, receiver: Settlement) -> list[TraceRequest]:
        """Settle a request that brought nothing: charged where it may have been sampled, else tried again."""
        self.faults[error.reason if isinstance(error, NotExecutedError) else fault_name(error)] += 1
        LOGGER.info("%s: %s", request.question, error)
        if may_have_sampled(error):
            await receiver.failed(request, error)
            return []
        refused = isinstance(error, RefusedError)
        if refused and request.size > 1 and self._leaves and not isinstance(error, FieldsRefusedError):
            receiver.released(request, error)
            return list(request.split(-(-request.size // 2)))
        request.tries += 1
        if not self._leaves:
            await receiver.given_up(request, error)
            return []
        if refused or request.tries >= self._tries:
            return [request] if await self._declined(request, error, receiver) else []
        receiver.released(request, error)
        return [request]


def left_words(jobs: Sequence[BatchJob]) -> str:
    """What a run leaves with its provider, such as "2 requests stay with the provider (batch_7)"."""
    requests = sum(len(job.lines) for job in jobs)
    names = ", ".join(job.id or "on its way" for job in jobs)
    return f"{requests:,} requests stay with the provider ({names})" if jobs else "Nothing is out"
