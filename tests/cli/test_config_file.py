"""``pets.toml`` and the environment: where options come from that nobody typed, and what is said about mistakes."""

import os
import shutil
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import click
import pytest
from click.testing import CliRunner

from pets.cli._config_file import HARMLESS, SHARED, ConfigFile
from pets.cli._groups import option, verb, verb_group
from pets.cli.main import VERBS, cli, find_config
from pets.cli.options import ModelOptions
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
    (tmp_path / "below" / "pool.jsonl").write_text('{"id": "a", "gold": "A", "answers": ["A", "B"]}\n')
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setattr(click, "get_app_dir", lambda _: str(tmp_path / "user"))
    return tmp_path


def run(*words, **environment):
    file = find_config(["ask", "several"])
    return CliRunner().invoke(group, words, env=environment, obj=replace(file, trusted=True))


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
    shutil.rmtree(folder / "below")
    assert find_config(VERBS) is None


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
    (folder / "pets.toml").write_text('[pools.show]\nformat = "csv"\n')
    (folder / "other.toml").write_text("")
    words = ("pools", "show", "pool.jsonl")
    assert not CliRunner().invoke(cli, words).stdout.startswith("{")
    assert CliRunner().invoke(cli, ["--config", "../other.toml", *words]).stdout.startswith("{")
    assert CliRunner().invoke(cli, words, env={"PETS_CONFIG": "../other.toml"}).stdout.startswith("{")
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
        find_config(VERBS)
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
    own = set(names_of(ModelOptions))
    assert own <= SHARED
    asking = [options_of(verb) for verb in VERBS if "endpoint" in options_of(verb)]
    assert [name for name in sorted(SHARED) if sum(name in options for options in asking) < 2] == []


def commands(command, *words):
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *words, name)


EVERY_COMMAND = [
    (words, [option for option in command.params if isinstance(option, click.Option)])
    for verb in VERBS
    for words, command in commands(cli.get_command(click.Context(cli), verb), verb)
]


@pytest.mark.parametrize(("words", "options"), EVERY_COMMAND, ids=[".".join(words) for words, _ in EVERY_COMMAND])
def test_a_file_that_was_found_sets_what_is_harmless_and_is_refused_for_the_rest(folder, words, options):
    for each in options:
        name = each.opts[-1].lstrip("-")
        (folder / "pets.toml").write_text(f'[{".".join(words)}]\n{name} = "x"\n')
        file = find_config(VERBS)
        if name in HARMLESS:
            file.check_trusted()
            kind = each.type
            closed = each.is_flag or isinstance(kind, click.Choice | click.IntRange | click.FloatRange)
            assert closed or kind in (click.INT, click.FLOAT) or name in ("budget", "rpm"), f"{name} can name anything"
        else:
            with pytest.raises(InputError, match=f"sets {'.'.join(words)}.{name}, which may name servers"):
                file.check_trusted()
        ConfigFile.read(folder / "pets.toml", VERBS).check_trusted()  # named with --config


def test_every_harmless_option_is_one():
    assert {option.opts[-1].lstrip("-") for _, options in EVERY_COMMAND for option in options} >= HARMLESS


@pytest.mark.parametrize("line", ["pools show pool.jsonl", "runs", "solve", "doctor", "keys list"])
def test_a_file_that_was_found_is_refused_as_a_whole_by_every_verb(folder, line):
    """Also where the verb has no such option: half a file is not taken."""
    (folder / "pets.toml").write_text('[solve]\nseed = 1\n[serve]\nheader = "a: b"\n[doctor]\ntrust = true\n')
    result = CliRunner().invoke(cli, line.split())
    assert isinstance(result.exception, InputError) and "sets serve.header" in str(result.exception)
    assert not result.stdout
    named = CliRunner().invoke(cli, ["--config", "../pets.toml", "pools", "show", "pool.jsonl"])
    assert named.exit_code == 0


def test_help_is_there_before_a_file_is_trusted(folder):
    (folder / "pets.toml").write_text('endpoint = "http://there/v1"\n')
    assert "--trust" in CliRunner().invoke(cli, ["doctor", "--help"]).stdout


def test_a_file_is_trusted_as_it_is_and_where_it_is(folder, monkeypatch):
    (folder / "pets.toml").write_text('endpoint = "http://there/v1\\u001b"\n')
    show = ["pools", "show", "pool.jsonl"]
    result = CliRunner().invoke(cli, ["doctor", "--trust"])
    assert result.exit_code == 0 and r"endpoint = 'http://there/v1\x1b'" in result.stderr
    kept = folder / "user" / "trusted.json"
    assert kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700
    assert CliRunner().invoke(cli, show).exit_code == 0
    (folder / "pets.toml").rename(folder / "below" / "pets.toml")
    assert isinstance(CliRunner().invoke(cli, show).exception, InputError)
    (folder / "below" / "pets.toml").rename(folder / "pets.toml")
    assert CliRunner().invoke(cli, show).exit_code == 0
    (folder / "pets.toml").write_text('endpoint = "http://elsewhere/v1"\n')
    assert isinstance(CliRunner().invoke(cli, show).exception, InputError)


def test_what_is_kept_of_trust_and_is_damaged_trusts_nothing(folder):
    (folder / "pets.toml").write_text('endpoint = "http://there/v1"\n')
    (folder / "user").mkdir()
    for text in ("[]", "{", '{"a": 1}'):
        (folder / "user" / "trusted.json").write_text(text)
        assert not find_config(VERBS).trusted


def test_nothing_to_trust_is_said(folder):
    result = CliRunner().invoke(cli, ["doctor", "--trust"])
    assert isinstance(result.exception, InputError) and "nothing to trust" in str(result.exception)


def names_of(options):
    return {name.replace("_", "-") for name in (spec.name for spec in fields(options))}
