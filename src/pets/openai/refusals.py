"""Fields of a request that a server refuses: which ones its error names, and the request without them.

Servers differ in what they take beyond the few fields that all of them know, and a strict one answers an unknown field
with 400 or 422. Such a refusal costs nothing: the field is left out, or sent under its other name, from then on. An
error may name what it only repeats of a client's text: it is believed once the request went through without it.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pets.errors import RefusedError
from pets.openai.request import FORM_FIELDS, NEUTRAL_VALUES
from pets.patterns import Pattern

FIELD_STATUSES = frozenset({400, 422})
OTHER_NAMES = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
# What goes with a field: log-probabilities without their alternatives are of no use, and so on.
COMPANIONS = {"logprobs": ("top_logprobs",), "top_logprobs": ("logprobs",), "stream": ("stream_options",)}
KNOWN_FIELDS = {*NEUTRAL_VALUES, *FORM_FIELDS, *OTHER_NAMES}
CONSEQUENCES = {
    "n": "every trace is a request of its own",
    "seed": "the same seed need not give the same traces",
    "logprobs": "traces have no confidence",
    "stream_options": "tokens are estimated",
}
# OpenAI ("Unsupported parameter: 'x' ...", "Unrecognized request argument supplied: x"), Mistral and other pydantic
# servers ("extra_forbidden"), Gemini (Unknown name "x": Cannot find field), xAI (does not support parameter x), Groq
# (property 'x' is unsupported). A value that is out of bounds is no refusal of its field.
REFUSING = Pattern(
    r"(?i)unsupported|(?:not|n't) (?:be )?(?:currently |yet )?support|unknown|unrecogni[sz]ed|extra_forbidden"
    r"|not permitted|not allowed|cannot find field|unexpected|only the default"
)
NAMED = Pattern(r"""(["'`\[]|: |parameters? |arguments? |property |fields? |, )›(\w+)""")


class FieldsRefusedError(RefusedError):
    """The server does not take ``names``, fields of the request that it answers."""

    def __init__(self, message: str, names: Collection[str], status: int) -> None:
        super().__init__(message, status=status)
        self.names = frozenset(names)


def named_fields(content: bytes, sent: Collection[str]) -> set[str]:
    """The fields among ``sent`` that an error's body refuses by name; it may write them in camel case.

    >>> named_fields(b"Unsupported parameter: 'max_tokens' is not supported with this model.", ["max_tokens", "n"])
    {'max_tokens'}
    >>> named_fields(b'{"error": "Argument not supported on this model: presencePenalty"}', ["presence_penalty", "n"])
    {'presence_penalty'}
    >>> named_fields(b"'max_tokens' is too large: 5000. This model's maximum context length is 4096.", ["max_tokens"])
    set()
    """
    words = content.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        words = "\n".join(f'"{leaf}"' for leaf in _strings(json.loads(words)))
    if not REFUSING.search(words):
        return set()
    names = {spelling: name for name in sent for spelling in (_camel_case(name), name)}
    named = (tuple(match.groups()) for match in NAMED.finditer(words))
    # One word after a comma may be any.
    return {names[word] for before, word in named if word in names and (before != ", " or "_" in names[word])}


class RefusedFields:
    """The fields that one model of a server has refused so far: ``names``, and what is added.

    >>> refused = RefusedFields()
    >>> refused.add(FieldsRefusedError("400", ["max_tokens", "top_k"], 400), {"max_tokens": 9, "top_k": -1}, {"top_k"})
    >>> refused.news()
    'max_completion_tokens is sent instead of max_tokens; top_k is left out'
    >>> refused.without({"max_tokens": 9, "top_k": -1})
    {'max_completion_tokens': 9}
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = set(names)
        self._unsaid: list[str] = []

    @property
    def names(self) -> list[str]:
        return sorted(self._names)

    def without(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The request that the model takes."""
        fields = {}
        for name, value in body.items():
            sent = OTHER_NAMES.get(name, name) if name in self._names else name
            if sent not in self._names:
                fields[sent] = value
        return fields

    def news(self) -> str:
        """What has changed since this was last asked; most often nothing."""
        words = "; ".join(self._unsaid)
        self._unsaid.clear()
        return words

    def add(self, error: FieldsRefusedError, body: Mapping[str, Any], optional: Collection[str]) -> None:
        """Learn from an error what is left out of ``body`` from now on; :meth:`news` says it once.

        Raises a ``RefusedError`` where that would change what was asked; it repeats no text that was sent.
        """
        names = error.names.union(*(COMPANIONS.get(name, ()) for name in error.names))
        for name in sorted(names & body.keys()):
            renamed = name in OTHER_NAMES and OTHER_NAMES[name] not in self._names | names
            if name in optional or renamed:
                continue
            if name not in KNOWN_FIELDS:  # the prompt, a client's own field: the server's words say enough
                raise error
            value = f" ({body[name]!r})" if isinstance(body[name], int | float | None) else ""
            raise RefusedError(f"{error} {name} was asked for{value}: leave it out.", status=error.status)
        for name in sorted(names & body.keys() - self._names):
            other, consequence = OTHER_NAMES.get(name), CONSEQUENCES.get(name)
            left_out = f"{name} is left out" + (f": {consequence}" if consequence else "")
            self._unsaid.append(f"{other} is sent instead of {name}" if other else left_out)
        self._names |= names


def _strings(data: object) -> Iterator[str]:
    """The strings of a JSON value, without what was sent: pydantic repeats it as ``input``."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        values = data if isinstance(data, list) else [data[name] for name in data if name != "input"]
        for value in values:
            yield from _strings(value)


def _camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
