"""The public names as pages: signature, docstring and public members of each, read from the source by griffe."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import griffe

import pets
from pets.registry import Catalog, answer_types, policies, samplers
from scripts.docs.markdown import docstring

SOURCE = Path(__file__).resolve().parents[2] / "src"
LINE_CHARS = 100
REFERENCE_PAGES: Mapping[str, tuple[str, Sequence[str]]] = {
    "reference/pets.md": ("Python: pets", ["pets"]),
    "reference/modules.md": (
        "Python: the other modules",
        [
            "pets.confidence",
            "pets.engine",
            "pets.gateway",
            "pets.integrations.inspect_ai",
            "pets.mock",
            "pets.plans",
            "pets.pools",
            "pets.questions",
            "pets.registry",
            "pets.lab",
            "pets.report",
            "pets.samplers",
            "pets.store",
            "pets.testing",
        ],
    ),
    "reference/specs.md": (
        "Policies, answer types and samplers",
        ["pets.policies.*", "pets.answers.*", "pets.samplers.*"],
    ),
    "reference/core.md": ("Python: the mathematics", ["pets.core.*"]),
}
"""The pages, their titles and the modules on them; ``.*`` stands for every module of a package (a spec can name)."""

CATALOGS: Mapping[str, Callable[[], Catalog[Any]]] = {
    "pets.answers": answer_types,
    "pets.policies": policies,
    "pets.samplers": samplers,
}
Documented = griffe.Class | griffe.Function | griffe.Attribute


def undocumented_names() -> list[str]:
    """The classes and functions of all pages that have no docstring."""
    modules = {
        module for _, patterns in REFERENCE_PAGES.values() for pattern in patterns for module in _modules(pattern)
    }
    return sorted(
        f"{module}.{name}" for module in modules for name, target in _definitions(module).items() if not _text(target)
    )


def reference_page(path: str) -> str:
    """One of the pages, in Markdown."""
    title, patterns = REFERENCE_PAGES[path]
    parts = [f"# {title}", "Made from the docstrings. A name that begins with an underscore is no promise."]
    for module in (name for pattern in patterns for name in _modules(pattern)):
        parts.append(f"## {module}")
        parts.append(docstring(_text(_target(_module(module)))))
        parts.extend(_entry(name, definition) for name, definition in sorted(_definitions(module).items()))
    return "\n\n".join(part for part in parts if part) + "\n"


@cache
def _package() -> griffe.Module:
    package = griffe.load("pets", search_paths=[str(SOURCE)], resolve_aliases=True)
    assert isinstance(package, griffe.Module)
    return package


def _module(path: str) -> griffe.Object | griffe.Alias:
    return _package()[path.removeprefix("pets.")] if path != "pets" else _package()


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    target = member.final_target if isinstance(member, griffe.Alias) else member
    assert isinstance(target, griffe.Object)
    return target


def _modules(pattern: str) -> Iterator[str]:
    package, star = pattern.removesuffix(".*"), pattern.endswith(".*")
    if not star:
        yield package
    elif package in CATALOGS:
        modules = {cls.__module__ for cls in CATALOGS[package]().values()}
        yield from sorted(module for module in modules if module.startswith(package))
    else:
        members = sorted(_module(package).members.items())
        yield from (f"{package}.{name}" for name, member in members if member.is_module)


def _definitions(module: str) -> dict[str, Documented]:
    """What a package exports or a module defines, by name: classes, functions, and the constants that are explained."""
    exporter = _module(module)
    definitions: dict[str, Documented] = {}
    own = [name for name, member in exporter.members.items() if not member.is_alias and not name.startswith("_")]
    for export in pets.__all__ if module == "pets" else exporter.exports or own:
        target = _target(exporter.members[str(export)])
        if isinstance(target, griffe.Attribute) and not _text(target):
            continue
        if isinstance(target, griffe.Class | griffe.Function | griffe.Attribute):
            definitions[str(export)] = target
    return definitions


def _entry(name: str, definition: Documented) -> str:
    parts = [f"### {name}", _code(definition, name), docstring(_text(definition))]
    if isinstance(definition, griffe.Class):
        parts.extend(_member(member) for member in _members(definition))
    return "\n\n".join(parts)


def _members(cls: griffe.Class) -> Iterator[griffe.Function | griffe.Attribute]:
    """The public methods and explained attributes of a class, those of its bases in this package too."""
    for name, member in cls.all_members.items():
        target = _target(member)
        if isinstance(target, griffe.Function | griffe.Attribute) and not name.startswith("_") and _text(target):
            yield target


def _member(member: griffe.Function | griffe.Attribute) -> str:
    signature = " ".join(_code(member, member.name).strip("`").removeprefix("python").split())
    lines = docstring(_text(member)).replace("\n", "\n    ")
    return f"- `{signature.replace('( ', '(').replace(', )', ')')}`\n\n    {lines}"


def _code(definition: Documented, name: str) -> str:
    if isinstance(definition, griffe.Attribute):
        annotation = f": {definition.annotation}" if definition.annotation else ""
        value = f" = {definition.value}" if definition.value and len(str(definition.value)) < LINE_CHARS else ""
        return f"```python\n{name}{annotation}{value}\n```"
    signature = str(definition.signature(name=name)) or name
    if len(signature) > LINE_CHARS:
        start, _, rest = signature.partition("(")
        arguments, _, end = rest.rpartition(")")
        signature = f"{start}(\n" + "".join(f"    {part},\n" for part in _split(arguments)) + f"){end}"
    prefix = "class " if isinstance(definition, griffe.Class) else ""
    return f"```python\n{prefix}{signature}\n```"


def _split(arguments: str) -> Iterator[str]:
    """A signature's arguments: cut at commas outside all brackets."""
    depth, start = 0, 0
    for at, character in enumerate(arguments):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield arguments[start:at].strip()
            start = at + 1
    yield arguments[start:].strip()


def _text(definition: griffe.Object) -> str:
    return definition.docstring.value if definition.docstring else ""
