"""A run as files: its traces as records, and as a pool that policies can be replayed on."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import Any

from pets.confidence import KINDS
from pets.pools import PooledQuestion
from pets.store.records import StoredTrace
from pets.store.run import RunView

__all__ = ["pooled_questions", "trace_records"]


def trace_records(view: RunView) -> Iterator[dict[str, Any]]:
    """Every trace as plain data, question by question in launch order."""
    for trace in view.traces():
        record = asdict(trace)
        measured = record.pop("confidences")
        yield record | {"confidences": None if measured is None else {kind: measured[kind] for kind in KINDS}}


def pooled_questions(view: RunView) -> Iterator[PooledQuestion]:
    """Every question that got a vote, its answers in launch order; one without votes cannot be replayed."""
    problems = view.problems()
    for id, group in groupby(view.traces(texts=False), key=lambda trace: trace.question):
        traces = list(group)
        gold = next(problem.gold for problem in problems if problem.id == id)  # both come in one order
        if any(trace.answer is not None for trace in traces):
            yield _pooled(id, gold, traces, view.settings.confidence or "tail")


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
