"""No verb shows an option that nothing reads.

Options of a run's spec are typed, each by itself, and must arrive in the spec that the verb hands on. Of the other
groups every field must be read, by the verb's parameter of that group or by the group's own methods.
"""

import ast
import inspect
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import click
import pytest
from click.testing import CliRunner
from scripts.cli_options import option_counts
from scripts.docs.cli_reference import commands

import pets.cli
from pets.cli import _groups
from pets.cli._groups import SpecOptions, spec_fields
from pets.cli.main import VERBS, cli
from pets.engine import RunSpec, TokenPrice
from pets.engine.spec import SECTION_OF

TYPED = {  # what is typed, and what the spec has then; several words where an option takes several
    "budget": ("9x", "9x"), "max_traces": ("7", 7), "policy": ("price:rounds=2", "price:rounds=2"),
    "target_consistency": ("0.9", 0.9), "price": ("in=1,out=2", TokenPrice(1, 2)),
    "budget_window": ("40", 40), "concurrency": ("5", 5), "waves": ("3", 3),
    "patience": ("3.5", 3.5), "open_questions": ("3", 3), "rpm": ("11", 11), "tpm": ("12", 12), "timeout": ("13", 13.0),
    "tries": ("2", 2), "seed": ("14", 14), "answer": ("number", "number"), "system": ("Be brief.", "Be brief."),
    "confidence": ("tail", "tail"), "max_tokens": ("15", 15), "temperature": ("0.5", 0.5), "top_p": ("0.6", 0.6),
    "top_k": ("16", 16), "min_p": ("0.2", 0.2), "reasoning_effort": ("low", "low"), "stop": ("END", ("END",)),
    "extra_body": ('{"top_a": 0.1}', {"top_a": 0.1}), "window": ("17", 17), "instruct": (None, False),
    "soft": (None, True), "batch_api": (None, True), "keep_texts": (None, False), "keep_going": (None, True),
    "reuse": ("model", "model"),
}  # fmt: skip
ENDPOINT = ("--endpoint", "http://127.0.0.1:9/v1", "--model", "m")
HANDED_TO = {  # the verb's line, and who gets its spec
    "solve": (("solve", "starter", "--store", "runs.db", *ENDPOINT), "pets.cli.solve.Engine"),
    "stream": (("stream", "starter", *ENDPOINT), "pets.cli.stream.Stream"),
    "sample": (("sample", "starter", "-o", "x.jsonl", *ENDPOINT), "pets.cli.sample.Recording"),
    "doctor": (("doctor", "starter", *ENDPOINT), "pets.cli.doctor.diagnose"),
    "serve": (("serve", "--endpoint", "http://127.0.0.1:9/v1"), "pets.gateway.build_gateway"),
}
OF_A_PLAN = {"policy"}  # which a stream makes its own of
MODULES = list(Path(pets.cli.__path__[0]).glob("*.py"))


class HandedOnError(Exception):
    """Carries what a verb handed on."""


def option_of(verb, name):
    command = cli.get_command(click.Context(cli), verb)
    return next(parameter for parameter in command.params if parameter.name == name)


@pytest.mark.parametrize(("verb", "name"), [(verb, name) for verb in HANDED_TO for name in spec_fields(verb)])
def test_what_is_said_of_a_run_arrives_in_its_spec(verb, name, monkeypatch):
    line, receiver = HANDED_TO[verb]

    def receive(*args, **values):
        handed = (getattr(value, "spec", value) for value in (*args, *values.values()))
        raise HandedOnError(next(value for value in handed if isinstance(value, RunSpec)))

    monkeypatch.setattr(receiver, receive)
    option, (text, wanted) = option_of(verb, name), TYPED[name]
    flag = (option.secondary_opts if wanted is False else option.opts)[-1]
    result = CliRunner().invoke(cli, [*line, flag, *([] if text is None else [text])])
    assert isinstance(result.exception, HandedOnError), (result.output, result.exception)
    (spec,) = result.exception.args
    value = getattr(getattr(spec, SECTION_OF[name]), name)
    if verb == "stream" and name in OF_A_PLAN:
        assert value.rounds == 2
    elif verb == "sample" and name == "answer":
        assert value is None  # it is every question's own
    else:
        assert value == wanted


def test_every_field_of_a_spec_with_an_option_is_tried_here():
    assert {name for verb in HANDED_TO for name in spec_fields(verb)} == set(TYPED)


@pytest.mark.parametrize("name", spec_fields("resume"))
def test_what_changes_of_a_run_that_goes_on_is_a_keyword_of_both_that_take_it_up(name):
    from pets.engine import Engine

    assert name in inspect.signature(Engine.resume).parameters


def groups():
    """Every option group with the commands that take it."""
    found = {}
    for path, command in commands():
        function = inspect.unwrap(command.callback)
        for name, hint in get_type_hints(function).items():
            if is_dataclass(hint) and hint.__module__.startswith("pets.cli") and hint is not SpecOptions:
                found.setdefault(hint, set()).add((path, name))
    return found


def reads(tree, group):
    """The fields that code reads of a group: of ``self`` in its methods, of parameters that are annotated with it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in {cls.__name__ for cls in group.__mro__}:
            names |= {("self", leaf.attr) for leaf in ast.walk(node) if isinstance(leaf, ast.Attribute)}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            typed = {arg.arg for arg in node.args.args + node.args.kwonlyargs
                     if arg.annotation is not None and ast.unparse(arg.annotation).strip('"') in
                     {cls.__name__ for cls in group.__mro__}}  # fmt: skip
            names |= {
                (leaf.value.id, leaf.attr)
                for leaf in ast.walk(node)
                if isinstance(leaf, ast.Attribute) and isinstance(leaf.value, ast.Name) and leaf.value.id in typed
            }
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "matching_options":
                    settings, *given = map(ast.unparse, call.args)
                    if typed & set(given):
                        names |= {("matching", spec.name) for spec in fields(SETTINGS[settings])}
    return {attribute for _, attribute in names}


def settings_classes():
    from pets.gateway import Settings
    from pets.lab import ReplayConfig

    return {"Settings": Settings, "ReplayConfig": ReplayConfig}


SETTINGS = settings_classes()


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.__name__)
def test_every_field_of_a_group_is_read(group):
    read = set().union(*(reads(ast.parse(path.read_text("utf-8")), group) for path in MODULES))
    options = {spec.name for spec in fields(group) if spec.metadata}
    assert options - read == set(), f"{group.__name__} shows options that nothing reads"


def test_every_option_that_stands_alone_is_read_by_its_verb():
    for path, command in commands():
        function = inspect.unwrap(command.callback)
        if function.__module__ == "pets.cli.main":
            continue
        tree = ast.parse(inspect.getsource(function).lstrip())
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        assert set(inspect.signature(function).parameters) <= used, path


def test_a_field_that_nothing_reads_is_found():
    @_groups.option_group("Draws")
    class DrawOptions:
        read: int = _groups.option("It is read.", 1)
        ignored: int = _groups.option("It is not.", 1)

    tree = ast.parse("def verb(draws: DrawOptions):\n    return draws.read")
    assert reads(tree, DrawOptions) == {"read"}


def test_the_command_line_stays_small():
    counts = dict(option_counts())
    assert len(VERBS) <= 16 and sum(counts.values()) <= 285 and counts["pets solve"] <= 46
