"""Option groups: a dataclass becomes options, the verb gets one object, help has a section each."""

from pathlib import Path
from typing import Literal

import click
import pytest
from click.testing import CliRunner

from pets.arguments import Interval
from pets.cli._groups import (
    Verb,
    VerbGroup,
    named_options,
    option,
    option_group,
    refuse_named,
    verb,
    verb_group,
)
from pets.cli.main import VERBS, cli


@option_group("Draws")
class DrawOptions:
    seed: int = option("The same seed gives the same table.", 0, at_least=0)
    rate: float | None = option("How often it happens.", within=Interval(0, 1))
    policies: tuple[str, ...] = option("A policy; give it again for more.", (), flags=("--policy",))
    form: Literal["table", "json"] = option("What stdout gets.", "table", flags=("--format",))


@option_group("Files")
class FileOptions:
    output: Path = option("The file to write.", flags=("-o", "--output"), required=True)
    silent: bool = option("Say nothing.", False)
    checks: bool = option("Check first.", True)
    depth: int = option("How deeply it is checked.", 1, needs="where")
    where: str | None = option("Where it is checked.", alone="")


@verb()
@click.argument("name")
def compare(name: str, draws: DrawOptions, files: FileOptions) -> None:
    """Compare."""
    click.echo(f"{name} {draws} {files}")


@verb()
def delete(draws: DrawOptions, texts: bool = option("Delete the texts alone.", False)) -> None:
    """Delete."""
    click.echo(f"{draws.seed} {texts}")


@verb_group()
def several() -> None:
    """Two commands."""


@several.verb("first")
def one_of_them(draws: DrawOptions) -> None:
    """The first."""
    click.echo(str(draws.seed))


def run(command: click.Command, *words: str) -> str:
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def refused(command: click.Command, *words: str) -> str:
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2
    return result.stderr.splitlines()[-1]


def test_a_verb_gets_one_typed_object_per_group():
    draws, files = DrawOptions(), FileOptions(Path("x"))
    assert run(compare, "n", "-o", "x") == f"n {draws} {files}"
    draws = DrawOptions(7, 0.5, ("a", "b"), "json")
    files = FileOptions(Path("y"), silent=True, checks=False)
    words = ["--policy", "a", "--seed", "7", "--format", "json", "--silent", "--no-checks", "--rate", "0.5"]
    assert run(compare, "n", "--output", "y", "--policy", "a", *words[2:], "--policy", "b") == f"n {draws} {files}"


def test_an_option_that_stands_alone_is_a_parameter():
    assert run(delete) == "0 False" and run(delete, "--texts", "--seed", "3") == "3 True"
    assert "Options:\n  --texts  Delete the texts alone." in run(delete, "--help")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing option '-o' / '--output'"),
        (["-o", "x", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["-o", "x", "--rate", "2"], "2.0 is not in the range 0<=x<=1"),
        (["-o", "x", "--rate", "often"], "'often' is not a valid number."),
        (["-o", "x", "--seed", "1.5"], "'1.5' is not a valid integer."),
        (["-o", "x", "--format", "xml"], "'xml' is not one of 'table', 'json'"),
        (["-o", "x", "--sed", "1"], "No such option"),
        (["-o", "x", "--max-per-question=3"], "Error: --max-per-question is now --max-traces."),
    ],
)
def test_a_mistake_is_named(words, message):
    assert message in refused(compare, "n", *words)


def test_an_option_that_needs_another_is_refused_without_it():
    result = CliRunner().invoke(compare, ["n", "-o", "x", "--depth", "1"])
    assert str(result.exception) == "--depth is read with --where alone: add --where, or leave --depth out."
    for words in (["--depth", "1", "--where", "here"], ["--depth", "1", "--where"], ["--where"], []):
        run(compare, "n", "-o", "x", *words)


def test_options_that_a_way_of_calling_does_not_read_are_refused_by_the_name_that_was_typed():
    @verb()
    def narrow(draws: DrawOptions, files: FileOptions) -> None:
        """Takes a seed and a file."""
        refuse_named("This goes by its seed", *(named_options().keys() - {"seed", "output"}))

    run(narrow, "-o", "x", "--seed", "3")
    result = CliRunner().invoke(narrow, ["-o", "x", "--no-checks", "--policy", "a"])
    assert str(result.exception) == "This goes by its seed: leave out --policy, --no-checks."


def test_help_has_a_section_per_group_and_says_defaults():
    text = run(compare, "--help")
    sections = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert sections == ["Draws:", "Files:", "Other:"]
    words = " ".join(text.split())
    assert "--seed N The same seed gives the same table. [default: 0; x>=0]" in words
    assert "--silent Say nothing. --checks / --no-checks Check first. [default: checks]" in words


def test_a_group_of_verbs_has_verbs():
    assert isinstance(several, VerbGroup) and isinstance(several.commands["first"], Verb)
    assert run(several, "first", "--seed", "3") == "3"
    assert "first" in run(several, "--help")


def commands(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
    below = command.commands.items() if isinstance(command, click.Group) else []
    return [(name, command), *((f"{name} {key}", sub) for key, sub in below)]


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_option_is_explained_by_a_sentence(name):
    verb = cli.get_command(click.Context(cli), name)
    for words, command in commands(name, verb):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                text = parameter.help or ""
                assert text and text[0].isupper() and text.rstrip().endswith((".", "]")), f"{words}: {parameter.opts}"
                assert not text.startswith("Of "), f"{words} {parameter.opts}: {text}"
