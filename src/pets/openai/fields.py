"""The fields of a request's body, read and checked; what is wrong raises an :class:`ApiError` that names the field."""

import json
from collections.abc import Mapping
from typing import Any

from pets.openai.errors import ApiError


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body holds.

    >>> json_object(b'{"model": "m"}')
    {'model': 'm'}
    """
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
    value = fields.get(name)
    if value is not None and type(value) is not bool:
        raise ApiError(f"'{within}{name}' is {_shown(value)}; expected true or false.", param=within + name)
    return bool(value)


def whole_number(fields: Mapping[str, Any], name: str, low: int, high: int, within: str = "") -> int | None:
    """A whole number between ``low`` and ``high``, ``None`` where it is missing.

    >>> whole_number({"n": 8}, "n", 1, 128)
    8
    """
    value: int | None = _within(fields, name, (int,), f"a whole number between {low} and {high}", within, low, high)
    return value


def number(fields: Mapping[str, Any], name: str, low: float, high: float, within: str = "") -> float | None:
    """A number between ``low`` and ``high``, ``None`` where it is missing.

    >>> number({"temperature": 1}, "temperature", 0, 2)
    1.0
    """
    value = _within(fields, name, (int, float), f"a number between {low:g} and {high:g}", within, low, high)
    return None if value is None else float(value)


def _within(
    fields: Mapping[str, Any], name: str, kinds: tuple[type, ...], noun: str, within: str, low: float, high: float
) -> Any:
    value = fields.get(name)
    if value is not None and (type(value) not in kinds or not low <= value <= high):
        raise ApiError(f"'{within}{name}' is {_shown(value)}; expected {noun}.", param=within + name)
    return value


def object_field(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A JSON object within the body, an empty one where it is missing."""
    value = fields.get(name)
    if value is not None and not isinstance(value, dict):
        raise ApiError(f"{name!r} is {_shown(value)}; expected an object.", param=name)
    return value or {}


def _shown(value: object) -> str:
    return json.dumps(value)[:60]
