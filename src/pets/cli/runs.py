"""``pets runs``: the runs of a store, one of them closely, and what it found as files."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from heapq import nsmallest
from pathlib import Path
from typing import Any, ClassVar, Literal

import click
from rich.table import Table

from pets.cli._groups import option, verb_group
from pets.cli._output import check_rows_output, count, format_amount, write_output
from pets.cli._run import ANSWER_COLUMNS
from pets.cli._tables import print_table
from pets.cli._terminal import terminal_text
from pets.cli.options import DEFAULT_STORE, FILE, StoreOptions
from pets.core.certificate import expected_consistency
from pets.engine.progress import Certifier, tallies_of
from pets.engine.resume import LOST, restored, results, total_so_far
from pets.errors import InputError
from pets.pools import Pool, write_pool
from pets.pools.writing import line_of
from pets.store import RunSummary, RunView, Store
from pets.store.export import pooled_questions, trace_records

__all__ = ["runs"]

Export = Literal["results", "traces", "pool"]
HARDEST_SHOWN = 5


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


@verb_group(invoke_without_command=True)
@click.pass_context
def runs(context: click.Context, source: StoreOptions, output: RunFormatOptions) -> None:
    """The runs of a store; without a command, list them.

    \b
    pets runs --store runs.db
    pets runs show last --store runs.db
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
            click.echo(json.dumps(_plain(summary)))
        return
    _print_list(summaries)


@runs.verb()
@click.argument("run", default="last")
@click.pass_context
def show(context: click.Context, run: str, source: StoreOptions, output: RunFormatOptions) -> None:
    """Show how RUN was set up, how far it is, and its least certain questions.

    The expected self-consistency comes with its 95 % interval.
    """
    with Store.open(source.store or context.obj, create=False) as store:
        view = store.view(run)
        summary = view.summary()
        facts = _plain(summary) | _settings(summary) | {"faults": view.load("faults") or {}}
        if summary.traces:
            facts |= {"charged_as_lost": sum(trace.error == LOST for trace in view.traces(texts=False))}
            facts |= _expected(view)
    if output.format == "json":
        click.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        if key != "hardest":
            click.echo(f"{key.replace('_', ' '):<21} {terminal_text(_words(value))}")
    for rank, question in enumerate(facts.get("hardest", ())):
        click.echo(f"{'' if rank else 'hardest':<21} {question['certificate']:.3f}  {terminal_text(question['id'])}")


@runs.verb()
@click.argument("run", default="last")
@click.pass_context
def export(context: click.Context, run: str, source: StoreOptions, output: ExportOptions) -> None:
    """Write what RUN has found so far.

    results: a row per question, as `pets solve` prints them. traces: a row per trace, with its text. pool: the answers
    of each question in launch order, for `pets replay` and `pets mock`; a question without any vote is left out.
    """
    pooled = output.what == "pool"
    if not pooled:
        check_rows_output(output.output)
    with Store.open(source.store or context.obj, create=False) as store:
        view = store.view(run)
        if pooled:
            written = _write_pool(view, output.output)
        else:
            columns = ANSWER_COLUMNS if output.what == "results" else None
            written = write_output(_records(view, output.what), output.output, columns)
        unvoted = view.summary().questions - written if pooled else 0
    noun = "trace" if output.what == "traces" else "question"
    click.echo(f"{output.output or 'stdout'}: {count(written, noun)} written.", err=True)
    if unvoted:
        click.echo(f"{unvoted:,} without a vote left out.", err=True)


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
    click.echo(f"Run {id}: {'texts, prompts and errors' if what.texts else 'everything'} deleted.", err=True)


def _records(view: RunView, what: Export) -> Iterator[dict[str, Any]]:
    return trace_records(view) if what == "traces" else results(view, restored(view))


def _write_pool(view: RunView, output: Path | None) -> int:
    questions = tuple(pooled_questions(view))
    if not questions:
        raise InputError(f"run {view.id} has no vote yet; a pool needs at least one question with one.")
    if output is not None:
        write_pool(Pool(output.name, questions), output)
    else:
        for question in questions:
            click.echo(terminal_text(line_of(question)))
    return len(questions)


def _expected(view: RunView) -> dict[str, Any]:
    """What the answers are worth by now: as at the end of `pets solve`, and which questions are the least certain."""
    allocator, ids = restored(view), [problem.id for problem in view.problems()]
    tallies = tallies_of(allocator, ids)
    certify = Certifier(tallies, allocator.policy.zone)
    certificates = ((id, certify(allocator.tally(id))) for id in ids)
    expected = expected_consistency(tallies, certify.prior, zone=certify.zone)
    hardest = nsmallest(HARDEST_SHOWN, certificates, key=lambda pair: pair[1])
    return {
        "expected_consistency": [round(number, 4) for number in expected],
        "hardest": [{"id": id, "certificate": round(chance, 4)} for id, chance in hardest],
    }


def _print_list(summaries: list[RunSummary]) -> None:
    if not summaries:
        click.echo("The store holds no run yet.", err=True)
        return
    table = Table("run", "when", "questions", "spent / budget", "state", "policy", "model", "set")
    for run in summaries:
        unit = run.settings.currency.unit
        total = total_so_far(run.settings, run.questions)
        spent = f"{format_amount(run.spent, unit)} / {format_amount(total, unit)}"
        cells = (str(run.id), _when(run.created), f"{run.questions:,}", spent, run.state, run.settings.policy)
        table.add_row(*cells, run.settings.model, run.settings.name)
    print_table(table)


def _plain(run: RunSummary) -> dict[str, Any]:
    settings = run.settings
    return {
        "run": run.id,
        "state": run.state,
        "created": _when(run.created),
        "updated": _when(run.updated),
        "set": settings.name,
        "questions": run.questions,
        "traces": run.traces,
        "votes": run.answered,
        "in_flight" if run.state == "running" else "lost": run.lost,
        "tokens": run.tokens,
        "prompt_tokens": run.prompt_tokens,
        "unit": settings.currency.unit,
        "spent": run.spent,
        "total": total_so_far(settings, run.questions),
        "policy": settings.policy,
        "model": settings.model,
    }


def _settings(run: RunSummary) -> dict[str, Any]:
    """The rest of the settings; a driver's own first, where it keeps them as a plan."""
    plain = asdict(run.settings)
    more = plain.pop("more")
    shown = {"policy", "model", "name", "total", "currency", "sampling"}
    rest = {key: value for key, value in plain.items() if key not in shown}
    return rest | {"sampling": more.get("plan", {}).get("sampling", {})}


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else f"{value:,}" if isinstance(value, int) else str(value)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
