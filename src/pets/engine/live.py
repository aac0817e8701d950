"""What a live run or stream holds while it lasts: its samplers, its store, and its run in that."""

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

from pets.engine.batch import batch_samplers
from pets.engine.pacing import hurry_of
from pets.engine.sources import Sources
from pets.errors import SamplerError
from pets.openai.batch import BatchJob
from pets.store import Run, Store


class LiveRun:
    """A run or stream that is at work; ``async with`` opens its samplers and closes all that it holds.

    ``repeatable``: the same call again goes on with the stored run, and neither begins another nor adds to it.
    """

    def __init__(
        self, sources: Sources, store: Store | None = None, run: Run | None = None, *, repeatable: bool = False
    ) -> None:
        self.sources = sources
        """The servers that are asked now, whichever a stored run began with."""
        self.stored_run = run
        """The run in the store, once it has begun; none without a store."""
        self.repeatable = repeatable
        self._store, self._stack = store, AsyncExitStack()

    def keep(self, run: Run) -> None:
        """The run has begun in the store."""
        self.stored_run = run

    def watch_jobs(self, on_job: Callable[[BatchJob], None]) -> None:
        """Hear of every batch job that is handed in."""
        for sampler in batch_samplers(self.sources.samplers):
            sampler.on_job = on_job

    async def hurry(self, hurry: float | None, usual: float) -> float:
        """The hurry that the user says; else the ``usual`` one where all servers stop, or tell whether they do."""
        return await hurry_of(hurry, self.sources.samplers, usual)

    async def models(self) -> list[str]:
        """The models that the servers list, as far as they do."""
        names: dict[str, None] = {}
        for sampler in self.sources.samplers:
            with suppress(SamplerError):
                names |= dict.fromkeys(str(model["id"]) for model in await sampler.models())
        return list(names)

    async def __aenter__(self) -> Self:
        judges = () if self.sources.judge is None else (self.sources.judge,)
        for sampler in (*self.sources.samplers, *judges):
            await self._stack.enter_async_context(sampler)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        self.close()

    @property
    def store_name(self) -> str:
        """The store as messages call it; empty without one."""
        return "" if self._store is None else self._store.name

    def close(self) -> None:
        """Let go of the run and the store; twice does no harm."""
        if self.stored_run is not None:
            self.stored_run.close()
        if self._store is not None:
            self._store.close()
