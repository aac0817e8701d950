"""A run as files: its traces as records, and as a pool that policies can be replayed on."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

from pets.confidence import KINDS
from pets.pools import PooledQuestion
from pets.prompts import is_cut
from pets.store.records import StoredTrace
from pets.store.run import RunView

__all__ = ["pooled_questions", "trace_records"]


def trace_records(view: RunView) -> Iterator[dict[str, Any]]:
    """Every trace as plain data, question by question in launch order."""
    for trace in view.traces():
        record = asdict(trace)
        measured = record.pop("confidences")
        yield record | {"confidences": None if measured is None else {kind: measured[kind] for kind in KINDS}}


def pooled_questions(view: RunView, *, texts: bool = True) -> Iterator[PooledQuestion]:
    """Every question that got a vote, its answers in launch order; one without votes cannot be replayed.

    ``texts`` go with them where the run kept them.
    """
    problems = view.problems()
    texts = texts and view.settings.keeps_texts
    for id, group in groupby(view.traces(texts=texts), key=lambda trace: trace.question):
        traces = list(group)
        gold = next(problem.gold for problem in problems if problem.id == id)  # both come in one order
        if any(trace.answer is not None for trace in traces):
            pooled = _pooled(id, gold, traces, view.settings.confidence or "tail")
            yield _with_texts(pooled, traces) if texts and any(trace.text for trace in traces) else pooled


def _with_texts(question: PooledQuestion, traces: list[StoredTrace]) -> PooledQuestion:
    cut = tuple(is_cut(trace.finish) for trace in traces)
    texts = tuple(trace.text or None for trace in traces)  # a trace that failed said nothing
    return replace(question, texts=texts, cut=cut if any(cut) else None)


def _pooled(id: str, gold: str | None, traces: list[StoredTrace], kind: str) -> PooledQuestion:
    answers = tuple(trace.answer for trace in traces)
    tokens = tuple(trace.tokens for trace in traces)
    if all(trace.confidences is None for trace in traces):
        return PooledQuestion(id, answers, gold, tokens)
    kinds: dict[str, tuple[float | None, ...]] = {
        kind: tuple(None if t.confidences is None else round(getattr(t.confidences, kind), 3) for t in traces)
        for kind in KINDS
    }
    return PooledQuestion(id, answers, gold, tokens, kinds[kind], kinds)
