"""What a request asks for: parsed and checked before anything is spent on it.

Fields that are not the gateway's own are left as they are: the upstream server knows what they mean.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pets.engine.reading import answer_type
from pets.errors import PetsError
from pets.gateway.refusals import RefusalError
from pets.gateway.settings import Settings

__all__ = ["Asked", "Options", "parse"]

SPEC = 200  # characters of an answer type
OWN = ("pets", "stream", "stream_options", "n", "seed", "model")
UNVOTABLE = ("tools", "functions", "audio", "modalities")


@dataclass(frozen=True, slots=True)
class Options:
    """How a question is voted on; ``timeout`` in seconds, ``rounds`` and ``max_traces`` at most."""

    answer: str
    max_traces: int
    timeout: float
    rounds: int | None = None
    weighted: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: ``fields`` is the body as it came, ``options`` is None where it passes through."""

    model: str
    fields: Mapping[str, Any]
    stream: bool
    include_usage: bool
    max_tokens: int | None
    options: Options | None = None

    @property
    def forwarded(self) -> dict[str, Any]:
        """What every upstream request of a vote holds, beside n and seed."""
        return {name: value for name, value in self.fields.items() if name not in OWN} | {"model": self.model}

    @property
    def question(self) -> str:
        """The beginning of what the user asked, for people."""
        content = next((m.get("content") for m in reversed(self.fields["messages"]) if m.get("role") == "user"), "")
        return content[:120] if isinstance(content, str) else "(parts)"


def parse(body: bytes, headers: Mapping[str, str], settings: Settings) -> Asked:
    """The request in a body, or a :class:`RefusalError` that names the field."""
    fields = _object(body)
    limits = settings.limits
    model = fields.get("model")
    if not isinstance(model, str) or not model or len(model) > 256:
        raise RefusalError("'model' is the name of a model, such as pets/NAME to vote.", param="model")
    messages = fields.get("messages")
    if not isinstance(messages, list) or not 1 <= len(messages) <= limits.messages:
        raise RefusalError(f"'messages' is a list of 1 to {limits.messages} messages.", param="messages")
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        raise RefusalError("Every message is an object with a 'role' and a 'content'.", param="messages")
    n = _whole(fields, "n", 1, limits.n) or 1
    _whole(fields, "seed", -(2**63), 2**64 - 1)
    stream = _flag(fields, "stream")
    shown = fields.get("stream_options")
    if shown is not None and not isinstance(shown, dict):
        raise RefusalError("'stream_options' is an object.", param="stream_options")
    newer = _whole(fields, "max_completion_tokens", 1, limits.max_tokens)
    older = _whole(fields, "max_tokens", 1, limits.max_tokens)
    voted = model.startswith(settings.prefix)
    return Asked(
        model.removeprefix(settings.prefix),
        fields,
        stream,
        bool(shown and _flag(shown, "include_usage")),
        newer or older,
        _options(fields, headers, settings, n) if voted else None,
    )


def _options(fields: Mapping[str, Any], headers: Mapping[str, str], settings: Settings, n: int) -> Options:
    if n != 1:
        raise RefusalError("A vote gives one answer: leave 'n' out; 'pets.max_traces' bounds the traces.", param="n")
    for name in UNVOTABLE:
        if fields.get(name):
            raise RefusalError(f"A vote is over texts, without {name!r}; ask the plain model for that.", param=name)
    given = _given(fields.get("pets"), headers)
    temperature = fields.get("temperature")
    greedy = type(temperature) in (int, float) and temperature == 0
    spec = given.get("answer") or settings.answer
    _check_spec(spec)
    most = _whole(given, "max_traces", 1, settings.max_traces, "pets.") or settings.max_traces
    timeout = _seconds(given, settings.timeout)
    return Options(
        spec,
        1 if greedy else most,  # at temperature 0 all traces are one
        timeout,
        _whole(given, "rounds", 0, 1000, "pets."),
        _flag(given, "weighted", "pets."),
    )


def _given(own: object, headers: Mapping[str, str]) -> dict[str, Any]:
    """Options of the body, and of headers where the body has none."""
    if own is not None and not isinstance(own, dict):
        raise RefusalError("'pets' is an object of options.", param="pets")
    given: dict[str, Any] = dict(own or {})
    known = ("answer", "max_traces", "rounds", "weighted", "timeout")
    if unknown := [name for name in given if name not in known]:
        raise RefusalError(f"There is no option {unknown[0][:40]!r}. Options: {', '.join(known)}.", param="pets")
    for name in known:
        text = headers.get(f"x-pets-{name.replace('_', '-')}")
        if text is not None and given.get(name) is None:
            given[name] = text if name == "answer" else _read(name, text)
    own_timeout = headers.get("x-stainless-read-timeout")  # what OpenAI's clients say of their own patience
    if given.get("timeout") is None and own_timeout is not None and own_timeout.replace(".", "", 1).isdecimal():
        given["timeout"] = float(own_timeout) or None
    return given


def _read(name: str, text: str) -> object:
    try:
        return json.loads(text.lower(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        found = f"The header x-pets-{name.replace('_', '-')} cannot be read."
        raise RefusalError(found, param=f"pets.{name}") from None


def _check_spec(spec: object) -> None:
    if not isinstance(spec, str) or len(spec) > SPEC:
        raise RefusalError("'pets.answer' is an answer type, such as number or choice:options=4.", param="pets.answer")
    try:
        answer_type(spec)
    except PetsError as error:
        raise RefusalError(str(error), param="pets.answer") from None


def _seconds(given: Mapping[str, Any], most: float) -> float:
    value = given.get("timeout")
    if value is None:
        return most
    if type(value) not in (int, float) or not (math.isfinite(value) and value > 0):
        raise RefusalError("'pets.timeout' is a number of seconds, more than 0.", param="pets.timeout")
    return min(float(value), most)


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = type(error).__name__ if isinstance(error, RecursionError) else "is it cut, or not UTF-8?"
        raise RefusalError(f"The body is not JSON that can be read ({reason}).") from None
    if not isinstance(fields, dict):
        raise RefusalError("The body is not a JSON object.")
    return fields


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _flag(fields: Mapping[str, Any], name: str, within: str = "") -> bool:
    value = fields.get(name)
    if value is not None and type(value) is not bool:
        raise RefusalError(f"'{within}{name}' is true or false.", param=within + name)
    return bool(value)


def _whole(fields: Mapping[str, Any], name: str, low: int, high: int, within: str = "") -> int | None:
    value = fields.get(name)
    if value is not None and (type(value) is not int or not low <= value <= high):
        raise RefusalError(f"'{within}{name}' is a whole number between {low} and {high}.", param=within + name)
    return value if type(value) is int else None
