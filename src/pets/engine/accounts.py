"""What is kept of a question's traces: sums, and for every answer the trace that speaks for it best."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pets.store import StoredTrace

__all__ = ["Account", "Best", "grouped"]


class Best(NamedTuple):
    """The surest trace of a form of answer, the first launched of equals; ``first`` is the form's first launch."""

    form: str
    first: int
    number: int
    confidence: float
    text: str


class Account:
    """One question's books; slotted and without a dict, because there may be millions."""

    __slots__ = ("failed", "forms", "prompt_tokens", "tokens")

    def __init__(self) -> None:
        self.tokens = self.prompt_tokens = self.failed = 0
        self.forms: tuple[Best, ...] = ()

    def add(self, trace: StoredTrace, kind: str | None) -> None:
        """Count a trace; ``kind`` is the confidence to go by."""
        self.tokens += trace.tokens
        self.prompt_tokens += trace.prompt_tokens
        self.failed += trace.error is not None
        if trace.answer is None:
            return
        sure = 0.0 if trace.confidences is None else float(getattr(trace.confidences, kind or "tail"))
        mine = Best(trace.answer, trace.number, trace.number, sure, trace.text)
        old = next((best for best in self.forms if best.form == trace.answer), None)
        if old is None:
            self.forms = (*self.forms, mine)
            return
        surer = mine if (sure, -trace.number) > (old.confidence, -old.number) else old
        new = surer._replace(first=min(old.first, trace.number))
        if new != old:
            self.forms = tuple(new if best is old else best for best in self.forms)

    def in_order(self) -> list[str]:
        """The forms, the first launched first."""
        return [best.form for best in sorted(self.forms, key=lambda best: best.first)]

    def best(self, answer: str | None, names: Mapping[str, str]) -> Best | None:
        """The trace that speaks best for an answer, over all forms of its class."""
        alike = [best for best in self.forms if answer is not None and names[best.form] == answer]
        return max(alike, key=lambda best: (best.confidence, -best.number), default=None)


def grouped(traces: Iterable[StoredTrace]) -> Iterator[tuple[str, list[StoredTrace]]]:
    """Traces that come question by question, a question at a time."""
    held: list[StoredTrace] = []
    for trace in traces:
        if held and held[0].question != trace.question:
            yield held[0].question, held
            held = []
        held.append(trace)
    if held:
        yield held[0].question, held
