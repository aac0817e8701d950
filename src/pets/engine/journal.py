"""Writing behind: whoever awaits :meth:`Journal.write` goes on when what it wrote is durable, and never alone.

One thread writes. What arrives while it does waits for the next transaction, so many traces share one, and none waits
longer than two transactions take. The event loop never touches the disk.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from pets.store import Launch, Run, StoredTrace

__all__ = ["Journal"]


class Journal:
    """The way to a run in the store; without one, nothing is kept and nobody waits. ``async with journal:``"""

    def __init__(self, run: Run | None) -> None:
        self.run = run
        self._launched: list[Launch] = []
        self._traces: list[StoredTrace] = []
        self._held = 1
        self._durable: asyncio.Future[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "pets-journal") if run is not None else None
        self.writes = 0
        """Transactions so far."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._thread is not None:
            self._thread.shutdown()

    async def write(self, launched: Sequence[Launch] = (), traces: Sequence[StoredTrace] = (), held: int = 1) -> None:
        """Returns when all of it is durable."""
        if self.run is None:
            return
        self._launched += launched
        self._traces += traces
        self._held = max(self._held, held)
        if self._durable is None:
            self._durable = asyncio.get_running_loop().create_future()
        mine = self._durable
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await asyncio.shield(mine)

    async def _write_all(self) -> None:
        """Transactions until nothing is left to write."""
        assert self.run is not None
        loop = asyncio.get_running_loop()
        while (durable := self._durable) is not None:
            launched, traces, held = self._launched, self._traces, self._held
            self._launched, self._traces, self._held, self._durable = [], [], 1, None
            done = loop.run_in_executor(self._thread, _write, self.run, launched, traces, held)
            await asyncio.wait([done])
            if (error := done.exception()) is not None:
                durable.set_exception(error)  # whoever waits hears of it
                durable.exception()  # heard, also if every waiter is gone
                continue
            self.writes += 1
            durable.set_result(None)
        self._writing = None


def _write(run: Run, launched: list[Launch], traces: list[StoredTrace], held: int) -> None:
    run.write(launched, traces, held=held)
