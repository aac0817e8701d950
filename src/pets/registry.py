"""Specs to objects: ``"okg:prior=0.5"`` makes a policy, and so do answer types and samplers.

A new file in ``pets.policies``, ``pets.answers`` or ``pets.samplers``, or an installed entry point of a group of that
name, is found. A plugin never replaces what PETS brings; one that cannot be loaded is an error where it is named.

>>> make_policy("okg:prior=0.5")
OKG(prior=0.5, unseen=1, lengths=True, ...)
>>> make_policy("okg:prior=x")
Traceback (most recent call last):
...
pets.errors.SpecError: okg: prior='x' is not a float or learned. Options of okg: prior=learned, unseen=1, ...
"""

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from inspect import Parameter
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import pets.answers
import pets.policies
import pets.samplers
from pets.answers.base import AnswerType
from pets.answers.python import named_in
from pets.arguments import checked
from pets.core.policy import Policy
from pets.errors import PetsError, SpecError
from pets.samplers.base import Sampler
from pets.samplers.function import FunctionSampler, SamplerFunction

Base = TypeVar("Base")
PLAIN = (int, float, str, bool)
CODE_PREFIX = "python:"  # of specs that name a user's own code


class Catalog(dict[str, type[Base]]):
    """Classes by name, and why the plugins in ``broken`` are not among them.

    Those of PETS are the one public subclass of ``base`` in each module of the package that plain values can make.
    """

    def __init__(self, noun: str, package: ModuleType, base: type[Base]) -> None:
        super().__init__()
        self.noun, self.base = noun, base
        self.broken: dict[str, str] = {}
        for info in pkgutil.iter_modules(package.__path__):
            if info.name.startswith("_"):  # a script or a helper, not a plugin
                continue
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            for name, cls in vars(module).items():
                own = isinstance(cls, type) and cls.__module__ == module.__name__ and not name.startswith("_")
                if own and issubclass(cls, base) and cls is not base:
                    options = _options(cls).values()
                    if all(_is_plain(option) for option in options if option.default is Parameter.empty):
                        self[info.name] = cls
        own_names = frozenset(self)
        for entry in entry_points(group=package.__name__):
            origin = f"package {entry.dist.name!r}" if entry.dist is not None else f"entry point {entry.value!r}"
            if entry.name in own_names:
                warnings.warn(
                    f"{origin}: its {noun} {entry.name!r} is left out, PETS has one of that name", stacklevel=3
                )
            elif entry.name in self:
                self.broken[entry.name] = f"{origin} is not the only package that brings it; uninstall one"
                del self[entry.name]
            elif entry.name not in self.broken:
                try:
                    cls = entry.load()
                    _options(cls)  # or says what is wrong with its constructor
                except Exception as error:  # noqa: BLE001 (a plugin may fail in any way, and the verb may not need it)
                    self.broken[entry.name] = f"{origin}: {type(error).__name__}: {error}"
                    continue
                if isinstance(cls, type) and issubclass(cls, base) and not inspect.isabstract(cls):
                    self[entry.name] = cls
                else:
                    home = f"{base.__module__}.{base.__qualname__}"
                    self.broken[entry.name] = f"{origin}: {entry.value} is no class that subclasses {home}"

    def make(self, spec: str) -> Base:
        """The object that ``name`` or ``name:option=value,option=value`` describes."""
        name, _, text = spec.partition(":")
        if name in self.broken:
            raise SpecError(f"the {self.noun} {name!r} cannot be loaded: {self.broken[name]}.")
        if name not in self:
            broken = f" Broken plugins: {', '.join(sorted(self.broken))}." if self.broken else ""
            raise SpecError(f"there is no {self.noun} {name!r}. Known: {', '.join(sorted(self))}.{broken}")
        return _made(self[name], name, text)

    def name_of(self, cls: type) -> str | None:
        """The name of a class: of several the first, which is that of PETS."""
        for name, own in self.items():
            if own is cls:
                return name
        return None

    def accept(self, value: str | Base) -> Base:
        """The object itself, or what a spec describes."""
        if isinstance(value, str):
            return self.make(value)
        if not isinstance(value, self.base):
            expected = f"a {self.noun} (an object of {self.base.__name__}) or a spec such as {min(self)!r}"
            raise SpecError(f"expected {expected}; got {value!r}.")
        return value


@cache
def policies() -> Catalog[Policy]:
    """Every policy by name: the files of ``pets.policies`` and the entry points of group ``pets.policies``."""
    return Catalog("policy", pets.policies, Policy)


@cache
def answer_types() -> Catalog[AnswerType]:
    """Every answer type by name: the files of ``pets.answers`` and the entry points of group ``pets.answers``.

    >>> sorted(answer_types())
    ['auto', 'choice', 'json', 'judge', 'math', 'number', 'python', 'recorded', 'regex', 'text', 'yesno']
    """
    return Catalog("answer type", pets.answers, AnswerType)  # type: ignore[type-abstract]


@cache
def samplers() -> Catalog[Sampler]:
    """Every sampler that a spec can describe: files of ``pets.samplers``, entry points of group ``pets.samplers``."""
    return Catalog("sampler", pets.samplers, Sampler)  # type: ignore[type-abstract]


@checked
def make_policy(spec: str) -> Policy:
    """The policy that ``name`` or ``name:option=value,option=value`` describes.

    ``python:MODULE:CLASS`` and ``python:MODULE:CLASS:option=value`` import a policy of your own code: only from what
    you type, never from a store or another file.
    """
    if not spec.startswith(CODE_PREFIX):
        return policies().make(spec)
    module, _, rest = spec.removeprefix(CODE_PREFIX).partition(":")
    name, _, text = rest.partition(":")
    if not module or not name:
        raise SpecError(f"your own policy is python:MODULE:CLASS, such as python:my_file:ThreeInARow; got {spec!r}.")
    cls = named_in(module, name)
    if not (isinstance(cls, type) and issubclass(cls, Policy)) or inspect.isabstract(cls):
        raise SpecError(f"{module}.{name} is no policy: subclass IndexPolicy or QuotaPolicy, and write its method.")
    return _made(cls, f"{CODE_PREFIX}{module}:{name}", text)


def typed_policy(spec: str) -> str | Policy:
    """A spec that a user typed: as it is or, where it names code, the policy that the code makes."""
    return make_policy(spec) if spec.startswith(CODE_PREFIX) else spec


@checked
def make_answer_type(spec: str) -> AnswerType:
    """The answer type that ``name``, ``name:option=value`` or, for some, ``name:text`` describes.

    >>> make_answer_type("regex:a=(.*), b")
    Regex(pattern='a=(.*), b')
    """
    return answer_types().make(spec)


@checked
def make_sampler(spec: str) -> Sampler:
    """The sampler that ``name:option=value,...`` describes; its options are its constructor's plain arguments.

    >>> sampler = make_sampler("openai:url=http://localhost:8000/v1,model=Qwen/Qwen3-8B,timeout=60")
    """
    return samplers().make(spec)


def as_sampler(value: str | Sampler | SamplerFunction) -> Sampler:
    """The sampler itself, or the one that a spec describes, or that asks a function."""
    if isinstance(value, Sampler):
        return value
    if isinstance(value, str | type) or not callable(value):
        return samplers().accept(value)  # type: ignore[arg-type]  # or refuses it
    return FunctionSampler(value)


def spec_of(value: Policy | AnswerType) -> str | None:
    """The spec that makes an equal object in another process.

    ``None`` of a class that is not registered, and of a policy that has learned.

    >>> spec_of(make_policy("okg:prior=1,lengths=false")), spec_of(make_answer_type("number"))
    ('okg:prior=1.0,lengths=false', 'number')
    """
    catalog: Catalog[Any] = policies() if isinstance(value, Policy) else answer_types()
    spec = catalog.name_of(type(value))
    if spec is None:
        return None
    if whole := getattr(value, "spec_option", ""):
        text = getattr(value, whole)
        return f"{spec}:{text}" if text else spec
    settings = []
    for key, option in _options(type(value)).items():  # type: ignore[arg-type]  # a class is hashable, says Python
        setting = getattr(value, key) if _is_plain(option) else option.default
        if setting != option.default:
            settings.append(f"{key}={str(setting).lower() if isinstance(setting, bool) else setting}")
    if settings:
        spec += f":{','.join(settings)}"
    try:
        return spec if catalog.make(spec) == value else None
    except SpecError:  # an option that no spec can set
        return None


def _made(cls: type[Base], name: str, text: str) -> Base:
    """An object of a class with the options that a spec says after its name."""
    options, values = _options(cls), dict[str, Any]()  # type: ignore[arg-type]
    whole = getattr(cls, "spec_option", "")  # the one that is all of a spec after the name, where there is one
    if whole and text:
        values[whole] = text
    parts = [] if whole else text.split(",")
    for part in filter(None, parts):
        key, equals, value = part.partition("=")
        if key not in options or not equals:
            raise SpecError(f"{name}: there is no option {part!r}. {_listing(name, options)}")
        values[key] = _value(name, options[key], value, options)
    for key, option in options.items():
        if option.default is Parameter.empty and key not in values:
            hint = f"Write {name}:{key.upper()}." if key == whole else _listing(name, options)
            raise SpecError(f"{name}: {key} is missing. {hint}")
    try:
        return cls(**values)
    except PetsError as error:
        raise SpecError(f"{name}{':' * bool(text)}{text}: {error}") from error


@cache
def _options(cls: type) -> Mapping[str, Parameter]:
    """The constructor's arguments, annotated with what a spec's value may be: ``(int,)`` for ``int | None``."""
    hints, options = get_type_hints(cls.__init__), dict[str, Parameter]()  # type: ignore[misc]
    for name, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            hint = hints.get(name)
            kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            options[name] = parameter.replace(annotation=tuple(kind for kind in kinds if kind is not NoneType))
    return options


def _is_plain(option: Parameter) -> bool:
    """Whether a spec can set the option."""
    kind = option.annotation[0]
    return kind in PLAIN or get_origin(kind) is Literal


def _value(name: str, option: Parameter, text: str, options: Mapping[str, Parameter]) -> Any:
    """``text`` as the option's type: int, float, bool, str or one of a few words."""
    kind = option.annotation[0]
    words = [word for hint in option.annotation if get_origin(hint) is Literal for word in get_args(hint)]
    if text in words:
        return text
    if get_origin(kind) is Literal:
        raise SpecError(f"{name}: {option.name} is one of {', '.join(words)}; got {text!r}.")
    if kind is bool and text in ("true", "false"):
        return text == "true"
    if kind in (int, float, str):
        try:
            return kind(text)
        except ValueError:
            pass
    wanted = " or ".join([getattr(kind, "__name__", str(kind)), *words])
    article = "an" if wanted[0].lower() in "aeiou" else "a"
    raise SpecError(f"{name}: {option.name}={text!r} is not {article} {wanted}. {_listing(name, options)}")


def _listing(name: str, options: Mapping[str, Parameter]) -> str:
    """The options that a spec can set, with their defaults."""
    listed = ", ".join(
        key if option.default is Parameter.empty else f"{key}={option.default}"
        for key, option in options.items()
        if _is_plain(option)
    )
    return f"Options of {name}: {listed}." if listed else f"{name} has no options."
