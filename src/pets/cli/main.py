"""``pets``: one verb per file; words on stderr, data on stdout; a user's mistake is one line and exit 2.

A former spelling (``former.toml``) prints its successor, a mistyped word what was meant; nothing of the line is run.
"""

import difflib
import importlib
import os
import shlex
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from pets._version import __version__
from pets.cli._config_file import FILE_NAME, ConfigFile, trusted_files
from pets.cli._terminal import say
from pets.errors import InputError, PetsError

VERBS: Mapping[str, str] = {
    "demo": "Show what okg saves, recorded and live.",
    "doctor": "Look at a server before a run: what works, what to change.",
    "fit": "Make a plan for a stream from a recorded pool; draw one.",
    "forecast": "Say what budget reaches 99 %, from a run or a pool.",
    "keys": "Make, list and revoke the keys of a gateway.",
    "mock": "Serve an OpenAI-compatible endpoint to test against.",
    "next": "Say what is uncertain in a run, why, and what to do.",
    "pools": "Show, check, convert recorded pools; print questions.",
    "replay": "Compare policies on recorded answers.",
    "report": "Write a page about a run, or about a replay.",
    "resume": "Go on with a run, with more budget if asked.",
    "runs": "List, show, compare, export, cancel and delete runs.",
    "sample": "Record traces of every question as a pool.",
    "serve": "Serve a gateway that answers by vote.",
    "solve": "Answer questions under a budget, live.",
    "stream": "Answer questions as they arrive, within a budget.",
}
"""What each verb does: `pets --help` prints this without importing any of them."""

FIRST_VERBS = ("demo", "doctor", "solve", "serve", "replay", "report")
"""The verbs that a newcomer needs, in the order of a first hour."""

TERMS = """
\b
Words used here:
  trace        one answer of the model to one question, reasoning included
  policy       the rule that decides which question gets the next trace
  okg          the policy for files of questions: the next trace goes where it
               is expected to change the vote most
  uniform      the policy to compare with: as many traces for every question
  self-consistency
               the share of questions whose vote over few traces is the vote
               over infinitely many
  certificate  the probability that an answer is that vote
  pool         recorded traces of a set of questions, for `replay` and `fit`
  plan         what `fit` learns from a pool, for `stream` and `serve`
"""

FORMER = tomllib.loads(files(__package__).joinpath("former.toml").read_text("utf-8"))
COMMANDS: Mapping[str, str] = FORMER["commands"]
"""Former commands and what to type instead; ``...`` stands for the words that followed."""
OPTIONS: Mapping[str, str] = FORMER["options"]
"""Former options, of one command or of any, and what replaced them."""
INTERRUPTED = 130  # the exit code after Ctrl-C, as a shell expects it


class SuggestingGroup(click.Group):
    """Commands; a former one is answered with its successor, a mistyped one with what was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's; an unknown word is answered with its successor or the nearest command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            words = [*ctx.command_path.split()[1:], *args]
            for former, rest in ((" ".join(words[:length]), words[length:]) for length in (2, 1)):
                if former in COMMANDS:
                    for at in range(1, len(rest)):
                        if former == "top-up" and rest[at - 1] == "--budget" and rest[at][0] not in "+=":
                            rest[at] = f"+{rest[at]}"  # more budget is written so today
                    successor = COMMANDS[former].replace("...", shlex.join(rest))
                    raise click.UsageError(f"`pets {former}` is now: pets {successor}".rstrip(), ctx) from None
            if close := difflib.get_close_matches(args[0], self.list_commands(ctx), 1):
                raise click.UsageError(f"{error.message} Did you mean {close[0]}?", ctx) from None
            raise


class LazyGroup(SuggestingGroup):
    """Verbs that are imported when they are called: numpy and scipy alone take a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        verb: click.Command = getattr(importlib.import_module(f"pets.cli.{cmd_name}"), cmd_name)
        return verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs for a newcomer, then the others, without importing them."""
        others = sorted(set(VERBS) - set(FIRST_VERBS))
        for title, names in (("Start with", FIRST_VERBS), ("Then", others)):
            with formatter.section(title):
                formatter.write_dl([(name, VERBS[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the verbs' names without importing them."""
        names = [CompletionItem(name, help=VERBS[name]) for name in sorted(VERBS) if name.startswith(incomplete)]
        return names or super().shell_complete(ctx, incomplete)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "PETS"}, epilog=TERMS
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file of options; pets.toml here or in a folder above, if not given.",
)
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context, config: Path | None) -> None:
    """PETS spends a self-consistency sampling budget where it changes the vote.

    A model is asked each question several times, and the answers vote. PETS decides which question deserves the next
    try, under a budget. Start with: pets demo
    """
    context.obj = find_config(VERBS) if config is None else ConfigFile.read(config, VERBS)


def find_config(verbs: Iterable[str]) -> ConfigFile | None:
    """The file of options in the current folder or the nearest one above it; another user's is refused."""
    try:
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (path := folder / FILE_NAME).is_file():
                break
        else:
            return None
        owner = path.stat().st_uid
    except OSError:  # the folder is gone, or one above it is closed to us
        return None
    if hasattr(os, "getuid") and owner not in (0, os.getuid()):
        raise InputError(f'"{path}" belongs to another user. To use it all the same: --config "{path}".')
    file = ConfigFile.read(path, verbs)
    return replace(file, trusted=trusted_files().get(str(path)) == file.digest)


def main() -> None:
    """The ``pets`` entry point."""
    try:
        status = cli(prog_name="pets", standalone_mode=False)  # also where `python -m pets` was typed
    except click.exceptions.NoArgsIsHelpError as error:
        say(*error.format_message().split("\n"))
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = "pets" if context is None else context.command_path
        words = error.format_message()
        remedy = "" if " is now" in words or "Did you mean" in words else f" `{path} --help` explains."
        say(f"{path}: {words}{remedy}")
        sys.exit(error.exit_code)
    except click.Abort:  # Ctrl-C, after which click ended the line
        say("Stopped.")
        sys.exit(INTERRUPTED)
    except PetsError as error:
        say(f"pets: {error!s}")
        sys.exit(2)
    sys.exit(status or 0)
