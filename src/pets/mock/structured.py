"""Replies that are no prose: a function called with the answer, or the answer as JSON, with a reason that varies.

>>> from pets.mock.text import TraceSpec
>>> print(json_answer(TraceSpec("7", 6, mood=0.25)))
{"answer": "7", "reason": "mood 0.25"}
"""

import json
from collections.abc import Mapping
from typing import Any

from pets.mock.text import TraceSpec

__all__ = ["function_called", "json_answer", "tool_calls", "wants_json"]


def wants_json(fields: Mapping[str, Any]) -> bool:
    """Whether a request asks for JSON."""
    form = fields.get("response_format")
    return isinstance(form, dict) and form.get("type") in ("json_object", "json_schema")


def function_called(fields: Mapping[str, Any]) -> str | None:
    """The first of the functions that a chat may call; ``None`` where it may call none."""
    tools = fields.get("tools")
    if not isinstance(tools, list) or not tools or fields.get("tool_choice") == "none":
        return None
    function = tools[0].get("function") if isinstance(tools[0], dict) else None
    return str(function.get("name")) if isinstance(function, dict) else None


def json_answer(spec: TraceSpec) -> str:
    """The answer as an object whose keys come in either order."""
    members = [("answer", spec.answer), ("reason", f"mood {spec.mood:g}")]
    return json.dumps(dict(members if spec.mood < 0.5 else members[::-1]))


def tool_calls(function: str, spec: TraceSpec, id: str) -> str:
    """The ``tool_calls`` of a message, as JSON."""
    call = {"name": function, "arguments": json_answer(spec)}
    return json.dumps([{"id": f"call_{id}", "type": "function", "function": call}])
