"""``-v``, ``-q`` and ``--log-file``: what is said, where, and without keys."""

import json
import logging

import click
import pytest
from click.testing import CliRunner

from pets.cli._groups import verb
from pets.cli._messages import Messages
from pets.errors import InputError

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
    with pytest.raises(InputError, match="-v and -q exclude each other"), Messages(verbose=True, quiet=True).applied():
        pass
    assert "--log-file" in str(run("--log-file", "/no/such/folder/x.log").exception)


def test_afterwards_logging_is_as_it_was():
    before = logging.getLogger("pets").level, logging.getLogger("pets").handlers[:]
    run("-v")
    assert (logging.getLogger("pets").level, logging.getLogger("pets").handlers) == before
