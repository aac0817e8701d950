"""Stores that came from elsewhere: no verb runs the code that one names, and a damaged one is told in one line."""

import io
import json
import random
import shutil
import sqlite3
import sys
import uuid
from contextlib import closing
from itertools import groupby

import pytest

from pets.cli import main as module
from pets.core.budget import Budget
from pets.engine import Engine, RunSpec
from pets.engine.resume import run_record
from pets.engine.sources import Sources
from pets.engine.stream import Stream, stream_record
from pets.errors import StateError
from pets.policies.price import PriceRule
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Store, StoredTrace

PROBLEMS = [Problem(f"q{n}", Prompt(f"{n} ="), "number", str(n)) for n in range(2)]
SOLVED, BATCHED, STREAMED, OWN = 1, 2, 3, 4  # runs: by solve, by batch jobs, of a stream; whose questions name the code

READING = [
    "runs", "runs show {run}", "runs show {run} --question q1", "runs compare {run} {run}", "runs export {run}",
    "runs export {run} --what traces", "runs export {run} --what pool", "report {run}", "forecast {run}",
]  # fmt: skip
COMPARING = [words for words in READING[1:] if not words.startswith("forecast") and "traces" not in words]
GOING_ON = {
    SOLVED: ["resume {run}", "resume {run} --budget +4x"],
    OWN: ["resume {run}", "resume {run} --budget +4x"],
    BATCHED: ["resume {run} --replies replies.jsonl", "runs cancel {run} --endpoint http://127.0.0.1:9/v1"],
    STREAMED: ["resume {run} -"],
}


@pytest.fixture
def code():
    """Another module each time: what was imported once is kept."""
    return f"python:foreign_{uuid.uuid4().hex}:read"


@pytest.fixture
def marker(tmp_path, code):
    """Where the code leaves a file when it is imported."""
    (tmp_path / f"{code.split(':')[1]}.py").write_text(
        "import pathlib\npathlib.Path('imported').touch()\ndef read(text): return text[-1:]\n"
    )
    return tmp_path / "imported"


@pytest.fixture(scope="module")
def made_store(tmp_path_factory):
    """A store of four runs, none of which names code."""
    path = tmp_path_factory.mktemp("made") / "runs.db"
    spec = RunSpec.of(budget="4x", answer="number", policy="uniform")
    sources = Sources(endpoints=("http://127.0.0.1:9/v1",), model="m")
    stream = spec.with_options(policy=PriceRule(), max_traces=8, horizon=10, open_questions=4)
    own = run_record(RunSpec.of(budget="4x", policy="uniform"), PROBLEMS, Sources(model="m"), stored=True)
    by_jobs = run_record(
        RunSpec.of(budget="4x", answer="number", batch_api=True), PROBLEMS, Sources(model="m"), stored=True
    )
    solved = run_record(spec, PROBLEMS, sources, stored=True)
    with Store.open(path) as opened:
        for settings in (solved, by_jobs, stream_record(stream, Budget(100, 8), sources), own):
            with opened.create(settings, PROBLEMS) as run:
                traces = [StoredTrace(p.id, n, p.gold, p.gold, "stop", tokens=9) for p in PROBLEMS for n in range(2)]
                run.write([trace.launch for trace in traces], traces)
                if settings is by_jobs:
                    run.write([StoredTrace("q0", 2).launch], [])
    return path


@pytest.fixture
def plain_store(tmp_path, made_store):
    """The store of the module in a folder of the test's, and a file of replies."""
    (tmp_path / "replies.jsonl").touch()
    return shutil.copy(made_store, tmp_path / "runs.db")


@pytest.fixture
def store(plain_store, marker, code):
    """The same runs, which name code."""
    with closing(sqlite3.connect(plain_store, isolation_level=None)) as database:
        database.execute(
            "UPDATE runs SET settings = replace(settings, ?, ?)", ('"answer": "number"', f'"answer": "{code}"')
        )
        database.execute("UPDATE questions SET answer = ? WHERE run = ?", (code, OWN))
    return plain_store


def run_pets(monkeypatch, capfd, words):
    monkeypatch.setattr(sys, "argv", ["pets", *words])
    monkeypatch.setattr(sys, "path", [*sys.path])  # a module of the current folder is looked for
    with pytest.raises(SystemExit) as end:
        module.main()
    return end.value.code, *capfd.readouterr()


@pytest.mark.parametrize("run", [SOLVED, BATCHED, STREAMED, OWN])
@pytest.mark.parametrize("words", READING)
def test_what_reads_a_store_shows_its_answers_and_imports_nothing(store, marker, monkeypatch, capfd, words, run):
    status, _, err = run_pets(monkeypatch, capfd, words.format(run=run).split())
    assert status == 0, err
    assert not marker.exists()


@pytest.mark.parametrize(("run", "words"), [(run, words) for run, several in GOING_ON.items() for words in several])
def test_what_goes_on_with_a_run_refuses_its_code_until_it_is_named(
    store, marker, code, monkeypatch, capfd, words, run
):
    before = store.read_bytes()
    status, out, err = run_pets(monkeypatch, capfd, words.format(run=run).split())
    assert status == 2 and not out
    assert err.splitlines()[-1].endswith(f"names no code: give --answer {code} to run that code.")
    assert not marker.exists() and store.read_bytes() == before


@pytest.mark.parametrize("words", COMPARING)
def test_code_that_is_named_again_is_run(store, marker, code, monkeypatch, capfd, words):
    status, _, err = run_pets(monkeypatch, capfd, [*words.format(run=SOLVED).split(), "--answer", code])
    assert status == 0, err
    assert marker.exists()


@pytest.mark.parametrize("words", [*COMPARING, GOING_ON[SOLVED][0]])
def test_another_type_than_the_runs_is_refused(store, marker, code, monkeypatch, capfd, words):
    for answer in ("number", "python:os:getcwd"):
        status, _, err = run_pets(monkeypatch, capfd, [*words.format(run=SOLVED).split(), "--answer", answer])
        assert status == 2 and f"reads its answers as {code}, not as {answer}" in err
    assert not marker.exists()


@pytest.mark.parametrize("words", ["resume 1", "resume 1 --budget +1x", "resume 3"])
def test_a_run_goes_on_with_the_code_that_is_named(store, marker, code, monkeypatch, capfd, words):
    monkeypatch.setattr("pets.cli.resume.run_engine", lambda engine, output, **options: engine.close())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    run_pets(monkeypatch, capfd, [*words.split(), "--answer", code])
    assert marker.exists()


def test_what_was_read_by_code_is_shown_as_it_was(store, code, monkeypatch, capfd):
    _, out, _ = run_pets(monkeypatch, capfd, ["runs", "export", "1", "--what", "results"])
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["answer"], row["right"]) for row in rows] == [("0", True), ("1", True)]
    _, out, _ = run_pets(monkeypatch, capfd, ["report", "1", "-o", "page.html"])
    assert f"--answer {code}" in (store.parent / "page.html").read_text()


def sql(*statements):
    def damage(path):
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for statement in statements:
                database.execute(statement)

    return damage


def overwrite(change):
    def damage(path):
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = DELETE")
        path.write_bytes(change(path.read_bytes()))

    return damage


async def not_asked(*_, **__):
    """What would wait for a server is over: the store has been read."""
    raise StateError("nothing was asked")


TABLES = ("runs", "questions", "launches", "traces", "texts", "states", "batch_jobs", "ledger", "api_keys")
COLUMNS = ("runs.settings", "runs.created", "questions.prompt", "questions.gold", "traces.answer", "traces.tokens")
COLUMNS += ("traces.soft", "launches.held", "texts.text", "states.data", "batch_jobs.lines")
DAMAGES = {
    "cut in the middle": overwrite(lambda data: data[: len(data) // 2]),
    "cut within a page": overwrite(lambda data: data[:6_000]),
    "cut within its head": overwrite(lambda data: data[:50]),
    "random bytes": overwrite(lambda data: random.Random(1).randbytes(len(data))),
    "random bytes after its head": overwrite(lambda data: data[:100] + random.Random(1).randbytes(len(data) - 100)),
    "random bytes in the middle": overwrite(lambda data: data[:8_000] + b"\xff" * 40_000 + data[48_000:]),
    "a text": overwrite(lambda data: b"id,answer\n" * 1_000),
    "a database of something else": sql("PRAGMA application_id = 7"),
    "of a newer pets": sql("PRAGMA user_version = 1000"),
    **{f"no table {name}": sql("PRAGMA foreign_keys = OFF", f"DROP TABLE {name}") for name in TABLES},
    **{
        f"no column {name}": sql(f"ALTER TABLE {table} RENAME COLUMN {column} TO gone")
        for name in COLUMNS
        for table, _, column in [name.partition(".")]
    },
    **{
        f"settings {text}": sql(f"UPDATE runs SET settings = '{text}'")
        for text in ("{", "[]", "7", "null", "{}", "[" * 100_000, "NaN")
    },
    "settings without a plan": sql("UPDATE runs SET settings = json_remove(settings, '$.more.plan')"),
    "settings of wrong types": sql("UPDATE runs SET settings = json_set(settings, '$.more', 3, '$.total', 'x')"),
    "a plan of wrong types": sql("UPDATE runs SET settings = json_set(settings, '$.more.plan', 'x')"),
    "sampling of wrong types": sql("UPDATE runs SET settings = json_set(settings, '$.more.plan.sampling', 7)"),
    "an unknown policy": sql("UPDATE runs SET settings = json_set(settings, '$.more.plan.policy', 'x:y')"),
    "an unknown answer type": sql("UPDATE runs SET settings = json_set(settings, '$.more.plan.answer', 'x:y')"),
    "prompts that are no JSON": sql("UPDATE questions SET form = 2"),
    "prompts of another shape": sql("UPDATE questions SET form = 2, prompt = '[7]'"),
    "states that are no JSON": sql("INSERT OR REPLACE INTO states SELECT id, 'faults', '{' FROM runs"),
    "soft votes that are no JSON": sql("UPDATE traces SET soft = '{'"),
    "soft votes of another shape": sql("UPDATE traces SET soft = '[7]'"),
    "jobs that are no JSON": sql("INSERT INTO batch_jobs SELECT id, 'k', 1, 'e', '{', 1.0, 0, '', '', '' FROM runs"),
    "bytes for texts": sql("UPDATE questions SET prompt = x'ff00', id = CAST(id AS BLOB)"),
}
OPENING = [*READING, "runs delete {run}", "keys list", *(words for several in GOING_ON.values() for words in several)]
DRAWING = ("report", "forecast", "runs compare")  # take the longest; they read what ``runs show`` reads
FAMILIES = [list(names) for _, names in groupby(DAMAGES, lambda name: name.split()[:2])]
DRAWN = {name for family in FAMILIES for name in family[:3]}


@pytest.mark.parametrize("name", DAMAGES, ids=[name[:40] for name in DAMAGES])
def test_a_damaged_store_is_one_line_and_exit_2(plain_store, tmp_path, monkeypatch, capfd, name):
    store, intact, broken = plain_store, plain_store.read_bytes(), 0
    for session in (Engine, Stream):
        monkeypatch.setattr(session, "run", not_asked)
    for words in OPENING:
        if words.startswith(DRAWING) and name not in DRAWN:
            continue
        run = next((run for run, several in GOING_ON.items() if words in several), SOLVED)
        for leftover in tmp_path.glob("runs.db*"):
            leftover.unlink()
        store.write_bytes(intact)
        DAMAGES[name](store)
        status, _, err = run_pets(monkeypatch, capfd, [*words.format(run=run).split(), "--store", "runs.db"])
        told = err.splitlines()[-1:] if status else []
        assert status in (0, 2), (words, err)
        assert not told or told[0].startswith("pets: "), (words, err)
        broken += status == 2
    assert broken
