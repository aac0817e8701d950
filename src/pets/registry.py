"""``"okg:prior=0.5"`` -> object. A new file in the package, or an installed entry point, is found by itself.

>>> make_policy("okg:prior=0.5")
OKG(prior=0.5, unseen=1, lengths=True, ...)
>>> make_policy("okg:prior=x")
Traceback (most recent call last):
...
pets.errors.SpecError: okg: prior='x' is not a float or learned. Options of okg: prior=learned, unseen=1, ...
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import pets.answers
import pets.policies
from pets.answers.base import AnswerType
from pets.core.policy import Policy
from pets.errors import PetsError, SpecError

__all__ = ["answer_types", "make_answer_type", "make_policy", "policies"]

Base = TypeVar("Base")


@cache
def policies() -> Mapping[str, type[Policy]]:
    """Every policy by name: the files of ``pets.policies`` and the entry points of group ``pets.policies``.

    >>> {"okg", "uniform", "price"} <= set(policies())
    True
    """
    return _found(pets.policies, Policy)


@cache
def answer_types() -> Mapping[str, type[AnswerType]]:
    """Every answer type by name: the files of ``pets.answers`` and the entry points of group ``pets.answers``.

    >>> sorted(answer_types())
    ['choice', 'math', 'number', 'text']
    """
    return _found(pets.answers, AnswerType)  # type: ignore[type-abstract]


def make_policy(spec: str) -> Policy:
    """The policy that ``name`` or ``name:option=value,option=value`` describes.

    >>> make_policy("price:rounds=3,warmup=2").rounds
    3
    """
    return _make(spec, "policy", "Policies", policies())


def make_answer_type(spec: str) -> AnswerType:
    """The answer type that ``name`` or ``name:option=value`` describes.

    >>> make_answer_type("choice:options=4").canonical("(E)") is None
    True
    """
    return _make(spec, "answer type", "Answer types", answer_types())


def _make(spec: str, noun: str, nouns: str, known: Mapping[str, type[Base]]) -> Base:
    name, _, text = spec.partition(":")
    if name not in known:
        raise SpecError(f"there is no {noun} {name!r}. {nouns}: {', '.join(sorted(known))}.")
    cls = known[name]
    options = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    hints = {key: _optional(hint) for key, hint in get_type_hints(cls).items()}
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in options or not equals:
            raise SpecError(f"{name}: there is no option {part!r}. {_listing(name, options, hints)}")
        values[key] = _value(name, key, value, hints, options)
    try:
        return cls(**values)
    except PetsError as error:
        raise SpecError(f"{spec}: {error}") from error


def _found(package: ModuleType, base: type[Base]) -> dict[str, type[Base]]:
    found = _scan(package, base)
    for entry in entry_points(group=package.__name__):
        found[entry.name] = entry.load()
    return found


def _scan(package: ModuleType, base: type[Base]) -> dict[str, type[Base]]:
    """The one public subclass of ``base`` in each module, by the module's name."""
    found: dict[str, type[Base]] = {}
    for info in pkgutil.iter_modules(package.__path__):
        if info.name.startswith("_"):  # a script or a helper, not a plugin
            continue
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name, candidate in vars(module).items():
            own = isinstance(candidate, type) and candidate.__module__ == module.__name__ and not name.startswith("_")
            if own and issubclass(candidate, base) and candidate is not base:
                found[info.name] = candidate
    return found


def _optional(hint: Any) -> Any:
    """``int`` for ``int | None``: whoever writes a value does not mean None."""
    members = [member for member in get_args(hint) if member is not NoneType]
    return members[0] if NoneType in get_args(hint) and len(members) == 1 else hint


def _value(name: str, key: str, text: str, hints: Mapping[str, Any], options: Mapping[str, Field[Any]]) -> Any:
    """``text`` as the option's type: int, float, bool, str or one of a few words."""
    hint = hints[key]
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    words = [word for kind in kinds[1:] if get_origin(kind) is Literal for word in get_args(kind)]
    if text in words:
        return text
    hint = kinds[0]
    if get_origin(hint) is Literal:
        if text in get_args(hint):
            return text
        raise SpecError(f"{name}: {key} is one of {', '.join(get_args(hint))}; got {text!r}.")
    if hint is bool and text in ("true", "false"):
        return text == "true"
    if hint in (int, float, str):
        try:
            return hint(text)
        except ValueError:
            pass
    wanted = " or ".join([getattr(hint, "__name__", str(hint)), *words])
    raise SpecError(f"{name}: {key}={text!r} is not a {wanted}. {_listing(name, options, hints)}")


def _listing(name: str, options: Mapping[str, Field[Any]], hints: Mapping[str, Any]) -> str:
    """The options that a spec can set, with their defaults."""
    settable = [key for key, option in options.items() if _settable(option.default, hints[key])]
    listed = ", ".join(f"{key}={options[key].default}" for key in settable)
    return f"Options of {name}: {listed}." if listed else f"{name} has no options."


def _settable(default: Any, hint: Any) -> bool:
    if isinstance(default, tuple):
        return False  # what was learned, not what a spec says
    return default not in (MISSING, None) or (default is None and hint in (int, float, str, bool))
