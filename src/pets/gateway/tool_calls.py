"""Votes on tool calls: traces that call the same functions with the same arguments are one answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pets.answers.base import AnswerType, Reading
from pets.answers.json import canonical_json
from pets.prompts import Completion

MAX_CALLS = 64
MAX_ARGUMENTS_CHARS = 100_000  # of all calls of a trace


@dataclass(frozen=True, slots=True)
class ToolCallReader:
    """Reads what a trace calls, else what it says; fields of arguments to ``ignore`` do not matter, nor does the order.

    Calls whose arguments are no JSON cast no vote.

    >>> call = {"id": "call_1", "function": {"name": "weather", "arguments": '{"days": 1.0, "city": "Paris"}'}}
    >>> trace = Completion("", "tool_calls", 9, raw={"message": {"tool_calls": [call]}})
    >>> ToolCallReader()(trace, None).form, ToolCallReader(("days",))(trace, None).form
    ('call weather({"city":"Paris","days":1})', 'call weather({"city":"Paris"})')
    """

    ignore: tuple[str, ...] = ()

    def __call__(self, completion: Completion, answer_type: AnswerType) -> Reading | None:
        """One trace's answer."""
        message = (completion.raw or {}).get("message")
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        if not calls:
            return answer_type.read(completion.text)
        if not isinstance(calls, list) or len(calls) > MAX_CALLS:
            return None
        functions = [call.get("function") if isinstance(call, dict) else None for call in calls]
        if sum(len(str(function)) for function in functions) > MAX_ARGUMENTS_CHARS:
            return None
        forms = [self._form(function) if isinstance(function, dict) else None for function in functions]
        named = [form for form in forms if form is not None]
        calls_form = f"call {', '.join(sorted(named))}"
        return Reading(calls_form, calls_form) if len(named) == len(forms) else None

    def _form(self, function: Mapping[str, Any]) -> str | None:
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or not name:
            return None
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        form = canonical_json("{}" if text.strip() in ("", "null") else text, self.ignore)
        return None if form is None else f"{name}({form})"
