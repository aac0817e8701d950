"""The command itself: its start, its list of verbs, and what happens to a user's mistake."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from pets import __version__
from pets.cli.main import VERBS, cli, main

from ..command import pets

HEAVY = ("numpy", "scipy", "aiohttp", "rich", "pets.core", "pets.cli.solve")


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_import_no_verb(word):
    code = (
        f"import sys; from pets.cli.main import cli; cli([{word!r}], prog_name='pets', standalone_mode=False); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert out.stdout.splitlines()[-1] == "[]", out.stderr


def test_the_version_is_the_packages():
    assert pets("--version").stdout.split()[-1] == __version__


def test_python_m_pets_is_the_command():
    out = subprocess.run([sys.executable, "-m", "pets", "--version"], check=False, capture_output=True, text=True)
    assert out.stdout == f"pets, version {__version__}\n"


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_verb_is_listed_with_a_sentence_and_has_help(name):
    verb = cli.get_command(click.Context(cli), name)
    assert verb is not None and verb.name == name
    assert VERBS[name].endswith(".") and len(VERBS[name]) < 60
    listed = CliRunner().invoke(cli, ["--help"]).output
    assert f"  {name} " in listed and VERBS[name] in listed
    assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0


def commands(name, command):
    below = command.commands.items() if isinstance(command, click.Group) else []
    return [(name, command), *((f"{name} {key}", sub) for key, sub in below)]


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_option_is_explained_by_a_sentence(name):
    for words, command in commands(name, cli.get_command(click.Context(cli), name)):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                text = parameter.help or ""
                assert text and text[0].isupper() and text.endswith((".", "]")), f"{words} {parameter.opts}: {text!r}"
                assert not text.startswith("Of "), f"{words} {parameter.opts}: {text}"


def test_verbs_are_completed_without_importing_them():
    names = [item.value for item in cli.shell_complete(click.Context(cli), "so")]
    assert names == ["solve"]
    assert [item.value for item in cli.shell_complete(click.Context(cli), "--ver")] == ["--version"]


def test_ctrl_c_means_the_same_for_every_verb(monkeypatch, capsys):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pets.cli.demo.load", interrupted)
    monkeypatch.setattr(sys, "argv", ["pets", "demo"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130 and capsys.readouterr().err == "\nStopped.\n"


def test_a_mistake_is_one_line_and_exit_2():
    out = pets("pools", "questions", "no-such-set")
    assert out.returncode == 2 and out.stderr.startswith("pets: ") and out.stderr.count("\n") == 1
    unknown = pets("slove")
    assert unknown.returncode == 2 and "No such command 'slove'" in unknown.stderr
