"""Records as rows of the store and back: the one place that knows the order of the columns."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pets.confidence import Confidence
from pets.prompts import Message
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store.records import StoredTrace

__all__ = ["problem_of", "question_row", "text_rows", "trace_of", "trace_row"]

Row = tuple[Any, ...]

# How a prompt stands in the store. A million questions are mostly of the first two forms, which cost nothing to read.
TEXT, USER, CHAT = 0, 1, 2


def question_row(run: int, position: int, problem: Problem) -> Row:
    """The parameters of ``ADD_QUESTION``."""
    content, form = _prompt_text(problem.prompt.content)
    return (run, position, problem.id, content, form, problem.answer, problem.gold, problem.level, problem.options)


def problem_of(row: Row) -> Problem:
    """The question of a row of ``QUESTIONS``."""
    _, id, content, form, answer, gold, level, options = row
    if form == USER:
        content = (Message("user", content),)
    elif form == CHAT:
        content = tuple(Message(role, text) for role, text in json.loads(content))
    return Problem(id, Prompt(content), answer, gold, level, options)


def _prompt_text(content: str | tuple[Message, ...]) -> tuple[str, int]:
    """The prompt as a text, and in which form it is one."""
    if isinstance(content, str):
        return content, TEXT
    if len(content) == 1 and content[0].role == "user":
        return content[0].content, USER
    return json.dumps([(message.role, message.content) for message in content], ensure_ascii=False), CHAT


def trace_row(run: int, trace: StoredTrace) -> Row:
    """The parameters of ``ADD_TRACE``."""
    c = trace.confidences
    measured = (None,) * 5 if c is None else (c.mean, c.tail, c.lowest, c.bottom, c.tokens)
    answer, error = (None if text is None else storable(text) for text in (trace.answer, trace.error))
    counted = (answer, trace.finish, trace.tokens, trace.prompt_tokens)
    sampled = (error, trace.endpoint, trace.seconds, trace.tries, trace.wasted)
    return (run, trace.question, trace.number, *counted, *measured, *sampled)


def trace_of(row: Row) -> StoredTrace:
    """The trace of a row of ``TRACES``."""
    _, question, number, answer, text, finish, tokens, prompt_tokens, *rest = row
    mean, tail, lowest, bottom, measured, *sampled = rest
    confidences = None if measured is None else Confidence(mean, tail, lowest, bottom, measured)
    return StoredTrace(question, number, answer, text, finish, tokens, prompt_tokens, confidences, *sampled)


def text_rows(run: int, traces: Sequence[StoredTrace]) -> Iterator[Row]:
    """The parameters of ``ADD_TEXT``; a trace without a text has no row."""
    return ((run, trace.question, trace.number, storable(trace.text)) for trace in traces if trace.text)


def storable(text: str) -> str:
    """The text without halves of surrogate pairs, which a model cut off within a character leaves and UTF-8 lacks.

    >>> storable("x" + chr(0xD83D))
    'x?'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
