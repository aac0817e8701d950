"""Waits for what a test expects to happen: short where it does, an error with a reason where it does not."""

import asyncio
import time
from collections.abc import Callable

__all__ = ["PATIENCE_S", "until", "wait_until"]

PATIENCE_S = 60.0  # a loaded machine is slow; a test that waits this long has failed
STEP_S = 0.005


def wait_until(predicate: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    """Return as soon as ``predicate()`` is true; for threads and child processes."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not so after {timeout_s:g} s"
        time.sleep(STEP_S)


async def until(
    predicate: Callable[[], object], run: asyncio.Task[object] | None = None, timeout_s: float = PATIENCE_S
) -> None:
    """Return as soon as ``predicate()`` is true; what ends ``run`` before that is raised here."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if run is not None and run.done():
            raise AssertionError(f"it ended before that: {run.result()!r}")
        assert time.monotonic() < deadline, f"not so after {timeout_s:g} s"
        await asyncio.sleep(0)
