"""Where the traces of a stream come from: a model that is asked, or a recorded pool that is drawn from.

A :class:`Source` opens each question that arrives; what it opens gives traces by launch number until it is closed.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pets.errors import InputError
from pets.questions import Problem
from pets.types import Trace

__all__ = ["Asked", "Drawn", "RecordedTraces", "Source"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One trace: its canonical ``form`` and the ``label`` of the form's class, as far as both are known.

    ``error`` says why a trace never came; it was paid for and casts no vote.
    """

    form: str | None = None
    label: str | None = None
    text: str | None = None
    tokens: int = 0
    prompt_tokens: int = 0
    error: str | None = None


class Asked(Protocol):
    """One open question."""

    @property
    def options(self) -> int | None:
        """The size of a closed answer set."""

    async def draw(self, first: int, n: int) -> list[Drawn]:
        """Traces ``first`` .. ``first + n - 1``, all of them: one that never came has its ``error``."""

    def names(self, forms: Iterable[str]) -> Mapping[str, str]:
        """Each form, given in launch order, with the first launched one of its class."""

    def close(self) -> None:
        """The question is answered."""


class Source(Protocol):
    """Gives every question its traces."""

    def open(self, problem: Problem, place: int) -> Asked:
        """The question that arrived as number ``place``, from 0."""


class RecordedTraces:
    """A question's traces in the order given, as a replay has drawn them; past the last one they begin again.

    >>> from pets.samplers import Prompt
    >>> source = RecordedTraces({"q": [Trace("q", 0, "A"), Trace("q", 1, None, tokens=9)]})
    >>> asyncio.run(source.open(Problem("q", Prompt("?")), 0).draw(first=1, n=1))
    [Drawn(form=None, label=None, text=None, tokens=9, prompt_tokens=0, error=None)]
    """

    def __init__(self, traces: Mapping[str, Sequence[Trace]], options: int | None = None) -> None:
        self._traces, self._options = traces, options

    def open(self, problem: Problem, place: int) -> "_Recorded":
        """As :meth:`Source.open`; a question that was never recorded is refused."""
        traces = self._traces.get(problem.id)
        if not traces:
            raise InputError(f"nothing was recorded for question {problem.id!r}; ask what the pool holds.")
        return _Recorded(traces, self._options)


@dataclass(frozen=True, slots=True)
class _Recorded:
    traces: Sequence[Trace]
    options: int | None

    async def draw(self, first: int, n: int) -> list[Drawn]:
        await asyncio.sleep(0)  # as a model would, it lets others go on
        found = [self.traces[at % len(self.traces)] for at in range(first, first + n)]
        return [Drawn(one.answer, one.answer, None, one.tokens, one.prompt_tokens) for one in found]

    def names(self, forms: Iterable[str]) -> Mapping[str, str]:
        return {form: form for form in forms}

    def close(self) -> None:
        pass
