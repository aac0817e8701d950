"""What servers and files say is shown on a terminal, and never obeyed by it."""

import io
import json
import logging
import re
import sys

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from pets.cli import main as module
from pets.cli._chart import draw_chart
from pets.cli._groups import verb
from pets.cli._output import SafeConsole
from pets.cli._terminal import echo, messages, say, terminal_text
from pets.engine import RunSpec
from pets.engine.resume import run_record
from pets.engine.sources import Sources
from pets.errors import InputError, RefusedError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, Store, StoredTrace

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\n\u202egnp.exe"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # a line feed ends our own lines


def run_pets(monkeypatch, capfdbinary, *words):
    monkeypatch.setattr(sys, "argv", ["pets", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        module.main()
    out, err = capfdbinary.readouterr()
    return end.value.code, out.decode(), err.decode()


@given(st.text(st.characters(codec="utf-8")))
def test_nothing_steers_and_the_rest_is_as_it_was(text):
    safe = terminal_text(text)
    assert not STEERING.search(safe) and "\n" not in safe
    line = json.dumps({"a": text}, ensure_ascii=False)
    assert json.loads(terminal_text(line)) == {"a": text}
    if text.isprintable():
        assert safe == text


def test_a_servers_error(monkeypatch, capfdbinary):
    def fail(**_: object):
        raise RefusedError(f"the server says 400: {HOSTILE}")

    monkeypatch.setattr(module, "cli", fail)
    code, _, err = run_pets(monkeypatch, capfdbinary)
    assert code == 2 and not STEERING.search(err) and err.count("\n") == 1
    assert r"\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f\u000d\u000a\u202egnp.exe" in err


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "runs.db"
    with Store.open(path) as store:
        problems = [Problem(HOSTILE, Prompt("?"), "text")]
        spec = RunSpec.of(budget="4x", policy="uniform")
        with store.create(
            run_record(spec, problems, Sources(model=HOSTILE), name=HOSTILE, stored=True), problems
        ) as run:
            run.write([Launch(HOSTILE, 0)], [StoredTrace(HOSTILE, 0, HOSTILE, HOSTILE, tokens=3)])
    return path


@pytest.mark.parametrize(
    "words", ["", "show", "show --format json", "export", "export --what traces", "export --what pool"]
)
def test_the_ids_answers_and_texts_of_a_store(store, monkeypatch, capfdbinary, words):
    code, out, err = run_pets(monkeypatch, capfdbinary, "runs", *words.split(), "--store", store)
    assert code == 0 and "owned" in out
    assert not STEERING.search(out + err)


def test_the_lines_of_a_pool_that_is_bad(tmp_path, monkeypatch, capfdbinary):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"id": HOSTILE, "gold": "\x9b", "answers": [{"\x9b": HOSTILE}]}, ensure_ascii=False))
    code, out, err = run_pets(monkeypatch, capfdbinary, "pools", "check", path)
    assert code == 2 and out and not STEERING.search(out + err)


NAME = HOSTILE.replace("\n", "")  # of files and models

VERBS = [
    ["questions", "mine.jsonl"],
    ["questions", NAME],
    ["questions", "mine.jsonl", "--field", HOSTILE],
    ["pools", "show", f"{NAME}.jsonl"],
    ["pools", "show", f"{NAME}.jsonl", "--format", "jsonl"],
    ["pools", "check", f"{NAME}.jsonl", NAME],
    ["pools", "convert", f"{NAME}.jsonl", f"{NAME}.csv"],
    ["replay", f"{NAME}.jsonl", "--policy", "uniform", "--repetitions", "2", "--format", "csv"],
    ["replay", f"{NAME}.jsonl", "--policy", HOSTILE],
    ["solve", "mine.jsonl", "--model", NAME, "--endpoint", "http://127.0.0.1:9/v1", "--dry-run"],
    ["solve", "mine.jsonl", "--answer", HOSTILE],
    ["solve", "--budget"],
    ["solve", HOSTILE, HOSTILE],
    ["solve", f"--{NAME}"],
    ["solve", "mine.jsonl", "--max-traces", HOSTILE],
    ["doctor", "--model", NAME, "--endpoint", "http://127.0.0.1:9/v1"],
    ["keys", "add", NAME, "--store", "gateway.db"],
    ["runs", "--store", NAME],
    ["report", NAME],
    ["forecast", NAME],
    ["fit", "--show", NAME],
    ["--config", NAME, "runs"],
    ["--config", "pets.toml", "solve", "--help"],
    ["--config", "pets.toml", "doctor"],
    ["doctor", "--trust"],
    ["runs", "show"],
    [NAME],
]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words).encode("unicode_escape").decode())
def test_every_verb_shows_what_would_steer_a_terminal(tmp_path, monkeypatch, capfdbinary, words):
    record = {"id": HOSTILE, "prompt": HOSTILE, "answer_type": "text", "gold": HOSTILE}
    (tmp_path / "mine.jsonl").write_text(json.dumps(record), "utf-8")
    pool = {"id": HOSTILE, "gold": HOSTILE, "answers": [HOSTILE, "b", "b", HOSTILE]}
    (tmp_path / f"{NAME}.jsonl").write_text(json.dumps(pool), "utf-8")
    hostile = json.dumps(HOSTILE)  # escapes that TOML knows too
    (tmp_path / "pets.toml").write_text(f"model = {hostile}\nendpoint = {hostile}\n", "utf-8")
    monkeypatch.setattr("click.get_app_dir", lambda _: str(tmp_path / "user"))
    if words[0] not in ("--config", "doctor", "runs"):
        (tmp_path / "pets.toml").unlink()
    _, out, err = run_pets(monkeypatch, capfdbinary, *words)
    assert out + err and not STEERING.search(out + err)


def test_a_line_stays_one_line(capsys):
    echo("first\n\x1b[2Jsecond\tcell", "third")
    say(HOSTILE)
    out, err = capsys.readouterr()
    assert out == r"first\u000a\u001b[2Jsecond" + "\tcell\nthird\n"
    assert err.count("\n") == 1 and not STEERING.search(err)


def test_the_names_in_a_chart():
    lines = {name: ([1.0, 2.0], [0.5, 0.9]) for name in (HOSTILE, "okg")}
    assert not STEERING.search(draw_chart("curves", lines, 80, colour=False))


def test_a_table():
    file = io.StringIO()
    table = Table("id")
    table.add_row(HOSTILE)
    console = SafeConsole(file=file, width=200, markup=False)
    console.print(table)
    console.print(HOSTILE)
    assert "owned" in file.getvalue() and not STEERING.search(file.getvalue())


KEY = "sk-0123456789abcdef"


@verb()
def talk() -> None:
    """Talk."""
    click.echo("data")
    click.echo("words", err=True)
    logging.getLogger("pets").info("POST %s", f"http://user:{KEY}@host/v1?key={KEY}")
    logging.getLogger("pets.engine").warning("tried %s", "again\x1b[2J")


def run(*words):
    return CliRunner().invoke(talk, words, env={"MY_API_KEY": KEY})


def test_without_options_words_are_shown_and_logs_are_not():
    result = run()
    assert (result.stdout, result.stderr) == ("data\n", "words\n")


def test_verbose_shows_requests_without_keys():
    lines = run("-v").stderr.splitlines()
    assert lines[0] == "words"
    assert lines[1].endswith("POST http://[redacted]@host/v1?key=[redacted]") and lines[2].endswith(
        r"tried again\u001b[2J"
    )


def test_quiet_says_nothing_and_keeps_the_data():
    result = run("-q")
    assert (result.stdout, result.stderr) == ("data\n", "")


def test_the_log_file_has_lines_of_json_without_keys_and_grows(tmp_path):
    log = tmp_path / "pets.log"
    assert run("-q", "--log-file", str(log)).exit_code == run("--log-file", str(log)).exit_code == 0
    assert KEY not in log.read_text()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["level"] for row in rows] == ["info", "warning"] * 2
    assert rows[1]["message"].startswith("tried again")


def test_what_cannot_be_is_one_line():
    with pytest.raises(InputError, match="-v and -q exclude each other"), messages(verbose=True, quiet=True):
        pass
    assert "--log-file" in str(run("--log-file", "/no/such/folder/x.log").exception)


def test_afterwards_logging_is_as_it_was():
    before = logging.getLogger("pets").level, logging.getLogger("pets").handlers[:]
    run("-v")
    assert (logging.getLogger("pets").level, logging.getLogger("pets").handlers) == before
