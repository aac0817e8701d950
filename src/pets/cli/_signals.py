"""Ctrl-C, for every verb that runs a model: the first drains, the second stops at once."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

__all__ = ["INTERRUPTED", "interruptible"]

INTERRUPTED = 128 + signal.SIGINT
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible(drain: Callable[[], None], words: str) -> Iterator[None]:
    """The first signal says ``words`` and calls ``drain``, the second cancels the task that runs the block."""
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    assert running is not None
    pressed = False

    def stop() -> None:
        nonlocal pressed
        if pressed:
            running.cancel()
            return
        pressed = True
        click.echo(f"\n{words} Ctrl-C again stops at once.", err=True)
        drain()

    try:
        for one in SIGNALS:
            loop.add_signal_handler(one, stop)
    except NotImplementedError:  # Windows: Ctrl-C raises KeyboardInterrupt, which a store survives too
        yield
        return
    try:
        yield
    finally:
        for one in SIGNALS:
            loop.remove_signal_handler(one)
