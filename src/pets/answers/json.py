"""JSON, compared by what it says: keys in any order, ``1.0`` is ``1``, spaces and escapes do not matter.

``json:field=answer`` votes on one field; a dotted path (``field=result.total``) leads further in. Fences and prose
around the JSON are passed over, and the last complete value counts. Tool calls vote by their arguments: traces that
call the same functions with the same ones are one answer.
"""

import json
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

from pets.answers.base import AnswerType, Reading
from pets.answers.final import visible_text
from pets.errors import InputError
from pets.patterns import BLANK, Pattern

MAX_CHARS = 100_000  # what is longer is no answer
MAX_DEPTH = 64
MAX_ACCENTS = 30  # on one letter, as in Unicode's stream-safe format: sorting them takes the square of their number
MAX_EXPONENT_DIGITS = 9
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
MAX_ZEROS = 20  # that a number is written with; beyond, it has an exponent
MAX_ROUNDS = 10
MAX_SCANS = 8  # times that a text may be read through, in looking for the JSON in it
WINDOW_CHARS = 4_096
RECURSION_CHARS = 20_000  # that a value nested too deeply counts for, in these

OPENING = Pattern(r"""\{›\s{0,99}["}]|\[›\s{0,99}["{\[\]0-9tfn-]""")
FENCE = Pattern(rf"(?m)^{BLANK}*```[^\n`]*$", needs="```")


@dataclass(frozen=True, slots=True)
class Json(AnswerType):
    """A JSON value, or one ``field`` of it; ``ignore`` names fields that do not matter, with spaces between them.

    A field that is a text is shown without its quotes, and a text that holds JSON is that JSON: ``"3"`` is ``3``.

    >>> print(Json().extract('Sure: ```json\\n{"b": 1.0, "a": ["x"]}\\n``` Anything else?'))
    {"a":["x"],"b":1}
    >>> Json(field="answer").extract('{"why": "I {know} it", "answer": "Paris"}')
    'Paris'
    >>> Json(ignore="why").extract('{"why": "so", "answer": 3}')
    '{"answer":3}'
    """

    operator_only = False
    reads_at_once = True
    client_options = frozenset({"field", "ignore"})

    field: str | None = None
    ignore: str = ""

    def __post_init__(self) -> None:
        if self.field is not None and not all(self.field.split(".")):
            raise InputError(f"a field is a name, or several with dots between them; got {self.field!r}.")

    @property
    def instruction(self) -> str:
        if self.field is None:
            return "Answer with JSON alone."
        shape = "..."
        for name in reversed(self.field.split(".")):
            shape = f"{{{json.dumps(name, ensure_ascii=False)}: {shape}}}"
        return f"End with one line of JSON: {shape}"

    def canonical(self, answer: str) -> str | None:
        """The value in one spelling; where a field is voted on, this is the field's own value, which may be a text."""
        if self.field is None:
            return canonical_json(answer, self.ignore.split())
        for _ in range(MAX_ROUNDS):
            before = answer
            try:
                value = _parse(answer)
                answer = value if type(value) is str else _write(value, _paths(self.ignore.split()))
            except ValueError:
                break
            if answer == before:
                return None if answer == "null" else answer
        else:
            return None
        with suppress(ValueError):  # a text that is no JSON: with single spaces
            return _composed(" ".join(answer.split())) or None if len(answer) <= MAX_CHARS else None
        return None

    def extract(self, text: str) -> str | None:
        """The last fenced value, else the last object, else the last list, else the whole text if that is JSON."""
        for value in reversed(_values(visible_text(text)[-MAX_CHARS:])):
            try:
                for name in [] if self.field is None else self.field.split("."):
                    value = value[name]
                form = self.canonical(_write(value, _paths(self.ignore.split())))
            except (KeyError, TypeError, ValueError):  # no such field, or nothing that has fields
                continue
            if form is not None:
                return form
        return None


def canonical_json(text: str, ignore: Iterable[str] = ()) -> str | None:
    """JSON in one spelling: equal values are equal texts; ``None`` where it is no JSON, ``null``, too long or too deep.

    Keys are sorted, numbers exact, texts in Unicode's NFC. ``ignore`` names fields to leave out, by name or dotted path
    from the top; a path goes through lists. Takes time linear in the text.

    >>> canonical_json('{"b": 1e2, "a": 0.10}'), canonical_json('{"at": 7, "x": [{"at": 8}]}', ["at", "x.at"])
    ('{"a":0.1,"b":100}', '{"x":[{}]}')
    >>> canonical_json("12345678901234567890.0"), canonical_json("NaN"), canonical_json("null")
    ('12345678901234567890', None, None)
    """
    try:
        form = _write(_parse(text), _paths(ignore))
    except ValueError:
        return None
    return None if form == "null" or len(form) > MAX_CHARS else form


class _Number(str):
    """A number in its canonical spelling."""

    __slots__ = ()


Paths = dict[str, Any]
"""Fields to leave out: a name leads to further names, or to nothing where the field itself goes."""


def _number(text: str) -> _Number:
    """Sign, digits without zeros at either end, exponent: exact, whatever the size; ``ValueError`` of NaN and the like.

    >>> [_number(text) for text in ("1.0", "-0.0", "1e2", "0.050", "1e21", "1.5e-30")]
    ['1', '0', '100', '0.05', '1e21', '15e-31']
    """
    if len(text.lower().partition("e")[2].lstrip("+-").lstrip("0")) > MAX_EXPONENT_DIGITS:
        raise ValueError("the exponent is too large")
    number = EXACT.create_decimal(text).normalize(EXACT) or Decimal(0)  # there is no -0
    _, digits, power = number.as_tuple()
    exponent = int(power)  # NaN and the infinities have a letter
    if -len(digits) - MAX_ZEROS <= exponent <= MAX_ZEROS:
        return _Number(f"{number:f}")
    return _Number(f"{number.scaleb(-exponent, EXACT):f}e{exponent}")


DECODER = json.JSONDecoder(parse_float=_number, parse_int=_number, parse_constant=_number, strict=False)


def _parse(text: str) -> Any:
    """The value of a text that is JSON as a whole; ``ValueError`` for any other."""
    if len(text) > MAX_CHARS:
        raise ValueError("too long")
    try:
        return DECODER.decode(text.strip())
    except RecursionError:
        raise ValueError("too deep") from None


def _write(value: Any, ignore: Paths, depth: int = 0) -> str:
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, _Number):
        return value
    if isinstance(value, str):
        return json.dumps(_composed(value), ensure_ascii=False)
    if isinstance(value, list):
        return f"[{','.join([_write(item, ignore, depth + 1) for item in value])}]"
    if isinstance(value, dict):
        named = {_composed(key): item for key, item in value.items()}
        pairs = [
            f"{json.dumps(key, ensure_ascii=False)}:{_write(named[key], ignore.get(key, {}), depth + 1)}"
            for key in sorted(named)
            if ignore.get(key, True)
        ]
        return f"{{{','.join(pairs)}}}"
    return {None: "null", True: "true", False: "false"}[value]


def _composed(text: str) -> str:
    """NFC; ``ValueError`` where a letter has more accents than any writing has."""
    if text.isascii():
        return text
    accents = 0
    for character in text:
        accents = accents + 1 if unicodedata.combining(character) else 0
        if accents > MAX_ACCENTS:
            raise ValueError("too many accents")
    return unicodedata.normalize("NFC", text)


def _paths(names: Iterable[str]) -> Paths:
    """Dotted paths as a tree: ``{"x": {"at": {}}}`` of ``x.at``."""
    tree: Paths = {}
    for name in sorted(names, key=len, reverse=True):  # a field goes whole, whatever is named within it
        *parents, last = name.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = {}
    return tree


def _values(text: str) -> list[Any]:
    """The JSON values of a text, the best last: the whole text; else lists, then objects, then what is fenced."""
    text = text.strip()
    with suppress(ValueError):
        return [_parse(text)]
    marks = [match.span() for match in FENCE.finditer(text)]
    blocks = (text[begin:end] for (_, begin), (end, _) in zip(marks[::2], marks[1::2], strict=False))
    fenced = list[Any]()
    for block in blocks:
        with suppress(ValueError):
            fenced.append(_parse(block))
    embedded = list(_embedded(text))
    lists = [value for value in embedded if isinstance(value, list)]
    return [*lists, *(value for value in embedded if isinstance(value, dict)), *fenced]


def _embedded(text: str) -> Iterator[Any]:
    """Objects and lists within prose, from left to right, as far as they can be found in linear time."""
    work, index = MAX_SCANS * len(text) + RECURSION_CHARS, 0
    while work > 0 and (opening := OPENING.search(text, index)):
        index = opening.start()
        if index > WINDOW_CHARS:  # an error counts the lines before it
            text, index = text[index:], 0
        try:
            value, end = DECODER.raw_decode(text, index)
        except json.JSONDecodeError as error:
            if error.pos >= len(text.rstrip()) or "Unterminated" in error.msg:
                return  # it was cut: what it encloses is no value of its own
            work -= error.pos - index
        except RecursionError:
            work -= RECURSION_CHARS
        except ValueError:  # a number that is none
            work -= len(text) - index
        else:
            yield value
            index = end
            continue
        index += 1


MAX_CALLS = 64


def reading_of_calls(answer_type: AnswerType, text: str, ignore: Iterable[str] = ()) -> Reading | None:
    """The function calls of a trace as its answer.

    The calls are the last line of the text (:class:`~pets.openai.response.ChoiceReader`); their order does not matter,
    nor do fields of arguments to ``ignore``, which ``json:ignore=...`` names, too. Calls whose arguments are no JSON
    cast no vote.

    >>> calls = '[{"name": "weather", "arguments": "{\\\\"days\\\\": 1.0, \\\\"city\\\\": \\\\"Paris\\\\"}"}]'
    >>> reading_of_calls(Json(), calls).form, reading_of_calls(Json(ignore="days"), calls).form
    ('call weather({"city":"Paris","days":1})', 'call weather({"city":"Paris"})')
    """
    line = text.rpartition("\n")[2]
    try:
        calls = json.loads(line) if len(line) <= 2 * MAX_CHARS else []  # twice, as its quotes are escaped
    except ValueError:  # a server that says so, and calls nothing
        return None
    if not isinstance(calls, list) or not 0 < len(calls) <= MAX_CALLS:
        return None
    ignored = [*ignore, *(answer_type.ignore.split() if isinstance(answer_type, Json) else ())]
    forms = []
    for call in calls:
        name = call.get("name") if isinstance(call, dict) else None
        if not isinstance(name, str) or not name:
            return None
        arguments = str(call.get("arguments"))
        form = canonical_json("{}" if arguments.strip() in ("", "null") else arguments, ignored)
        if form is None:
            return None
        forms.append(f"{name}({form})")
    written = f"call {', '.join(sorted(forms))}"
    return Reading(written, written)
