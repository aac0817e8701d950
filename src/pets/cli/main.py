"""``pets``: one verb a file; words on stderr, data on stdout; a user's mistake is one line and exit 2."""

import sys

import click

from pets.cli.demo import demo
from pets.cli.figures import figures
from pets.cli.fit import fit
from pets.cli.forecast import forecast
from pets.cli.keys import keys
from pets.cli.mock import mock
from pets.cli.plan import plan
from pets.cli.pools import pools
from pets.cli.questions import questions
from pets.cli.replay import replay
from pets.cli.runs import runs
from pets.cli.sample import sample
from pets.cli.serve import serve
from pets.cli.solve import solve
from pets.cli.stream import stream
from pets.cli.topup import top_up
from pets.errors import PetsError

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pets")
def cli() -> None:
    """PETS spends a self-consistency sampling budget where it changes the vote.

    Start with: pets demo
    """


cli.add_command(demo)
cli.add_command(figures)
cli.add_command(fit)
cli.add_command(forecast)
cli.add_command(keys)
cli.add_command(mock)
cli.add_command(plan)
cli.add_command(pools)
cli.add_command(questions)
cli.add_command(replay)
cli.add_command(runs)
cli.add_command(sample)
cli.add_command(serve)
cli.add_command(solve)
cli.add_command(stream)
cli.add_command(top_up)


def main() -> None:
    """The ``pets`` entry point."""
    try:
        cli()
    except PetsError as error:
        click.echo(f"pets: {error}", err=True)
        sys.exit(2)
