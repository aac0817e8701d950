"""``pets runs``: the runs of a store, one of them closely, two side by side, and what they found as files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import click
from rich.table import Table

from pets.cli._groups import option, verb_group
from pets.cli._output import check_rows_output, count, write_output
from pets.cli._run import ANSWER_COLUMNS
from pets.cli._runs import (
    comparison_facts,
    print_comparison,
    print_facts,
    print_question,
    question_facts,
    run_facts,
    summary_facts,
    when,
)
from pets.cli._tables import print_table
from pets.cli._terminal import echo, json_line
from pets.cli.options import DEFAULT_STORE, FILE, StoredAnswerOptions, StoreOptions
from pets.core.budget import amount_words
from pets.engine.question import answer_type_of
from pets.engine.resume import config_of, restored, results, total_so_far
from pets.errors import InputError
from pets.pools import Pool, write_pool
from pets.pools.writing import line_of
from pets.store import RunSummary, RunView, Store
from pets.store.export import pooled_questions, trace_records

__all__ = ["runs"]

Export = Literal["results", "traces", "pool"]


@dataclass(frozen=True, slots=True)
class RunFormatOptions:
    """What stdout gets."""

    title: ClassVar[str] = "Output"

    format: Literal["table", "json"] = option("What stdout gets; json is one object per line.", "table")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What of a run is written, and where."""

    title: ClassVar[str] = "Output"

    what: Export = option("What is written.", "results", flags=("--as",))
    output: Path | None = option(
        "The file to write, in the format of its suffix: .jsonl, .jsonl.gz, .json, .csv or .parquet. Without one, "
        "JSONL on stdout.",
        flags=("-o", "--output"),
        kind=FILE,
    )
    texts: bool = option("Write what traces said into a pool too, where the run kept it.", True,
                         flags=("--texts/--no-texts",))  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What of a run is shown."""

    title: ClassVar[str] = "Question"

    question: str | None = option("Show this question alone, with its votes and every trace.", metavar="ID")


@verb_group(invoke_without_command=True)
@click.pass_context
def runs(context: click.Context, source: StoreOptions, output: RunFormatOptions) -> None:
    """The runs of a store; without a command, list them.

    \b
    pets runs --store runs.db
    pets runs show last --store runs.db
    pets runs show 3 --question q7 --store runs.db
    pets runs compare 1 2 --store runs.db
    pets runs export 3 --as pool -o run3.jsonl --store runs.db
    pets runs delete 3 --texts --store runs.db

    RUN is a number of the list, or "last". Reading never waits for a run that is at work, nor disturbs it.
    """
    context.obj = source.store or DEFAULT_STORE
    if context.invoked_subcommand is not None:
        return
    with Store.open(context.obj, create=False) as store:
        summaries = store.runs()
    if output.format == "json":
        for summary in summaries:
            echo(json_line(summary_facts(summary)))
        return
    _print_list(summaries)


@runs.verb()
@click.argument("run", default="last")
@click.pass_context
def show(
    context: click.Context,
    run: str,
    source: StoreOptions,
    answers: StoredAnswerOptions,
    output: RunFormatOptions,
    selection: ShowOptions,
) -> None:
    """Show how RUN was set up, how far it is, its accuracy where there is gold, and its least certain questions.

    The expected self-consistency comes with its 95 % interval. With --question, show one question with its votes and
    what every trace said.
    """
    with Store.open(source.store or context.obj, create=False) as store:
        view = store.view(run, code=answers.answer)
        facts = run_facts(view) if selection.question is None else question_facts(view, selection.question)
    if output.format == "json":
        echo(json_line(facts))
    elif selection.question is None:
        print_facts(facts)
    else:
        print_question(facts)


@runs.verb()
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="OTHER")
@click.pass_context
def compare(
    context: click.Context,
    first: str,
    second: str,
    source: StoreOptions,
    answers: StoredAnswerOptions,
    output: RunFormatOptions,
) -> None:
    """Compare RUN with OTHER over the questions that both ask: answers, accuracy, traces, tokens, cost.

    Accuracy is compared in pairs: the difference with its 95 % interval, and the exact McNemar test.
    """
    with Store.open(source.store or context.obj, create=False) as store:
        facts = comparison_facts(store.view(first, code=answers.answer), store.view(second, code=answers.answer))
    if output.format == "json":
        echo(json_line(facts))
    else:
        print_comparison(facts)


@runs.verb()
@click.argument("run", default="last")
@click.pass_context
def export(
    context: click.Context, run: str, source: StoreOptions, answers: StoredAnswerOptions, output: ExportOptions
) -> None:
    """Write what RUN has found so far.

    results: a row per question, as `pets solve` prints them. traces: a row per trace, with its text. pool: the answers
    of each question in launch order, for `pets replay` and `pets mock`; a question without any vote is left out.
    """
    pooled = output.what == "pool"
    if not pooled:
        check_rows_output(output.output)
    with Store.open(source.store or context.obj, create=False) as store:
        view = store.view(run, code=answers.answer)
        if pooled:
            written = _write_pool(view, output.output, output.texts)
        else:
            columns = ANSWER_COLUMNS if output.what == "results" else None
            written = write_output(_records(view, output.what), output.output, columns)
        unvoted = view.summary().questions - written if pooled else 0
    noun = "trace" if output.what == "traces" else "question"
    echo(f"{output.output or 'stdout'}: {count(written, noun)} written.", err=True)
    if unvoted:
        echo(f"{unvoted:,} without a vote left out.", err=True)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What of a run is deleted."""

    title: ClassVar[str] = "Delete"

    texts: bool = option("Delete only the texts, prompts and errors; answers and votes stay.", False)


@runs.verb()
@click.argument("run")
@click.pass_context
def delete(context: click.Context, run: str, source: StoreOptions, what: DeleteOptions) -> None:
    """Delete RUN, or what was asked and said in it; its place in the file is overwritten.

    A run without its prompts can still be shown and exported, and no longer resumed.
    """
    with Store.open(source.store or context.obj, create=False) as store:
        id = store.delete(run, texts=what.texts)
    echo(f"Run {id}: {'texts, prompts and errors' if what.texts else 'everything'} deleted.", err=True)


def _records(view: RunView, what: Export) -> Iterator[dict[str, Any]]:
    if what == "traces":
        return trace_records(view)
    return (answer.to_plain() for answer in results(view, restored(view)))


def _write_pool(view: RunView, output: Path | None, texts: bool) -> int:
    answer = config_of(view.settings, view.code).answer
    questions = tuple(pooled_questions(view, lambda problem: answer_type_of(problem, answer), texts=texts))
    if not questions:
        raise InputError(f"run {view.id} has no vote yet; a pool needs at least one question with one.")
    if output is not None:
        write_pool(Pool(output.name, questions), output)
    else:
        for question in questions:
            echo(line_of(question))
    return len(questions)


def _print_list(summaries: list[RunSummary]) -> None:
    if not summaries:
        echo("The store holds no run yet.", err=True)
        return
    table = Table("run", "when", "state")
    for name in ("questions", "spent", "budget"):
        table.add_column(name, justify="right")
    for name in ("policy", "model", "set"):
        table.add_column(name, overflow="fold")
    for run in summaries:
        unit = run.settings.currency.unit
        total = total_so_far(run.settings, run.questions)
        spent = f"{run.spent:,}" if unit in ("traces", "tokens") else amount_words(run.spent, unit)
        numbers = (f"{run.questions:,}", spent, amount_words(total, unit))
        names = (run.settings.policy, run.settings.model, run.settings.name)
        table.add_row(str(run.id), when(run.created), run.state, *numbers, *names)
    print_table(table)
