"""An event loop whose clock jumps to the next timer as soon as nothing else is left to do: waiting takes no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_simulated"]

Result = TypeVar("Result")


def run_simulated(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a simulated clock. A timer does not wait for threads or sockets: it wins over both."""
    with asyncio.Runner(loop_factory=_SimulatedLoop) as runner:
        return runner.run(work)


class _SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would sleep until its next timer, its clock is set there instead."""

    def __init__(self, loop: _SimulatedLoop) -> None:
        super().__init__()
        self._simulated = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)  # no timer is set: only a thread or a socket can wake the loop
        events = super().select(0)
        if not events:
            self._simulated.now += max(0.0, timeout)
        return events
