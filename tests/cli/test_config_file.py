"""``pets.toml`` and the environment: where options come from that nobody typed, and what is said about mistakes."""

import os
from dataclasses import dataclass, fields
from typing import ClassVar

import click
import pytest
from click.testing import CliRunner

from pets.cli._config_file import SHARED, ConfigFile
from pets.cli._groups import option, verb, verb_group
from pets.cli.main import VERBS, cli
from pets.cli.options import LocalModelOptions, ModelOptions, SamplingOptions
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class AskOptions:
    title: ClassVar[str] = "Ask"

    first: int = option("How many.", 9)
    endpoint: str = option("Where.", "here")
    models: tuple[str, ...] = option("Which; give it again for more.", (), flags=("--model",))
    stored: bool = option("Whether it is kept.", True, flags=("--store/--no-store",))


@dataclass(frozen=True, slots=True)
class ServeOptions:
    title: ClassVar[str] = "Serve"

    model: str | None = option("Which.")


@verb()
def ask(asking: AskOptions) -> None:
    """Ask."""
    click.echo(f"{asking.first} {asking.models} {asking.stored}")


@verb_group()
def several() -> None:
    """Several."""


@several.verb()
def tell(asking: AskOptions) -> None:
    """Tell."""
    click.echo(f"{asking.first}")


group = click.Group(commands=[ask, several], context_settings={"auto_envvar_prefix": "PETS"})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


def run(*words, **environment):
    file = ConfigFile.find(["ask", "several"])
    return CliRunner().invoke(group, words, env=environment, obj=file)


def options_of(name):
    command = cli.get_command(click.Context(cli), name)
    return {option.opts[-1].lstrip("-") for option in command.params if isinstance(option, click.Option)}


def test_the_nearest_file_above_is_found_and_told(folder):
    (folder / "pets.toml").write_text("[ask]\nfirst = 1\n")
    (folder / "below" / "pets.toml").write_text('[ask]\nfirst = 2\nmodel = "m"\nstore = false\n')
    result = run("ask")
    assert result.stdout == "2 ('m',) False\n"
    assert result.stderr == f"--first, --model, --store: as {folder / 'below' / 'pets.toml'} says.\n"


def test_the_command_line_comes_before_the_environment_and_that_before_the_file(folder):
    (folder / "pets.toml").write_text('[ask]\nfirst = 1\nmodel = ["a", "b"]\n')
    assert run("ask").stdout == "1 ('a', 'b') True\n"
    environment = {"PETS_ASK_FIRST": "2", "PETS_ASK_MODEL": "c", "PETS_ASK_STORE": "0"}
    assert run("ask", **environment).stdout == "2 ('c',) False\n"
    assert run("ask", "--first", "3", "--model", "d", "--store", **environment).stdout == "3 ('d',) True\n"


def test_a_command_below_a_verb_has_a_table_of_its_own(folder):
    (folder / "pets.toml").write_text("[several.tell]\nfirst = 4\n")
    assert run("several", "tell").stdout == "4\n"
    assert run("several", "tell", PETS_SEVERAL_TELL_FIRST="5").stdout == "5\n"


def test_an_option_above_all_tables_is_every_verbs_that_has_it(folder):
    (folder / "pets.toml").write_text('model = "m"\nseed = 3\n[ask]\nmodel = "n"\n')
    assert run("ask").stdout == "9 ('n',) True\n"
    assert "--model" in run("several", "tell").stderr


def test_a_folder_that_is_gone_holds_no_file(folder):
    (folder / "below").rmdir()
    assert ConfigFile.find(VERBS) is None


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[ask]\nfrist = 1\n", r'\[ask\] has no option "frist". Did you mean first\?'),
        ("[aks]\n", r"\[aks\] is no verb. Did you mean ask\?"),
        ("first = 3\n", r'"first" is no option of several verbs. Put it under its verb: \[solve\], then first = ...'),
        ("modle = 3\n", r'"modle" is no option of several verbs. Did you mean model\?'),
        ("[ask", r"is not TOML"),
        ("[ask.show]\n", r"\[ask.show\] is no command"),
    ],
)
def test_a_mistake_in_the_file_is_one_clear_line(folder, text, mistake):
    (folder / "pets.toml").write_text(text)
    with pytest.raises(InputError, match=mistake):
        raise run("ask").exception


def test_a_wrong_value_says_where_it_comes_from(folder):
    (folder / "pets.toml").write_text('[ask]\nfirst = "many"\n')
    result = run("ask")
    assert result.exit_code == 2 and f'It stands in "{folder / "pets.toml"}".' in result.stderr
    result = run("ask", PETS_ASK_FIRST="few")
    assert result.exit_code == 2 and "'few'" in result.stderr and "It comes from PETS_ASK_FIRST." in result.stderr


def test_help_shows_the_files_values(folder):
    (folder / "pets.toml").write_text("[ask]\nfirst = 7\n")
    assert "[default: 7]" in run("ask", "--help").stdout


def test_the_command_takes_the_nearest_file_or_the_one_that_is_named(folder):
    (folder / "pets.toml").write_text('[pools.show]\nformat = "json"\n')
    (folder / "other.toml").write_text("")
    words = ("pools", "show", "starter")
    assert CliRunner().invoke(cli, words).stdout.startswith("{")
    assert not CliRunner().invoke(cli, ["--config", "../other.toml", *words]).stdout.startswith("{")
    assert not CliRunner().invoke(cli, words, env={"PETS_CONFIG": "../other.toml"}).stdout.startswith("{")
    with pytest.raises(InputError, match=r'"none\.toml" cannot be read'):
        raise CliRunner().invoke(cli, ["--config", "none.toml", *words]).exception


def test_another_users_file_is_refused_unless_it_is_named(folder, monkeypatch):
    path = folder / "pets.toml"
    path.write_text("")
    if os.getuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(InputError, match="belongs to another user"):
        ConfigFile.find(VERBS)
    assert ConfigFile.read(path, VERBS).content == {}


@verb()
def serve(serving: ServeOptions) -> None:
    """Serve."""
    click.echo(str(serving.model))


def test_what_is_above_all_tables_is_for_verbs_that_ask_a_model(folder):
    (folder / "pets.toml").write_text('model = "m"\n')
    group.add_command(serve)
    assert run("serve").stdout == "None\n" and "m" in run("ask").stdout


def test_shared_options_are_those_of_asking_a_model():
    own = {name for group in (ModelOptions, SamplingOptions, LocalModelOptions) for name in names_of(group)}
    assert own <= SHARED
    asking = [options_of(verb) for verb in VERBS if "endpoint" in options_of(verb)]
    assert [name for name in sorted(SHARED) if sum(name in options for options in asking) < 2] == []


def names_of(options):
    return {name.replace("_", "-") for name in (spec.name for spec in fields(options))}
