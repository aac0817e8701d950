"""Words and progress for people who run PETS from Python: in a script, on a terminal or in a notebook."""

import asyncio
import sys
from collections.abc import Callable
from typing import Self

from pets.core.money import amount_words
from pets.engine.progress import Snapshot, duration_words
from pets.engine.run import Engine

REFRESH_S = 0.5  # between two looks at a run


class ProgressLine:
    """Words on stderr, and under them one line that is written over itself; ``with`` takes the line away at the end.

    ``shown`` is whether to write anything; if not given, words, and the line on a terminal or in a notebook.
    """

    def __init__(self, shown: bool | None = None) -> None:
        watched = sys.stderr.isatty() or "ipykernel" in sys.modules  # a notebook obeys \r, too
        self._speaks, self._draws = shown is not False, watched if shown is None else shown
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._clear()

    def say(self, words: str) -> None:
        """Print a line of words."""
        if self._speaks:
            self._clear()
            sys.stderr.write(f"{words}\n")
            sys.stderr.flush()

    def draw(self, text: str) -> None:
        """Write the line anew."""
        if self._draws:
            sys.stderr.write(f"\r{text:<{self._width}}")
            sys.stderr.flush()
            self._width = len(text)

    def counter(self, noun: str) -> Callable[[int, int], None]:
        """Draws how much of all is done, whenever it is called with both."""
        return lambda done, total: self.draw(f"{done:,} of {total:,} {noun}")

    async def watch(self, engine: Engine) -> None:
        """Draw how a run goes, twice a second, until it is cancelled."""
        while True:
            await asyncio.sleep(REFRESH_S)
            if engine.begun:
                self.draw(snapshot_words(engine.snapshot(look=False)))

    def _clear(self) -> None:
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()
            self._width = 0


def snapshot_words(now: Snapshot) -> str:
    """A run under way in one line: what is spent, how fast, how long it will take; or why nothing comes."""
    words = f"{amount_words(now.spent, now.unit)} of {amount_words(now.total, now.unit)}, {now.rate:.1f} traces/s"
    failed = f", {now.failed:,} failed" if now.failed else ""
    if now.outage is not None:
        return f"{words}{failed}, {'unreachable' if now.outage.is_unreachable else 'nothing but errors'}"
    left = "" if now.seconds_left is None else f", {duration_words(now.seconds_left)} left"
    return f"{words}{failed}{left}"
