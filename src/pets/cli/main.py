"""``pets``: one verb per file; words on stderr, data on stdout; a user's mistake is one line and exit 2."""

import importlib
import sys
from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from pets._version import __version__
from pets.cli._terminal import terminal_text
from pets.errors import PetsError

__all__ = ["VERBS", "cli", "main"]

VERBS: Mapping[str, str] = {
    "demo": "Compare okg and uniform on a small real model.",
    "figures": "Draw the figures and tables of the paper anew.",
    "fit": "Make a plan for a stream from a recorded pool.",
    "forecast": "Say what budget reaches 99 %, from a run or a pool.",
    "keys": "Make, list and revoke the keys of a gateway.",
    "mock": "Serve an OpenAI-compatible endpoint to test against.",
    "plan": "Look at a plan for streams.",
    "pools": "Summarize, check and convert recorded pools.",
    "questions": "Print a named question set.",
    "replay": "Compare policies on recorded answers.",
    "runs": "List, show and export the runs of a store.",
    "sample": "Record traces of every question as a pool.",
    "serve": "Serve a gateway that answers by vote.",
    "solve": "Answer questions under a budget, live.",
    "stream": "Answer questions as they arrive, within a budget.",
    "top-up": "Give a run more budget and go on.",
}
"""What each verb does: `pets --help` prints this without importing any of them."""

MODULES = {"top-up": "solve"}  # verbs that live in another verb's file


class LazyGroup(click.Group):
    """Verbs that are imported when they are called: numpy and scipy alone take a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs' names."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, imported."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"pets.cli.{MODULES.get(cmd_name, cmd_name)}")
        verb: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs, none of them imported."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(VERBS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs that begin so, none of them imported."""
        names = [CompletionItem(name, help=VERBS[name]) for name in sorted(VERBS) if name.startswith(incomplete)]
        return names or super().shell_complete(ctx, incomplete)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """PETS spends a self-consistency sampling budget where it changes the vote.

    Start with: pets demo
    """


def main() -> None:
    """The ``pets`` entry point."""
    try:
        cli(prog_name="pets")  # also where `python -m pets` was typed
    except PetsError as error:
        click.echo(f"pets: {terminal_text(str(error))}", err=True)
        sys.exit(2)
