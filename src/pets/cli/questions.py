"""``pets questions``: the named question sets, as JSONL."""

import sys
from pathlib import Path

import click

from pets.questions import named_sets, question_set, write_questions
from pets.questions.sets import BENCHMARKS

__all__ = ["questions"]


@click.command(short_help="Print a named question set.")
@click.argument("name", required=False)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True),
    help="A copy of the set on this machine, file or folder; else it comes from the Hugging Face hub.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Orders the options of gpqa.")
def questions(name: str | None, source: Path | None, seed: int) -> None:
    """Print the question set NAME as JSONL, as `pets solve` and `pets sample` read it; without NAME, list the sets.

    \b
    pets questions gpqa > gpqa.jsonl                      from the hub: pip install "pets[datasets]"
    pets questions gpqa --from gpqa_diamond.csv --seed 1

    Prompts, how answers are read, and the right answers are included.
    """
    if name is not None:
        write_questions(question_set(name, source, seed=seed).problems, sys.stdout)
        return
    for known in named_sets():
        published = BENCHMARKS.get(known)
        if published is None:
            click.echo(f"{known}\t{len(question_set(known).problems)} questions, made for small models")
        else:
            click.echo(f"{known}\t{published.about} ({published.hub})")
