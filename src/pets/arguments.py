"""Arguments of the public functions, checked against their annotations: a wrong type is an ``InputError``.

The annotation of a parameter is its one description: what an editor shows is what is checked here. Values are looked
at, never used up: an iterable is not iterated over, and of a sequence or mapping every item is checked.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pets.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])

SHOWN_CHARACTERS = 60  # of a value that is refused
NUMBERS: dict[Any, type] = {int: Integral, float: Real}  # numpy's are numbers, too
WORDS = {NoneType: "None", str: "a text", int: "a whole number", float: "a number", bool: "True or False"}


def checked(function: Function) -> Function:
    """The function, refusing arguments of a wrong type.

    >>> @checked
    ... def double(number: int | None = None) -> int:
    ...     return 2 * (number or 1)
    >>> double("3")
    Traceback (most recent call last):
    ...
    pets.errors.InputError: number is '3'; expected a whole number or None.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs).arguments
        several = {p.name for p in signature.parameters.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        check_values(_hints(function), {name: value for name, value in bound.items() if name not in several})
        return function(*args, **kwargs)

    return cast("Function", call)


def check_fields(record: Any) -> None:
    """Refuse a dataclass whose fields hold values of a wrong type."""
    hints = _hints(type(record))  # type: ignore[arg-type]  # a class is hashable, whatever mypy says
    check_values(hints, {field.name: getattr(record, field.name) for field in fields(record)})


def check_values(hints: Mapping[str, Any], values: Mapping[str, object]) -> None:
    """Refuse values of a wrong type, by name; those without a hint may be anything."""
    for name, value in values.items():
        if name in hints and not _fits(value, hints[name]):
            shown = repr(value)
            if len(shown) > SHOWN_CHARACTERS:
                shown = f"{shown[:SHOWN_CHARACTERS]}..."
            raise InputError(f"{name} is {shown}; expected {_words(hints[name])}.")


@functools.cache
def _hints(thing: Callable[..., Any]) -> Mapping[str, Any]:
    return get_type_hints(thing)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value may be what the annotation says; what it cannot tell fits."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, member) for member in args)
    if origin is Literal:
        return type(value) in {type(member) for member in args}  # which one is the callee's to say
    if origin is tuple and args[1:] == (...,):
        return isinstance(value, tuple) and all(_fits(item, args[0]) for item in value)
    if origin in (Sequence, list):
        return isinstance(value, origin) and all(_is_item(item, value, args[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in value.items())
    kind = origin or hint
    if kind is Any or not isinstance(kind, type):
        return True
    return isinstance(value, NUMBERS.get(kind, kind))


def _is_item(item: object, sequence: object, hint: Any) -> bool:
    """Whether an item fits; a text is a sequence of texts to Python, and not to its users."""
    return not isinstance(sequence, str) and _fits(item, hint)


def _words(hint: Any) -> str:
    """What an annotation asks for, for a person."""
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
