"""An event loop whose clock jumps to the next timer as soon as nothing else is left to do: waiting takes no time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["run_simulated"]

Result = TypeVar("Result")


def run_simulated(
    work: Coroutine[Any, Any, Result],
    thread_s: Callable[[], float] | None = None,
    on_wait: Callable[[float], None] | None = None,
) -> Result:
    """Run a coroutine on a simulated clock. A timer does not wait for threads or sockets: it wins over both.

    With ``thread_s`` there are no threads: what one would do is done after so many simulated seconds. ``on_wait`` is
    called whenever nothing is left to do but to wait, with the time until when.
    """
    with asyncio.Runner(loop_factory=lambda: _SimulatedLoop(thread_s, on_wait)) as runner:
        return runner.run(work)


class _SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self, thread_s: Callable[[], float] | None, on_wait: Callable[[float], None] | None) -> None:
        self.now = 0.0
        self.thread_s, self.on_wait = thread_s, on_wait
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        if self.thread_s is None:
            return super().run_in_executor(executor, function, *arguments)
        outcome: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            try:
                result = function(*arguments)
            except Exception as error:  # noqa: BLE001 (handed over to whoever waits)
                if not outcome.done():
                    outcome.set_exception(error)
            else:
                if not outcome.done():
                    outcome.set_result(result)

        self.call_later(self.thread_s(), work)
        return outcome


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would sleep until its next timer, its clock is set there instead."""

    def __init__(self, loop: _SimulatedLoop) -> None:
        super().__init__()
        self._simulated = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None and self._simulated.thread_s is not None:
            raise RuntimeError("everything waits, and there is no timer, thread or socket that could end it")
        if timeout is None:
            return super().select(None)  # no timer is set: only a thread or a socket can wake the loop
        events = super().select(0)
        if not events and timeout > 0:
            if self._simulated.on_wait is not None:
                self._simulated.on_wait(self._simulated.now + timeout)
            self._simulated.now += timeout
        return events
