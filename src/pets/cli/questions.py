"""``pets questions``: the named question sets, as JSONL."""

import sys

import click

from pets.questions import named_sets, question_set, write_questions

__all__ = ["questions"]


@click.command(short_help="Print a named question set.")
@click.argument("name", required=False)
def questions(name: str | None) -> None:
    """Print the question set NAME as JSONL, as `pets sample` reads it; without NAME, list the sets."""
    if name is None:
        for known in named_sets():
            found = question_set(known)
            click.echo(f"{known}\t{len(found.problems)} questions")
        return
    write_questions(question_set(name).problems, sys.stdout)
