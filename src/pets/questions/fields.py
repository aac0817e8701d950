"""From a record to a question: which field is what, and what a field may hold."""

import json
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pets.errors import InputError, SpecError
from pets.questions.problem import Problem
from pets.questions.rows import Record
from pets.registry import make_answer_type
from pets.samplers.base import Message, Prompt

__all__ = ["FIELDS", "parse_fields", "problem_from", "renamed"]

FIELDS = ("id", "question", "prompt", "answer", "gold", "level", "options")
ALTERNATIVE = {"question": "prompt", "prompt": "question"}


def parse_fields(texts: Iterable[str]) -> dict[str, str]:
    """``question=problem`` means that the question stands in the file's field "problem".

    >>> parse_fields(["question=problem", "gold=answer"])
    {'question': 'problem', 'gold': 'answer'}
    """
    fields: dict[str, str] = {}
    for text in texts:
        ours, equals, theirs = text.partition("=")
        if ours not in FIELDS or not equals or not theirs:
            raise InputError(f"a field is given as NAME=COLUMN, NAME one of {', '.join(FIELDS)}; got {text!r}.")
        if ours in fields:
            raise InputError(f'the field "{ours}" is given twice, as "{fields[ours]}" and "{theirs}". Choose one.')
        fields[ours] = theirs
    return fields


def renamed(record: Record, fields: Mapping[str, str]) -> Record:
    """The record under our names; a field that stands for another one is no longer its own.

    >>> renamed({"problem": "2 + 2?", "answer": "4"}, {"question": "problem", "gold": "answer"})
    {'question': '2 + 2?', 'gold': '4'}
    """
    if not fields:
        return record
    taken = {*fields.values(), *(ALTERNATIVE[ours] for ours in fields if ours in ALTERNATIVE)}
    found = {key: record[key] for key in FIELDS if key in record and key not in taken}
    for ours, theirs in fields.items():
        if ours in ALTERNATIVE and theirs not in record:
            raise InputError(f'there is no field "{theirs}"; {_found(record)}.')
        found[ours] = record.get(theirs)
    return found


def problem_from(record: Record, number: int, answer: str = "text") -> Problem:
    """The question that a record describes; ``answer`` is how it is read if the record does not say."""
    return Problem(
        id=_text(record, "id") or str(number),
        prompt=_prompt(record),
        answer=_answer(record.get("answer") or answer),
        gold=_text(record, "gold"),
        level=sys.intern(_text(record, "level") or ""),
        options=_options(record),
    )


def _answer(spec: object) -> str:
    if not isinstance(spec, str):
        raise InputError(f'"answer" is {_shown(spec)}; it is how the answer is read, such as "number". {_GOLD}')
    return _known(spec)


@lru_cache(maxsize=1024)
def _known(spec: str) -> str:
    """The spec itself, once for all questions that have it."""
    try:
        make_answer_type(spec)
    except SpecError as error:
        raise InputError(f"{error} {_GOLD}") from None
    return spec


_GOLD = 'If "answer" holds the right answer, say so: --field gold=answer.'


def _prompt(record: Record) -> Prompt:
    given = record.get("prompt")
    question = record.get("question")
    if given is None and isinstance(question, str):
        return Prompt.chat(question)
    if isinstance(given, str):
        return Prompt(given)
    if isinstance(given, list) and given and all(_is_message(one) for one in given):
        return Prompt(tuple(Message(one["role"], one["content"]) for one in given))
    raise InputError(
        '"prompt" is a text or a list of {"role", "content"} messages; or give "question", a text. '
        f"{_found(record).capitalize()}; --field question=NAME says which."
    )


def _is_message(one: object) -> bool:
    roles = ("system", "user", "assistant")
    return isinstance(one, dict) and one.get("role") in roles and isinstance(one.get("content"), str)


def _text(record: Record, key: str) -> str | None:
    """A string as it stands, a number as it is written."""
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value
    if type(value) is int or (type(value) is float and value == value):
        return str(value)
    raise InputError(f'"{key}" is {_shown(value)}; expected a string.')


def _options(record: Record) -> int | None:
    value: Any = record.get("options")
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if value is None or (type(value) is int and value >= 2):
        return value
    raise InputError(f'"options" is {_shown(value)}; it is the number of possible answers, at least 2.')


def _found(record: Record) -> str:
    names = ", ".join(f'"{name}"' for name in list(record)[:12])
    return f"the fields are {names}" if names else "there are no fields"


def _shown(value: object) -> str:
    return json.dumps(value, default=repr)[:40]
