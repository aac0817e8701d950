"""``pets pools``: look at recorded pools, check them, change their format."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pets.pools import METRICS, Metric, Pool, Summary, check_pool, pool_files, read_pool, summarize, write_pool

__all__ = ["pools"]

WIDE = 240  # where stdout is no terminal, nothing is folded


@click.group()
def pools() -> None:
    """Recorded answers: what is in them, what is wrong with them, and other formats.

    A pool is a .jsonl, .jsonl.gz, .json or .parquet file with one question a line, entry or row; the records that the
    paper's own code writes are understood too.
    """


paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
confidence = click.option(
    "--confidence",
    type=click.Choice(METRICS),
    default="tail",
    show_default=True,
    help="Which trace confidence to take where a pool has several.",
)
skip_bad = click.option("--skip-bad", is_flag=True, help="Pass over bad lines and say how many they were.")


@pools.command()
@paths
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="json is one object a line.",
)
@confidence
@skip_bad
def show(paths: tuple[Path, ...], form: str, confidence: Metric, skip_bad: bool) -> None:
    """Summarize pools, one row each; a folder stands for every pool in it.

    Answers are compared as they were recorded: "(C)" and "C" are two. "vote" is the accuracy of the vote of all
    traces, "leader" the mean share of the winning answer among the votes cast.
    """
    summaries = [summarize(_read(path, confidence, skip_bad)) for path in pool_files(paths)]
    WRITERS[form](summaries)


@pools.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@confidence
@skip_bad
def convert(source: Path, target: Path, confidence: Metric, skip_bad: bool) -> None:
    """Write the pool IN as OUT, in the format of OUT's suffix. An OUT that exists is replaced."""
    pool = _read(source, confidence, skip_bad)
    write_pool(pool, target)
    click.echo(f"{target}: {_count(len(pool.questions), 'question')} written.", err=True)


@pools.command()
@paths
@click.pass_context
def check(context: click.Context, paths: tuple[Path, ...]) -> None:
    """Print every problem of every pool, one a line; exit 2 if there is any."""
    files = pool_files(paths)
    problems = 0
    for path in files:
        for problem in check_pool(path):
            click.echo(problem)
            problems += 1
    click.echo(f"Checked {_count(len(files), 'pool')}: {_count(problems, 'problem')}.", err=True)
    context.exit(2 if problems else 0)


def _read(path: Path, confidence: Metric, skip_bad: bool) -> Pool:
    pool = read_pool(path, confidence=confidence, skip_bad=skip_bad)
    if pool.skipped:
        click.echo(f"{pool.name}: skipped {_count(len(pool.skipped), 'bad line')}.", err=True)
    return pool


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _print_table(summaries: Sequence[Summary]) -> None:
    table = Table()
    table.add_column("pool", overflow="fold")
    table.add_column("kind")
    for name in ("questions", "traces", "answers", "pass@1", "vote", "unanimous", "leader", "no answer"):
        table.add_column(name, justify="right")
    extras = []
    if any(summary.tokens_mean is not None for summary in summaries):
        extras.append(_tokens)
        table.add_column("tokens: mean, p95", justify="right")
    if any(summary.confidence_missing is not None for summary in summaries):
        extras.append(_confidence)
        table.add_column("confidence (missing)", justify="right")
    for summary in summaries:
        table.add_row(*_cells(summary), *(extra(summary) for extra in extras))
    width = None if sys.stdout.isatty() else WIDE
    Console(width=width, markup=False, emoji=False, highlight=False).print(table)


def _cells(summary: Summary) -> list[str]:
    low, high = summary.traces_min, summary.traces_max
    shares = (summary.pass_at_1, summary.vote_accuracy, summary.unanimous, summary.leader_share, summary.no_answer)
    return [
        summary.pool,
        summary.kind or "-",
        str(summary.questions),
        str(low) if low == high else f"{low}-{high}",
        f"{summary.answers_mean:.1f}",
        *("-" if share is None else f"{share:.3f}" for share in shares),
    ]


def _tokens(summary: Summary) -> str:
    return "-" if summary.tokens_mean is None else f"{summary.tokens_mean:,.0f}, {summary.tokens_p95:,.0f}"


def _confidence(summary: Summary) -> str:
    if summary.confidence_mean is None:
        return "-"
    return f"{summary.confidence_mean:.2f} ± {summary.confidence_sd:.2f} ({summary.confidence_missing:.1%})"


def _print_json(summaries: Sequence[Summary]) -> None:
    for summary in summaries:
        click.echo(json.dumps(asdict(summary)))


def _print_csv(summaries: Sequence[Summary]) -> None:
    writer = csv.DictWriter(sys.stdout, [field.name for field in fields(Summary)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(summary) for summary in summaries)


WRITERS: dict[str, Callable[[Sequence[Summary]], None]] = {
    "table": _print_table,
    "json": _print_json,
    "csv": _print_csv,
}
