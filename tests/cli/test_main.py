"""The command itself: its start, its list of verbs, and what happens to a user's mistake."""

import subprocess
import sys
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from pets.cli.main import VERBS, cli

HEAVY = ("numpy", "scipy", "httpx", "rich", "pets.core", "pets.cli.solve")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pets", *words], check=False, capture_output=True, text=True)


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_import_no_verb(word):
    code = (
        f"import sys; from pets.cli.main import cli; cli([{word!r}], prog_name='pets', standalone_mode=False); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert out.stdout.splitlines()[-1] == "[]", out.stderr


def test_the_version_is_the_distributions():
    assert run("--version").stdout.split()[-1] == version("pets")


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_verb_is_listed_with_a_sentence_and_has_help(name):
    verb = cli.get_command(click.Context(cli), name)
    assert verb is not None and verb.name == name
    assert VERBS[name].endswith(".") and len(VERBS[name]) < 60
    listed = CliRunner().invoke(cli, ["--help"]).output
    assert f"  {name} " in listed and VERBS[name] in listed
    assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0


def test_verbs_are_completed_without_importing_them():
    names = [item.value for item in cli.shell_complete(click.Context(cli), "so")]
    assert names == ["solve"]
    assert [item.value for item in cli.shell_complete(click.Context(cli), "--ver")] == ["--version"]


def test_a_mistake_is_one_line_and_exit_2():
    out = run("questions", "no-such-set")
    assert out.returncode == 2 and out.stderr.startswith("pets: ") and out.stderr.count("\n") == 1
    unknown = run("slove")
    assert unknown.returncode == 2 and "No such command 'slove'" in unknown.stderr
