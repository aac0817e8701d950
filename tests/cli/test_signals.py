"""The first Ctrl-C drains, the second stops at once."""

import asyncio
import os
import signal

import pytest

from pets.cli._signals import INTERRUPTED, interruptible


def test_the_first_signal_drains_and_the_block_ends_as_it_likes(capsys):
    async def main():
        drained = asyncio.Event()
        with interruptible(drained.set, "Waiting."):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(drained.wait(), 10)
        return "done"

    assert asyncio.run(main()) == "done"
    assert capsys.readouterr().err == "\nWaiting. Ctrl-C again stops at once.\n"


def test_the_second_signal_cancels():
    async def main():
        drained = asyncio.Event()
        with interruptible(drained.set, "Waiting."):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait_for(drained.wait(), 10)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait_for(asyncio.Event().wait(), 10)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_afterwards_signals_do_what_they_did():
    async def main():
        before = signal.getsignal(signal.SIGTERM)
        with interruptible(lambda: None, ""):
            pass
        return signal.getsignal(signal.SIGTERM) == before

    assert asyncio.run(main())
    assert INTERRUPTED == 130
