"""``pets runs``: the runs of a store, one of them closely, and what it found as files."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from heapq import nsmallest
from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console
from rich.table import Table

from pets.cli._run import amount
from pets.core.certificate import expected_consistency
from pets.engine.outlook import Certifier, tallies_of
from pets.engine.runs import LOST, restored, results
from pets.errors import InputError
from pets.pools import Pool, write_pool
from pets.pools.writing import line_of
from pets.store import RunSummary, RunView, Store
from pets.store.export import pooled_questions, trace_records, write_records

__all__ = ["runs"]

What = Literal["results", "traces", "pool"]
WIDE = 240  # where stdout is no terminal, nothing is folded
DEFAULT = "runs.db"
HARDEST = 5  # questions that are shown

store_option = click.option("--store", metavar="FILE", help=f"The file of runs, or its URL; default: {DEFAULT}.")
form_option = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True, help="json: by line."
)


@click.group(invoke_without_command=True, short_help="List, show and export the runs of a store.")
@store_option
@form_option
@click.pass_context
def runs(context: click.Context, store: str | None, form: str) -> None:
    """The runs of a store; without a command, list them.

    \b
    pets runs --store runs.db
    pets runs show last --store runs.db
    pets runs export 3 --as pool -o run3.jsonl --store runs.db

    RUN is a number of the list, or "last". Reading never waits for a run that is at work, nor disturbs it.
    """
    context.obj = store or DEFAULT
    if context.invoked_subcommand is not None:
        return
    with Store.open(context.obj, create=False) as opened:
        summaries = opened.runs()
    if form == "json":
        for summary in summaries:
            click.echo(json.dumps(_plain(summary)))
        return
    _print_list(summaries)


@runs.command(short_help="Settings, progress and the hardest questions of a run.")
@click.argument("run", default="last")
@store_option
@form_option
@click.pass_context
def show(context: click.Context, run: str, store: str | None, form: str) -> None:
    """Show how RUN was set up, how far it is, and its least certain questions.

    The expected self-consistency comes with its 95 % interval.
    """
    with Store.open(store or context.obj, create=False) as opened:
        view = opened.view(run)
        summary = view.summary()
        told = _plain(summary) | _settings(summary) | {"faults": view.load("faults") or {}}
        if summary.traces:
            told |= {"charged_as_lost": sum(trace.error == LOST for trace in view.traces(texts=False))}
            told |= _expected(view)
    if form == "json":
        click.echo(json.dumps(told))
        return
    for key, value in told.items():
        if key != "hardest":
            click.echo(f"{key.replace('_', ' '):<21} {_words(value)}")
    for place, one in enumerate(told.get("hardest", ())):
        click.echo(f"{'' if place else 'hardest':<21} {one['certificate']:.3f}  {one['id']}")


@runs.command(short_help="Write a run's results, traces or pool to a file.")
@click.argument("run", default="last")
@store_option
@click.option("--as", "what", type=click.Choice(["results", "traces", "pool"]), default="results", show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Its suffix says the format: .jsonl, .jsonl.gz or .parquet. Without it, JSONL on stdout.",
)
@click.pass_context
def export(context: click.Context, run: str, store: str | None, what: What, output: Path | None) -> None:
    """Write what RUN has found so far.

    results: a row a question, as `pets solve` prints them. traces: a row a trace, with its text. pool: the answers of
    each question in launch order, for `pets replay` and `pets mock`; a question without any vote is left out.
    """
    with Store.open(store or context.obj, create=False) as opened:
        view = opened.view(run)
        many = _write_pool(view, output) if what == "pool" else _write(_records(view, what), output)
        left = view.summary().questions - many if what == "pool" else 0
    noun = "trace" if what == "traces" else "question"
    click.echo(f"{output or 'stdout'}: {many:,} {noun}{'' if many == 1 else 's'} written.", err=True)
    if left:
        click.echo(f"{left:,} without a vote left out.", err=True)


def _records(view: RunView, what: What) -> Iterator[dict[str, Any]]:
    return trace_records(view) if what == "traces" else results(view, restored(view))


def _write(records: Iterator[Mapping[str, Any]], output: Path | None) -> int:
    if output is not None:
        return write_records(records, output)
    many = 0
    for record in records:
        click.echo(json.dumps(record, ensure_ascii=False))
        many += 1
    return many


def _write_pool(view: RunView, output: Path | None) -> int:
    questions = tuple(pooled_questions(view))
    if not questions:
        raise InputError(f"run {view.id} has no vote yet; a pool needs at least one question with one.")
    if output is not None:
        write_pool(Pool(output.name, questions), output)
    else:
        for question in questions:
            click.echo(line_of(question))
    return len(questions)


def _expected(view: RunView) -> dict[str, Any]:
    """What the answers are worth by now: as at the end of `pets solve`, and which questions are the least certain."""
    allocator, ids = restored(view), [problem.id for problem in view.problems()]
    tallies = tallies_of(allocator, ids)
    certify = Certifier(tallies)
    sure = ((id, certify(allocator.tally(id))) for id in ids)
    hardest = nsmallest(HARDEST, sure, key=lambda one: one[1])
    return {
        "expected_consistency": [round(number, 4) for number in expected_consistency(tallies, certify.prior)],
        "hardest": [{"id": id, "certificate": round(chance, 4)} for id, chance in hardest],
    }


def _print_list(summaries: list[RunSummary]) -> None:
    if not summaries:
        click.echo("The store holds no run yet.", err=True)
        return
    console = Console() if Console().is_terminal else Console(width=WIDE)
    table = Table("run", "when", "questions", "spent / budget", "state", "policy", "model", "set")
    for run in summaries:
        unit = run.settings.currency.unit
        spent = f"{amount(run.spent, unit)} / {amount(run.settings.total, unit)}"
        cells = (str(run.id), _when(run.created), f"{run.questions:,}", spent, run.state, run.settings.policy)
        table.add_row(*cells, run.settings.model, run.settings.name)
    console.print(table, markup=False)


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
        "total": settings.total,
        "policy": settings.policy,
        "model": settings.model,
    }


def _settings(run: RunSummary) -> dict[str, Any]:
    """The rest of the settings; a driver's own first, where it keeps them as a plan."""
    plain = asdict(run.settings)
    more = plain.pop("more")
    known = {"policy", "model", "name", "total", "currency", "sampling"}
    rest = {key: value for key, value in plain.items() if key not in known}
    return rest | {"sampling": more.get("plan", {}).get("sampling", {})}


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else f"{value:,}" if isinstance(value, int) else str(value)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
