"""Votes on tool calls: traces that call the same functions with the same arguments are one answer."""

import json
from collections.abc import Iterable
from typing import Any

from pets.answers.base import AnswerType, Reading
from pets.answers.json import Json, canonical_json
from pets.prompts import TOOL_CALLS, is_cut

MAX_CALLS = 64
MAX_ARGUMENTS_CHARS = 100_000  # of all calls of a trace


def reading_of(answer_type: AnswerType, text: str, finish: str, ignore: Iterable[str] = ()) -> Reading | None:
    """The answer of a trace: what it calls, else what it says; one that was cut gave none.

    The calls are the last line of the text (:class:`~pets.openai.response.ChoiceReader`); their order does not matter,
    nor do fields of arguments to ``ignore``, which ``json:ignore=...`` names, too. Calls whose arguments are no JSON
    cast no vote.

    >>> calls = '[{"name": "weather", "arguments": "{\\\\"days\\\\": 1.0, \\\\"city\\\\": \\\\"Paris\\\\"}"}]'
    >>> reading_of(Json(), calls, "tool_calls").form, reading_of(Json(ignore="days"), calls, "tool_calls").form
    ('call weather({"city":"Paris","days":1})', 'call weather({"city":"Paris"})')
    """
    if is_cut(finish):
        return None
    if finish != TOOL_CALLS:
        return answer_type.read(text)
    line = text.rpartition("\n")[2]
    calls = _calls(line) if len(line) <= 2 * MAX_ARGUMENTS_CHARS else []  # twice, as its quotes are escaped
    if not calls or len(calls) > MAX_CALLS:
        return None
    ignored = [*ignore, *(answer_type.ignore.split() if isinstance(answer_type, Json) else ())]
    forms = [_form(call, ignored) for call in calls]
    named = [form for form in forms if form is not None]
    form = f"call {', '.join(sorted(named))}"
    return Reading(form, form) if len(named) == len(forms) else None


def _calls(line: str) -> list[dict[str, Any]]:
    try:
        calls = json.loads(line)
    except ValueError:  # a server that says so, and calls nothing
        return []
    return calls if isinstance(calls, list) and all(isinstance(call, dict) for call in calls) else []


def _form(call: dict[str, Any], ignore: Iterable[str]) -> str | None:
    name, arguments = call.get("name"), str(call.get("arguments"))
    if not isinstance(name, str) or not name or len(arguments) > MAX_ARGUMENTS_CHARS:
        return None
    form = canonical_json("{}" if arguments.strip() in ("", "null") else arguments, ignore)
    return None if form is None else f"{name}({form})"
