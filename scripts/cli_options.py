"""How many options each command has: ``python -m scripts.cli_options``.

Counted are all options of all commands, hidden ones too, but for the help (``--help``, ``--help-all``, ``--version``)
and the three of messages (``-v``, ``-q``, ``--log-file``), which every command has.
"""

import sys
from collections.abc import Iterator

import click

from scripts.docs.cli_reference import SHARED_OPTIONS, commands

UNCOUNTED = {*SHARED_OPTIONS, "version"}


def option_counts() -> Iterator[tuple[str, int]]:
    """Every command with the number of its options."""
    for path, command in commands():
        options = [option for option in command.params if isinstance(option, click.Option)]
        yield path, sum(option.name not in UNCOUNTED for option in options)


def main() -> None:
    """Print the table."""
    counts = dict(option_counts())
    verbs = {path.split()[1] for path in counts if " " in path}
    for path, number in counts.items():
        sys.stdout.write(f"{number:4}  {path}\n")
    sys.stdout.write(f"{sum(counts.values()):4}  options of {len(verbs)} verbs\n")


if __name__ == "__main__":
    main()
