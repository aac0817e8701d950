"""No verb shows an option that nothing reads.

Options of a run's spec are typed, each by itself, and must arrive in the spec that the verb hands on. Every command is
run, and must read every field of its groups and of the spec: what copies, checks or stores a whole group reads nothing.
"""

import ast
import inspect
import json
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import get_type_hints

import click
import pytest
from click.testing import CliRunner
from scripts.cli_options import option_counts
from scripts.docs.cli_reference import commands

import pets
from pets.cli._groups import SPEC_FIELDS, SpecOptions
from pets.cli.main import VERBS, cli
from pets.engine import RunSpec, TokenPrice
from pets.engine.spec import SECTION_OF, SECTIONS, KeepingSpec, SpendingSpec, is_honoured
from pets.errors import InputError
from pets.mock import DistributionAnswers, Faults, MockModel, running
from pets.store import RunRecord

from ..command import run_briefly

TYPED = {  # what is typed, and what the spec has then; several words where an option takes several
    "budget": ("9x", "9x"), "max_traces": ("7", 7), "policy": ("price:rounds=2", "price:rounds=2"),
    "target_consistency": ("0.9", 0.9), "price": ("in=1,out=2", TokenPrice(1, 2)),
    "budget_window": ("40", 40), "concurrency": ("5", 5), "hurry": ("0.75", 0.75),
    "open_questions": ("3", 3), "rpm": ("11", 11), "tpm": ("12", 12), "timeout": ("13", 13.0),
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


class HandedOnError(Exception):
    """Carries what a verb handed on."""


def option_of(verb, name):
    command = cli.get_command(click.Context(cli), verb)
    return next(parameter for parameter in command.params if parameter.name == name)


def spec_fields(verb):
    """The fields of a spec that are options of a verb: those that it honours, with a help text."""
    return [name for name, spec in SPEC_FIELDS.items() if "help" in spec.metadata and is_honoured(spec, verb)]


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


QUESTIONS = [{"id": f"q{i}", "question": f"Question q{i}", "answer_type": "choice:options=4"} for i in range(3)]
POOL = [{"id": f"q{i}", "answers": ["A"] * 5 + ["B", "C", "D"], "gold": "A"} for i in range(12)]
WITH_RUNS = ("pets resume", "pets runs cancel")
LINES = {  # of every command with groups of options, enough to read all of them
    "pets doctor": ["q.jsonl AT", "--trust"],
    "pets fit": ["pool.jsonl --budget 6x --policy price:rounds=1 -o plan.json"],
    "pets keys set": ["alice --store keys.db --rpm 5"],
    "pets pools convert": ["pool.jsonl copy.jsonl"],
    "pets pools show": ["pool.jsonl"],
    "pets replay": ["long.jsonl --policy uniform --policy price:rounds=1 --train 4 --repetitions 1 --workers 1"],
    "pets resume": [
        "1 --budget +3 --store runs.db",
        "2 q.jsonl --store runs.db",
        "3 --ray --vllm-args {} --store runs.db",
    ],
    "pets runs cancel": ["4 --endpoint URL --store runs.db"],
    "pets sample": ["q.jsonl AT -o recorded.jsonl --traces 2"],
    "pets serve": ["--endpoint URL --budget 8x --budget 2 --over-budget single --policy online_grid --answer choice"],
    "pets solve": [
        "q.jsonl AT --budget 2x --store other.db",
        "q.jsonl AT --soft --confidence tail --store none --budget 2x",
        "q.jsonl --ray --vllm-args {}",
        "q.jsonl AT --dry-run",
    ],
    "pets stream": [
        "q.jsonl AT --policy online_grid --store other.db",
        "q.jsonl AT --policy online_grid --confidence tail --budget 100ktok --max-tokens 50",
    ],
}
REFUSED = ("--ray", "--trust")  # which find no cluster here, and no pets.toml
COPYING = ("dataclasses", "pets.arguments")  # modules that read fields to hand them on
STORED = {"keeps_texts": (KeepingSpec, "keep_texts")}  # what a run goes by as its store has it
COPIES = ("RunSpec.to_plain", "RunSpec.from_plain", "RunSpec.check", "RunSpec.with_options")


def options_of(command):
    """The fields that are options of a command, by the class that declares each."""
    found = {}
    hints = get_type_hints(inspect.unwrap(command.callback)) if command.callback else {}
    for group in filter(is_dataclass, hints.values()):
        if group is SpecOptions:
            for name in spec_fields(command.name):
                found.setdefault(SECTIONS[SECTION_OF[name]], set()).add(name)
        else:
            found[group] = {spec.name for spec in fields(group) if "help" in spec.metadata}
    return found


GROUPED = {path: options for path, command in commands() if (options := options_of(command))}


@contextmanager
def recorded_reads(classes):
    """What code reads of instances of these classes: not what copies them, checks their types or stores them."""
    reads = {cls: set() for cls in classes}

    def read(record, name):
        caller = inspect.currentframe().f_back
        module, code = caller.f_globals.get("__name__"), caller.f_code
        checked = code.co_name == "__post_init__" and caller.f_locals.get("self") is record
        copied = checked or module in COPYING or code.co_qualname.startswith(COPIES)
        if type(record) in reads and not copied and code.co_filename != "<string>":  # of a dataclass's own methods
            reads[type(record)].add(name)
        return object.__getattribute__(record, name)

    def read_stored(record, name):
        if name in STORED and STORED[name][0] in reads:
            section, field = STORED[name]
            reads[section].add(field)
        return object.__getattribute__(record, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunRecord, "__getattribute__", read_stored)
        for cls in classes:
            patch.setattr(cls, "__getattribute__", read)
        yield reads


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Runs the lines of a command, in a folder with what they need; nothing is served for longer than a question."""
    long = [row | {"answers": row["answers"] * 8} for row in POOL]
    for name, rows in (("q.jsonl", QUESTIONS), ("pool.jsonl", POOL), ("long.jsonl", long)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = DistributionAnswers({question["id"]: {"A": 0.7, "B": 0.3} for question in QUESTIONS}, tokens=8)

    def refuse(*args, **options):
        raise InputError("not here.")

    run_briefly(monkeypatch, "q1")
    monkeypatch.setattr("pets.cli._ray.connect", refuse)

    def run(path):
        faults = Faults(no_logprobs=float(path == "pets doctor"))  # of which it says something
        with running(MockModel(answers, faults=faults)) as url:
            at = ["--endpoint", url, "--model", "mock"]
            if path in WITH_RUNS:
                for line in (["solve", *at, "--budget", "2x"], ["stream", *at, "--policy", "online_grid"]):
                    CliRunner().invoke(cli, [*line, "q.jsonl", "--store", "runs.db"])
                pets.solve("q.jsonl", sampler=lambda prompt: "A", store="runs.db", budget="2x", new=True)
                wave = ["solve", "q.jsonl", "--batch-api", "--model", "mock", "--to", "wave.jsonl"]
                CliRunner().invoke(cli, [*wave, "--store", "runs.db"])
            if path == "pets keys set":
                CliRunner().invoke(cli, ["keys", "add", "alice", "--store", "keys.db"])
            for line in LINES[path]:
                words = [word for word in line.split() for word in (at if word == "AT" else [word.replace("URL", url)])]
                result = CliRunner().invoke(cli, [*path.split()[1:], *words])
                assert (result.exception is None) != any(word in line for word in REFUSED), (line, result.output)

    return run


@pytest.mark.parametrize("path", GROUPED)
def test_a_command_reads_every_option_that_it_shows(path, typed):
    with recorded_reads(GROUPED[path]) as reads:
        typed(path)
    ignored = {group.__name__: sorted(names - reads[group]) for group, names in GROUPED[path].items()}
    assert not any(ignored.values()), ignored


def test_a_field_that_is_only_copied_is_not_read():
    with recorded_reads([SpendingSpec]) as reads:
        assert replace(SpendingSpec(), budget="9x").max_traces == 64
    assert reads == {SpendingSpec: {"max_traces"}}


def test_every_option_that_stands_alone_is_read_by_its_verb():
    for path, command in commands():
        function = inspect.unwrap(command.callback)
        if function.__module__ == "pets.cli.main":
            continue
        tree = ast.parse(inspect.getsource(function).lstrip())
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        assert set(inspect.signature(function).parameters) <= used, path


def test_the_command_line_stays_small():
    counts = dict(option_counts())
    assert len(VERBS) <= 16 and sum(counts.values()) <= 285 and counts["pets solve"] <= 46
