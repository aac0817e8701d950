"""A run as files: its traces as records, and as a pool that policies can be replayed on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby, takewhile
from typing import Any

from pets.answers.base import AnswerType
from pets.confidence import KINDS
from pets.pools import PooledQuestion
from pets.prompts import is_cut
from pets.questions import Problem
from pets.store.records import StoredTrace
from pets.store.store import RunView


def trace_records(view: RunView) -> Iterator[dict[str, Any]]:
    """Every trace as plain data, question by question in launch order; ``cost`` in dollars, where models differ.

    ``answer`` is as the trace wrote it, ``canonical`` the form that was compared.
    """
    for trace in view.traces():
        record = asdict(trace)
        measured, cost, spelling = (record.pop(name) for name in ("confidences", "cost", "spelling"))
        record["cost"] = None if cost is None else cost / 1e12
        record["canonical"] = record["answer"]
        record["answer"] = record["answer"] if spelling is None else spelling
        yield record | {"confidences": None if measured is None else {kind: measured[kind] for kind in KINDS}}


def pooled_questions(
    view: RunView, answer_type_of: Callable[[Problem], AnswerType], *, texts: bool = True
) -> Iterator[PooledQuestion]:
    """Every question that got a vote, its answers in launch order; one without votes cannot be replayed.

    ``texts`` go with them where the run kept them.
    """
    problems = view.problems()
    texts = texts and view.settings.keeps_texts
    for id, group in groupby(view.traces(texts=texts), key=lambda trace: trace.question):
        traces = list(takewhile(lambda trace: trace.part is None, group))  # behind a cancelled one they are short
        problem = next(problem for problem in problems if problem.id == id)  # both come in one order
        if any(trace.answer is not None for trace in traces):
            kind = view.settings.confidence or "tail"
            has_texts = texts and any(trace.text for trace in traces)
            yield pooled_question(problem, answer_type_of(problem), traces, kind=kind, texts=has_texts)


def pooled_question(
    problem: Problem, answer_type: AnswerType, traces: Sequence[StoredTrace], *, kind: str = "tail", texts: bool = True
) -> PooledQuestion:
    """A question's traces as a pool holds them: answers that are one are one string, and gold is theirs.

    So a pool that is read as recorded has the votes of its run, and counts the same of them right. ``kind`` is the
    confidence that votes are weighted by; gold that the answer type cannot read is left out.
    """
    names = answer_type.merge([trace.answer for trace in traces if trace.answer is not None])
    labels = [None if trace.answer is None else names[trace.answer] for trace in traces]
    cut = tuple(is_cut(trace.finish) for trace in traces)
    measured = any(trace.confidences is not None for trace in traces)
    confidences: dict[str, tuple[float | None, ...]] = {
        kind: tuple(None if t.confidences is None else round(getattr(t.confidences, kind), 3) for t in traces)
        for kind in (KINDS if measured else ())
    }
    return PooledQuestion(
        problem.id,
        tuple(labels),
        None if problem.gold is None else answer_type.gold_label(problem.gold, labels),
        tuple(trace.tokens for trace in traces),
        confidences.get(kind),
        confidences,
        tuple(None if trace.error else trace.text for trace in traces) if texts else None,
        cut if texts and any(cut) else None,
    )
