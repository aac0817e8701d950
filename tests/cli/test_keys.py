"""``pets keys`` from the shell."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import InputError

MAIN = [sys.executable, "-m", "pets"]


def test_keys_are_listed_and_revoked(tmp_path):
    def run(*words):
        return CliRunner().invoke(cli, ["keys", *words, "--store", str(tmp_path / "g.db")])

    assert run("add", "alice", "--budget", "50", "--admin").output.startswith("pets-")
    assert run("list").output.split("\t")[2] == "budget 50, admin\n"
    assert run("revoke", "alice").exit_code == 0 and "revoked" in run("list").output
    assert isinstance(run("revoke", "alice").exception, InputError)
    assert isinstance(run("add", "a b").exception, InputError)


@pytest.mark.parametrize("words", [["list"], ["revoke", "alice"]])
def test_a_store_that_is_not_there_is_not_made(tmp_path, words):
    store = tmp_path / "typo.db"
    made = subprocess.run([*MAIN, "keys", *words, "--store", str(store)], capture_output=True, text=True, check=False)
    assert made.returncode == 2 and made.stdout == "" and len(made.stderr.splitlines()) == 1
    assert "typo.db" in made.stderr and "no such file" in made.stderr and not list(tmp_path.iterdir())
