"""Whom a run asks: its samplers, those of several models as one mixture; and what it holds while it lasts.

An option that is a model's own is written ``MODEL=VALUE`` and comes before one for all models, ``VALUE``; in Python it
is a mapping from model to value:

    --model Qwen/Qwen3-8B=2 --model gpt-oss-20b --endpoint Qwen/Qwen3-8B=http://a:8000/v1 --endpoint http://b:8000/v1
"""

import re
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Self

from pets.answers.judge import Judge
from pets.core.allocator import Allocator
from pets.core.mixture import ModelMixture
from pets.core.money import Currency
from pets.engine.batch import batch_samplers
from pets.engine.budget import Models, model_name, model_shares
from pets.engine.driver import Driver
from pets.engine.fetch import Outage
from pets.engine.ledger import Ledger
from pets.engine.progress import TraceTotals
from pets.engine.spec import RunSpec
from pets.errors import InputError, SamplerError, StateError
from pets.openai.batch import BatchJob
from pets.questions import Problem
from pets.registry import as_sampler
from pets.samplers import Sampler
from pets.samplers.batch import BatchSampler, OpenAIBatches
from pets.samplers.function import SamplerFunction
from pets.samplers.local import LocalSampler
from pets.samplers.mixture import MixtureSampler
from pets.samplers.openai import OpenAISampler
from pets.store import Run, RunRecord, Store
from pets.store.cache import TraceCache

ANOTHER_MODELS_URL = re.compile(r"((?:(?!://).)+?)=[a-zA-Z][a-zA-Z0-9+.-]*://")

Endpoints = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""Servers of every model, or each model's own; in a sequence those are written ``MODEL=URL``."""

ServerKeys = str | Sequence[str | None] | None
Keys = ServerKeys | Mapping[str, str | None]
"""The servers' key, one for each server, or each model's own: in a sequence written ``MODEL=KEY``."""

AnySampler = str | Sampler | SamplerFunction
Samplers = AnySampler | Sequence[AnySampler]


@dataclass(frozen=True, slots=True)
class Servers:
    """Whom a run asks, as the user says it: servers or samplers of one or several models, else the local model."""

    endpoint: Endpoints | None = None
    model: Models | None = None
    key: Keys = None
    headers: Mapping[str, str] | None = None
    sampler: Samplers | Mapping[str, Samplers] | None = None

    def named_in(self, spec: RunSpec) -> RunSpec:
        """The spec with the models and the headers' names, where it has none."""
        headers = tuple(sorted(self.headers or spec.serving.headers))
        return spec.with_options(models=spec.serving.models or model_shares(self.model), headers=headers)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a run asks: its samplers, and their endpoints as a store keeps them, ``MODEL=URL`` of several models.

    ``judge`` is another server that judges answers. ``first`` is the place of the first sampler among all that the run
    has asked, before it was taken up too.
    """

    samplers: Sequence[Sampler] = ()
    endpoints: Sequence[str] = ()
    model: str = ""
    judge: Sampler | None = None
    first: int = 0

    def judged_by(self, judge: Judge | None) -> "Sources":
        """The same with the server that the judge names, which gets no key: that is for the run's own."""
        if judge is None or judge.endpoint is None:
            return self
        return replace(self, judge=OpenAISampler(judge.endpoint, judge.model or self.model))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the samplers open, the judge's too."""
        async with AsyncExitStack() as stack:
            for sampler in (*self.samplers, self.judge):
                if sampler is not None:
                    await stack.enter_async_context(sampler)
            yield


def source_name(
    model: str | None, own: Samplers | Mapping[str, Samplers] | None, samplers: Sequence[Sampler]
) -> str | None:
    """What tells the run's model from any other: its name, specs, sources; ``None`` where an object has none.

    ``own`` are the samplers as the caller has them, ``samplers`` all as they were made.
    """
    names = {model} if model else set()
    for sampler in _several(samplers if own is None or isinstance(own, Mapping) else own):
        name = sampler if isinstance(sampler, str) else model or getattr(sampler, "source", None)
        if name is None:  # a function has no source
            return None
        names.add(name)
    return ",".join(sorted(names))


def taken_up(record: RunRecord, sources: Sources) -> tuple[RunRecord, Sources]:
    """A run that goes on, maybe with other servers than before: which of all gave a trace stays known.

    >>> record = RunRecord(10, sources=("qwen3 at http://localhost:8000/v1",))
    >>> record, sources = taken_up(record, Sources([OpenAISampler("http://localhost:9000/v1", "qwen3")]))
    >>> record.sources, sources.first, taken_up(record, sources)[1].first
    (('qwen3 at http://localhost:8000/v1', 'qwen3 at http://localhost:9000/v1'), 1, 1)
    """
    before = record.trace_sources
    named = dict(enumerate(before))
    own = tuple(s.source or s.name or named.get(place, "") for place, s in enumerate(sources.samplers))
    same = (place for place in range(len(before)) if before[place : place + len(own)] == own)
    first = next(same, len(before))
    if before and first == len(before):
        record = replace(record, sources=before + own)
    return record, replace(sources, first=first)


def sources_of(servers: Servers, spec: RunSpec, **local: int | None) -> Sources:
    """The samplers that the caller has, else those of the endpoints, else a ``local`` model with these settings."""
    endpoint, own, models = servers.endpoint, servers.sampler, spec.serving.models
    model, names = ", ".join(map(str, models)) or model_name(servers.model), list(map(attrgetter("name"), models))

    def made(own: Samplers | None, urls: Sequence[str], model: str | None, key: ServerKeys) -> list[Sampler]:
        if own is not None:
            return list(map(as_sampler, _several(own)))
        return _model_samplers(spec, urls, model, key, servers.headers, local)

    if not names:
        if isinstance(endpoint, Mapping) or isinstance(servers.key, Mapping) or isinstance(own, Mapping):
            raise InputError("a mapping gives each of several models its own; name them: model=[...].")
        return Sources(made(own, _listed(endpoint), model, servers.key), _listed(endpoint), model or "")
    urls, keys = endpoints_by_model(names, endpoint), keys_by_model(names, servers.key)
    listed = [f"{name}={url}" for name in names for url in urls[name]]
    if isinstance(own, Sequence) and all(isinstance(sampler, MixtureSampler) for sampler in own):
        return Sources(made(own, (), None, None), listed, model or "")
    if own is not None and not isinstance(own, Mapping):
        raise InputError("several models need a sampler each: sampler={model: sampler, ...}.")
    if own is not None and set(own) != set(names):
        raise InputError(f"there are samplers of {', '.join(own)} for the models {', '.join(names)}.")
    mixture, prices = ModelMixture(tuple(share.weight for share in models)), spec.prices("")
    differ = len(set(prices)) > 1
    mixed = [
        MixtureSampler(sampler, mixture, place, name, prices[place].currency() if differ else None)
        for place, name in enumerate(names)
        for sampler in made((own or {}).get(name), urls[name], name, keys[name])
    ]
    return Sources(mixed, listed, model or "")


def values_by_model(option: str, names: Sequence[str], values: Endpoints | None) -> dict[str, list[str]]:
    """The values of an option by model: its own, written ``MODEL=VALUE``, else those for all."""
    if isinstance(values, Mapping):
        if unknown := set(values) - set(names):
            raise InputError(f"{option} names {min(unknown)}, which is none of the models {', '.join(names)}.")
        return {name: _listed(values.get(name)) for name in names}
    own: dict[str, list[str]] = {}
    shared = []
    for value in _listed(values):
        for name in sorted(names, key=len, reverse=True):
            if value.startswith(f"{name}="):
                own.setdefault(name, []).append(value.removeprefix(f"{name}="))
                break
        else:
            shared.append(value)
    return dict.fromkeys(names, shared) | own


def endpoints_by_model(names: Sequence[str], endpoints: Endpoints | None) -> dict[str, list[str]]:
    """The servers of each model; refused where one is named for a model that is not there."""
    own = values_by_model("--endpoint", names, endpoints)
    for urls in own.values():
        for url in urls:
            if match := ANOTHER_MODELS_URL.match(url):
                raise InputError(f"--endpoint names {match[1]}, which is none of the models {', '.join(names)}.")
    return own


def keys_by_model(names: Sequence[str], keys: Keys) -> dict[str, str | None]:
    """The key of each model: its own, else that of all, else none."""
    if isinstance(keys, Mapping):
        present: Endpoints = {name: key for name, key in keys.items() if key}
    else:
        present = keys if isinstance(keys, str) else [key for key in keys or () if key]
    own: dict[str, str | None] = dict.fromkeys(names)
    for name, several in values_by_model("key", names, present).items():
        if len(several) > 1:
            raise InputError(f"there are {len(several)} keys for the model {name}; give each model one.")
        own[name] = next(iter(several), None)
    return own


def _listed(value: str | Sequence[str] | None) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _several(samplers: Samplers) -> Sequence[AnySampler]:
    return samplers if isinstance(samplers, Sequence) and not isinstance(samplers, str) else [samplers]


def _model_samplers(
    spec: RunSpec,
    endpoints: Sequence[str],
    model: str | None,
    key: ServerKeys,
    headers: Mapping[str, str] | None,
    local: Mapping[str, Any],
) -> list[Sampler]:
    """A sampler of the model for each endpoint, with a key for all or one for each; without endpoints the local one."""
    if missing := set(spec.serving.headers) - set(headers or ()):
        raise InputError(f"this run sends the header {min(missing)}, whose value is not kept: give it again.")
    if spec.serving.batch_api and not endpoints:
        raise InputError("batch jobs need a provider: --endpoint URL. Engines without a server take files: --to FILE.")
    if not endpoints:
        return [LocalSampler(model, **local)]
    if model is None:
        raise InputError("an endpoint needs --model NAME: which of the server's models to ask.")
    keys, timeout = endpoint_keys(endpoints, key), spec.serving.timeout
    if spec.serving.batch_api:
        if len(endpoints) > 1:
            raise InputError(f"batch jobs go to one provider; got {len(endpoints)} endpoints.")
        provider = OpenAIBatches(endpoints[0], key=keys[0], headers=headers, timeout=timeout)
        return [BatchSampler(endpoints[0], model, provider, key=keys[0], headers=headers, timeout=timeout)]
    stream = spec.confidence_kind is not None
    return [
        OpenAISampler(url, model, key=key, headers=headers, stream=stream, timeout=timeout)
        for url, key in zip(endpoints, keys, strict=True)
    ]


def endpoint_keys(endpoints: Sequence[str], key: ServerKeys) -> list[str | None]:
    """The key of each endpoint: one for all, or as many as there are endpoints."""
    keys = [key] * len(endpoints) if key is None or isinstance(key, str) else list(key)
    if len(keys) != len(endpoints):
        raise InputError(f"there are {len(keys)} keys for {len(endpoints)} endpoints; give one, or one for each.")
    return keys


class LiveRun:
    """A run or stream that is at work; ``async with`` opens its samplers and closes all that it holds.

    ``repeatable``: the same call again goes on with the stored run. The ``cache`` has traces of the store that other
    runs paid for; ``price`` is what those of this one cost in money.
    """

    def __init__(
        self,
        sources: Sources,
        store: Store | None = None,
        run: Run | None = None,
        cache: TraceCache | None = None,
        price: Currency | None = None,
        *,
        repeatable: bool = False,
    ) -> None:
        self.sources = sources
        """The servers that are asked now, whichever a stored run began with."""
        self.stored_run = run
        """The run in the store, once it has begun; none without a store."""
        self.repeatable, self.cache = repeatable, cache
        self.faults: Counter[str] = Counter({} if run is None else run.load("faults") or {})
        """What went wrong on the way, and how often."""
        self._store, self._stack, self._ledger = store, AsyncExitStack(), Ledger()
        self._totals = TraceTotals(price)
        self._driver: Driver | None = None

    @property
    def driver(self) -> Driver:
        """What asks and ends, once the run has begun."""
        if self._driver is None:
            raise StateError("the run has not begun; await engine.run() first.")
        return self._driver

    @property
    def begun(self) -> bool:
        """Whether there is anything to look at yet."""
        return self._driver is not None

    @property
    def allocator(self) -> Allocator:
        """What decides, once the run has begun."""
        return self.driver.allocator

    @property
    def traces_abandoned(self) -> int:
        """Traces that were in flight when the run was broken off: charged."""
        return 0 if self._driver is None else self._driver.settlement.traces_abandoned

    @property
    def launches_lost(self) -> int:
        """Launches that were in flight when the run was broken off, over all times that it was: charged."""
        return self._totals.lost

    @property
    def reused_words(self) -> str:
        """Which runs paid for traces of this one, and what those had cost; empty where none did."""
        return self._totals.reused_words(self.allocator.told)

    def outage(self) -> Outage | None:
        """Why no server serves now, and since when."""
        return None if self._driver is None else self._driver.fetcher.outage_state

    def drain(self) -> None:
        """Ask for nothing more, and take in no more questions; :meth:`run` returns when requests in flight are back."""
        if self._driver is not None:
            self._driver.drain()

    @property
    def store_name(self) -> str:
        """The store as messages call it; empty without one."""
        return "" if self._store is None else self._store.name

    def watch_jobs(self, on_job: Callable[[BatchJob], None]) -> None:
        """Hear of every batch job that is handed in."""
        for sampler in batch_samplers(self.sources.samplers):
            sampler.on_job = on_job

    async def models(self) -> list[str]:
        """The models that the servers list, as far as they do."""
        names: list[str] = []
        for sampler in self.sources.samplers:
            with suppress(SamplerError):
                names += [str(model["id"]) for model in await sampler.models()]
        return list(dict.fromkeys(names))

    async def drive(self, driver: Driver, problems: AsyncIterable[Problem] | None = None) -> None:
        """Run a driver to its end, and keep what went wrong."""
        try:
            async with self._ledger:
                await driver.run(problems)
        finally:
            self.faults.update(driver.fetcher.faults)
            driver.fetcher.faults.clear()
            if self.stored_run is not None and self.faults:
                self.stored_run.save("faults", dict(self.faults))

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.sources.opened())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()
        self.close()

    def close(self) -> None:
        """Let go of the run, the store and the cache; twice does no harm."""
        for held in (self.stored_run, self._store, self.cache):
            if held is not None:
                held.close()
