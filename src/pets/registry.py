"""``"okg:prior=0.5"`` -> object. A new file in the package, or an installed entry point, is found by itself.

>>> make_policy("okg:prior=0.5")
OKG(prior=0.5, unseen=1)
>>> make_policy("okg:prior=x")
Traceback (most recent call last):
...
pets.errors.SpecError: okg: prior='x' is not a float. Options of okg: prior=1.0, unseen=1.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import pets.policies
from pets.core.policy import Policy
from pets.errors import PetsError, SpecError

__all__ = ["make_policy", "policies"]

Base = TypeVar("Base")


@cache
def policies() -> Mapping[str, type[Policy]]:
    """Every policy by name: the files of ``pets.policies`` and the entry points of group ``pets.policies``.

    >>> sorted(policies())
    ['okg', 'okg_weighted', 'online_grid', 'oracle', 'price', 'uniform']
    """
    found = _scan(pets.policies, Policy)
    for entry in entry_points(group="pets.policies"):
        found[entry.name] = entry.load()
    return found


def make_policy(spec: str) -> Policy:
    """The policy that ``name`` or ``name:option=value,option=value`` describes.

    >>> make_policy("price:rounds=3,warmup=2").rounds
    3
    """
    name, _, text = spec.partition(":")
    known = policies()
    if name not in known:
        raise SpecError(f"there is no policy {name!r}. Policies: {', '.join(sorted(known))}.")
    cls = known[name]
    options = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in options or not equals:
            raise SpecError(f"{name}: there is no option {part!r}. {_listing(name, options.values())}")
        values[key] = _value(name, key, value, hints[key], options)
    try:
        return cls(**values)
    except PetsError as error:
        raise SpecError(f"{spec}: {error}") from error


def _scan(package: ModuleType, base: type[Base]) -> dict[str, type[Base]]:
    """The one public subclass of ``base`` in each module, by the module's name."""
    found: dict[str, type[Base]] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for public in module.__all__:
            candidate = getattr(module, public)
            if isinstance(candidate, type) and issubclass(candidate, base):
                found[info.name] = candidate
    return found


def _value(name: str, key: str, text: str, hint: Any, options: Mapping[str, Field[Any]]) -> Any:
    """``text`` as the option's type: int, float, bool, str or one of a few words."""
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
    wanted = getattr(hint, "__name__", str(hint))
    raise SpecError(f"{name}: {key}={text!r} is not a {wanted}. {_listing(name, options.values())}")


def _listing(name: str, options: Any) -> str:
    listed = ", ".join(f"{o.name}={o.default}" for o in options if o.default not in (MISSING, None, ()))
    return f"Options of {name}: {listed}." if listed else f"{name} has no options."
