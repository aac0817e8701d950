"""The fields of a request's body, read and checked; what is wrong raises an :class:`ApiError` that names the field."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pets.openai.errors import ApiError


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body holds."""
    try:
        fields = json_value(body)
    except (ValueError, RecursionError) as error:
        reason = type(error).__name__ if isinstance(error, RecursionError) else "is it cut, or not UTF-8?"
        raise ApiError(f"The body is not JSON that can be read ({reason}).") from None
    if not isinstance(fields, dict):
        raise ApiError("The body is not a JSON object.")
    return fields


def json_value(text: str | bytes) -> object:
    """A value in JSON proper: ``NaN`` and ``Infinity``, which Python reads, raise ``ValueError`` as all else."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def flag(fields: Mapping[str, Any], name: str, within: str = "") -> bool:
    """A field that is true or false, false where it is missing; ``within`` is the path to the object that holds it.

    >>> flag({"stream": True}, "stream"), flag({}, "include_usage", "stream_options.")
    (True, False)
    """
    return bool(_checked(fields, name, "true or false", lambda value: type(value) is bool, within))


def whole_number(fields: Mapping[str, Any], name: str, low: int, high: int, within: str = "") -> int | None:
    """A whole number between ``low`` and ``high``, ``None`` where it is missing.

    >>> whole_number({"n": 8}, "n", 1, 128)
    8
    """
    noun = f"a whole number between {low} and {high}"
    value: int | None = _checked(fields, name, noun, lambda value: type(value) is int and low <= value <= high, within)
    return value


def number(fields: Mapping[str, Any], name: str, low: float, high: float, within: str = "") -> float | None:
    """A number between ``low`` and ``high``, ``None`` where it is missing.

    >>> number({"temperature": 1}, "temperature", 0, 2)
    1.0
    """
    noun = f"a number between {low:g} and {high:g}"
    value = _checked(fields, name, noun, lambda value: type(value) in (int, float) and low <= value <= high, within)
    return None if value is None else float(value)


def chat_messages(fields: Mapping[str, Any], most: int | None = None) -> list[dict[str, Any]]:
    """The messages of a chat, one at least, each with its role."""
    messages, size = fields.get("messages"), "at least one message" if most is None else f"1 to {most} messages"
    if not isinstance(messages, list) or not messages or (most is not None and len(messages) > most):
        raise ApiError(f"'messages' is a list of {size}.", param="messages")
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        raise ApiError("Every message is an object with a 'role' and a 'content'.", param="messages")
    return messages


def object_field(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A JSON object within the body, an empty one where it is missing."""
    return _checked(fields, name, "an object", lambda value: isinstance(value, dict)) or {}


def _checked(fields: Mapping[str, Any], name: str, noun: str, fits: Callable[[Any], bool], within: str = "") -> Any:
    value = fields.get(name)
    if value is not None and not fits(value):
        shown, path = json.dumps(value)[:60], within + name
        raise ApiError(f"'{path}' is {shown}; expected {noun}.", param=path)
    return value
