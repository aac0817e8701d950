"""``pets``: one verb per file; words on stderr, data on stdout; a user's mistake is one line and exit 2."""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from pets._version import __version__
from pets.cli._config_file import ConfigFile
from pets.cli._spelling import SuggestingGroup
from pets.cli._terminal import say
from pets.errors import PetsError

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

INTERRUPTED = 130  # the exit code after Ctrl-C, as a shell expects it


class LazyGroup(SuggestingGroup):
    """Verbs that are imported when they are called: numpy and scipy alone take a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs' names."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, imported."""
        if cmd_name not in VERBS:
            return None
        verb: click.Command = getattr(importlib.import_module(f"pets.cli.{cmd_name}"), cmd_name)
        return verb

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; Ctrl-C means the same for every one."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("", "Stopped.")
            ctx.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs that a newcomer needs, then the others; none of them is imported."""
        others = sorted(set(VERBS) - set(FIRST_VERBS))
        for title, names in (("Start with", FIRST_VERBS), ("Then", others)):
            with formatter.section(title):
                formatter.write_dl([(name, VERBS[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs that begin so, none of them imported."""
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
    context.obj = ConfigFile.find(VERBS) if config is None else ConfigFile.read(config, VERBS)


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
    except click.Abort:
        say("", "Stopped.")
        sys.exit(INTERRUPTED)
    except PetsError as error:
        say(f"pets: {error!s}")
        sys.exit(2)
    sys.exit(status or 0)
