"""The command line as a page: every command with its help, every option under its group."""

import inspect
import re
from collections.abc import Iterator

import click

from pets.cli.main import VERBS, cli
from scripts.docs.markdown import plain_text, table

SHARED_OPTIONS = ("verbose", "quiet", "log_file", "help", "help_all")
"""Options that every command has; told once."""
HEAD = ("option", "what it does")
INTRODUCTION = """\
# The command line

Made from the parser itself: what `pets COMMAND --help` prints. Data goes to stdout, words to stderr. Exit code 0: done;
1: a run that answered nothing or a check that failed; 2: a mistake in the command, told in one line; 130: stopped by
Ctrl-C.
Every option can also stand in the environment or in a file: [Options without typing them](../configuration.md).
"""


def commands(group: click.Group = cli, path: str = "pets") -> Iterator[tuple[str, click.Command]]:
    """Every command with its path, ``pets runs show``; a group before its commands."""
    yield path, group
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def cli_page() -> str:
    """The page, in Markdown."""
    verbs = [(f"[`pets {name}`](#pets-{name})", words) for name, words in sorted(VERBS.items())]
    sections = [_section(path, command) for path, command in commands()]
    everywhere = ["## Every command", "Beside its own options every command has these:", table(HEAD, _shared_rows())]
    return "\n\n".join([INTRODUCTION, table(("command", "what it does"), verbs), *sections, *everywhere]) + "\n"


def _section(path: str, command: click.Command) -> str:
    context = _context(command, path)
    parts = [f"{'##' if path.count(' ') < 2 else '###'} {path}"]
    parts.append(f"```text\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```")
    parts.extend(_paragraphs(command.help or ""))
    for title, rows in _options(command, context).items():
        parts += [f"**{title}**", table(HEAD, rows)]
    return "\n\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    r"""A help text's paragraphs; those that click leaves as they are (``\b``) are blocks of code."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text.partition("\f")[0])):
        if paragraph.startswith("\b"):
            yield "```text\n" + inspect.cleandoc(paragraph.removeprefix("\b").strip("\n")) + "\n```"
        else:
            yield plain_text(" ".join(paragraph.split()))


def _options(command: click.Command, context: click.Context) -> dict[str, list[tuple[str, str]]]:
    groups: dict[str, list[click.Parameter]] = {}
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and parameter.name not in SHARED_OPTIONS:
            groups.setdefault(getattr(parameter, "title", "Options"), []).append(parameter)
    return {title: _rows(parameters, context) for title, parameters in groups.items()}


def _shared_rows() -> list[tuple[str, str]]:
    command = next(command for path, command in commands() if path == "pets solve")
    context = _context(command, "pets solve")
    return _rows([option for option in command.get_params(context) if option.name in SHARED_OPTIONS], context)


def _context(command: click.Command, path: str) -> click.Context:
    return click.Context(command, info_name=path, auto_envvar_prefix="PETS", help_option_names=["-h", "--help"])


def _rows(parameters: list[click.Parameter], context: click.Context) -> list[tuple[str, str]]:
    records = [parameter.get_help_record(context) for parameter in parameters]
    return [(f"`{name}`", plain_text(" ".join(words.split()))) for name, words in filter(None, records)]
