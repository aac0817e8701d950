"""Words that are no longer, or were never, part of the command line: each is answered with the one to type instead.

A former spelling prints its successor and exits 2; nothing of the line is run.
"""

import difflib
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files

import click

FORMER = tomllib.loads(files(__package__).joinpath("former.toml").read_text("utf-8"))
COMMANDS: Mapping[str, str] = FORMER["commands"]
"""Former commands and what to type instead; ``...`` stands for the words that followed."""
OPTIONS: Mapping[str, str] = FORMER["options"]
"""Former options, of one command or of any, and what replaced them."""


def former_option(command: str, option: str) -> str | None:
    """What replaced an option of a command, ``runs export`` for one; ``None`` where there was none of that name.

    >>> former_option("stream", "--window"), former_option("sample", "--at-once"), former_option("solve", "--budjet")
    ('--budget-window', '--open-questions', None)
    """
    return OPTIONS.get(f"{command} {option}", OPTIONS.get(option))


def former_command(words: Sequence[str]) -> str | None:
    """What to type instead of a line that begins with a former command; a budget to add is written as one.

    >>> former_command(["top-up", "last", "--budget", "12x"])
    '`pets top-up` is now: pets resume last --budget +12x'
    """
    for length in (2, 1):
        former, rest = " ".join(words[:length]), list(words[length:])
        if (successor := COMMANDS.get(former)) is None:
            continue
        for at, word in enumerate(rest[1:], 1):
            if former == "top-up" and rest[at - 1] == "--budget" and word[0] not in "+=":
                rest[at] = f"+{word}"
        return f"`pets {former}` is now: pets {successor.replace('...', shlex.join(rest))}".rstrip()
    return None


class SuggestingGroup(click.Group):
    """Commands; a former one is answered with its successor, a mistyped one with what was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but for words that name no command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if (successor := former_command([*ctx.command_path.split()[1:], *args])) is not None:
                raise click.UsageError(successor, ctx) from None
            if close := difflib.get_close_matches(args[0], self.list_commands(ctx), 1):
                raise click.UsageError(f"{error.message} Did you mean {close[0]}?", ctx) from None
            raise
