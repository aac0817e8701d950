"""``pets questions``: the named question sets, as JSONL."""

from pathlib import Path

import click

from pets.cli._groups import option, option_group, verb
from pets.cli._output import write_output
from pets.cli._terminal import echo
from pets.cli.options import QuestionOptions
from pets.errors import InputError
from pets.questions import named_sets, question_set
from pets.questions.files import question_record
from pets.questions.sets import BENCHMARKS


@option_group("Set")
class SetOptions:
    """Where a set comes from, and how it is ordered."""

    source: Path | None = option(
        "A copy of the set on this machine, file or folder; without one it comes from the Hugging Face hub.",
        flags=("--from",),
        kind=click.Path(path_type=Path, exists=True),
    )
    seed: int = option("What the order of gpqa's options is drawn from.", 0, at_least=0)


@verb()
@click.argument("name", metavar="[QUESTIONS]", required=False)
def questions(name: str | None, origin: SetOptions, selection: QuestionOptions) -> None:
    """Print QUESTIONS as JSONL, as `pets solve` and `pets sample` ask them; without any, list the named sets.

    \b
    pets questions gpqa > gpqa.jsonl                      from the hub: pip install "pets-llm[datasets]"
    pets questions gpqa --from gpqa_diamond.csv --seed 1
    pets questions hf:openai/gsm8k/main:test --first 10
    pets questions exam.csv --field question=body         what your own file is read as

    Prompts, how answers are read, and the right answers are included.
    """
    if name is not None:
        if name in named_sets() and not selection.fields:
            problems = question_set(name, origin.source, seed=origin.seed).problems[: selection.first]
        elif origin.source is not None:
            raise InputError(f'--from is a copy of a named set, and "{name}" is none. Name the file instead of it.')
        else:
            problems = selection.load(name).problems
        write_output(map(question_record, problems), None)
        return
    for set_name in named_sets():
        published = BENCHMARKS.get(set_name)
        if published is None:
            echo(f"{set_name}\t{len(question_set(set_name).problems)} questions, made for small models")
        else:
            echo(f"{set_name}\t{published.about} ({published.hub})")
