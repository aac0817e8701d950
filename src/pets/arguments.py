"""Arguments of the public functions, checked against their annotations: a wrong type is an ``InputError``.

Every item of a sequence or mapping is checked; an iterable is not used up.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pets.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])

SHOWN_CHARACTERS = 60  # of a value that is refused
NUMBERS: dict[Any, type] = {int: Integral, float: Real}  # numpy's are numbers, too
WORDS = {NoneType: "None", str: "a text", int: "a whole number", float: "a number", bool: "True or False"}


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from ``least`` to ``most``, without the ends that are ``open``: ``"("``, ``")"`` or ``"()"``.

    >>> str(Interval(1)), str(Interval(0, open="(")), str(Interval(0, 1, open="()")), 2.5 in Interval(0, 2.5)
    ('at least 1', 'more than 0', 'in (0, 1)', True)
    """

    least: float
    most: float = math.inf
    open: str = ""

    def __contains__(self, number: float) -> bool:
        above = self.least < number if "(" in self.open else self.least <= number
        return above and (number < self.most if ")" in self.open else number <= self.most)

    def __str__(self) -> str:
        if self.most == math.inf:
            return f"{'more than' if '(' in self.open else 'at least'} {self.least:g}"
        first, last = "(" if "(" in self.open else "[", ")" if ")" in self.open else "]"
        return f"in {first}{self.least:g}, {self.most:g}{last}"


def setting(
    default: Any = MISSING,
    text: str | None = None,
    verbs: Sequence[str] | None = None,
    within: Interval | None = None,
    *,
    factory: Any = MISSING,
    metavar: str | None = None,
    flags: Sequence[str] = (),
    operational: bool = False,
    rare: bool = False,
    hashed: bool | None = None,
) -> Any:
    """A field of a run's description, declared once: for Python, for JSON and for the command line.

    ``text`` is its help on the command line, where it has an option; ``flags`` are its names there, if not the field's
    own. ``within`` is checked by :func:`check_fields`. ``verbs`` honour it, by default all. ``operational`` fields say
    how servers are asked, and do not change what; ``rare`` ones are left out of a short help.
    """
    told = {"help": text, "metavar": metavar, "within": within, "flags": tuple(flags), "verbs": verbs, "rare": rare}
    metadata = {name: value for name, value in told.items() if value} | {"operational": operational}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata, hash=hashed)
    return field(default=default, metadata=metadata, hash=hashed)


def checked(function: Function) -> Function:
    """The function, refusing arguments of a wrong type.

    >>> @checked
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> double("3")
    Traceback (most recent call last):
    pets.errors.InputError: number is '3'; expected a whole number.
    """
    signature = inspect.signature(function)
    several = {p.name for p in signature.parameters.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs).arguments
        for name in several:
            bound.pop(name, None)
        check_values(_hints(function), bound)
        return function(*args, **kwargs)

    return cast("Function", call)


def check_fields(record: Any) -> None:
    """Refuse a dataclass whose fields hold values of a wrong type, or outside of what :func:`setting` allows."""
    hints = _hints(type(record))  # type: ignore[arg-type]  # a class is hashable, whatever mypy says
    for own in fields(record):
        value, interval = getattr(record, own.name), own.metadata.get("within")
        if not _fits(value, hints[own.name]):
            raise _mistaken(own.name, value, hints[own.name])
        if interval is not None and value is not None and value not in interval:
            raise InputError(f"{own.name} is {interval}; got {value}.")


def check_values(hints: Mapping[str, Any], values: Mapping[str, object]) -> None:
    """Refuse values of a wrong type; those without a hint may be anything."""
    for name, value in values.items():
        if name in hints and not _fits(value, hints[name]):
            raise _mistaken(name, value, hints[name])


def _mistaken(name: str, value: object, hint: Any) -> InputError:
    shown = repr(value)
    if len(shown) > SHOWN_CHARACTERS:
        shown = f"{shown[:SHOWN_CHARACTERS]}..."
    return InputError(f"{name} is {shown}; expected {_words(hint)}.")


_hints = functools.cache(get_type_hints)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value may be what the annotation says, as far as that can be told."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, arg) for arg in args)
    if origin is Literal:
        return value in args
    if (origin is tuple and args[1:] == (...,)) or origin in (Sequence, list):
        if not isinstance(value, Sequence) or not isinstance(value, origin):
            return False
        # A text is a sequence of texts to Python, and not to its users.
        return not isinstance(value, str) and all(_fits(item, args[0]) for item in value)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return False
        return all(_fits(key, args[0]) and _fits(item, args[1]) for key, item in value.items())
    kind = origin or hint
    if kind is Any or not isinstance(kind, type):
        return True
    return isinstance(value, NUMBERS.get(kind, kind))


def _words(hint: Any) -> str:
    """What an annotation asks for, in words."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        *others, last = dict.fromkeys(map(_words, args))
        return f"{', '.join(others)} or {last}" if others else last
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin in (Sequence, list, tuple):
        return f"a {origin.__name__.lower()} of ({_words(args[0])})"
    if origin is Mapping:
        return f"a mapping to ({_words(args[1])})"
    if origin is Iterable:
        return "an iterable"
    if origin is Callable or hint is Callable:
        return "a function"
    return WORDS.get(hint, getattr(hint, "__name__", str(hint)))
