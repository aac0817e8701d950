"""What is kept of a question's traces: sums, and for every answer the trace that speaks for it best."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pets.store import StoredTrace

__all__ = ["Account", "Best", "grouped"]


class Best(NamedTuple):
    """The surest trace of an answer, the first launched of equals; ``first`` is the answer's first launch."""

    first: int
    number: int
    confidence: float
    text: str


class Account:
    """One question's books; slotted, because there may be millions."""

    __slots__ = ("failed", "forms", "prompt_tokens", "tokens")

    def __init__(self) -> None:
        self.tokens = self.prompt_tokens = self.failed = 0
        self.forms: dict[str, Best] = {}

    def add(self, trace: StoredTrace, kind: str | None) -> None:
        """Count a trace; ``kind`` is the confidence to go by."""
        self.tokens += trace.tokens
        self.prompt_tokens += trace.prompt_tokens
        self.failed += trace.error is not None
        if trace.answer is None:
            return
        sure = 0.0 if trace.confidences is None else float(getattr(trace.confidences, kind or "tail"))
        old = self.forms.get(trace.answer)
        if old is None:
            self.forms[trace.answer] = Best(trace.number, trace.number, sure, trace.text)
        elif (sure, -trace.number) > (old.confidence, -old.number):
            self.forms[trace.answer] = Best(min(old.first, trace.number), trace.number, sure, trace.text)
        elif trace.number < old.first:
            self.forms[trace.answer] = old._replace(first=trace.number)

    def in_order(self) -> list[str]:
        """The forms, the first launched first."""
        return sorted(self.forms, key=lambda form: self.forms[form].first)

    def best(self, answer: str | None, names: Mapping[str, str]) -> Best | None:
        """The trace that speaks best for an answer, over all forms of its class."""
        alike = [best for form, best in self.forms.items() if answer is not None and names[form] == answer]
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
