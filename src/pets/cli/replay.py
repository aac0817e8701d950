"""``pets replay``: policies side by side on recorded answers, by the paper's protocol."""

import csv
import importlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from pets.errors import InputError
from pets.pools import Pool, pool_files, read_pool
from pets.replay import PoolResult, Protocol, Row, certificates, read_answers, rows
from pets.replay import replay as run
from pets.replay.calibration import CERTIFIED_AT
from pets.replay.lab import Progress
from pets.replay.protocol import Target
from pets.report import (
    certificate_table,
    check_matplotlib,
    draw_curves,
    draw_difficulty,
    draw_reliability,
    pool_table,
    save,
)

__all__ = ["WIDE", "progress_bar", "read_pool_reporting_skips", "replay"]

DEFAULT = ("uniform", "okg", "okg:prior=1", "asc", "esc", "boinf", "its_adaptive", "dsc")
DEFAULT_ONLINE = ("online_grid", "price", "price:rounds=3")
DEFAULT_WEIGHTED = ("uniform", "okg", "okg_weighted", "conf_guided")
ANSWERS = ("choice", "number", "math", "text", "raw")
WIDE = 240  # where stdout is no terminal, nothing is folded


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="POOL...", type=click.Path(path_type=Path))
@click.option("--policy", "policies", multiple=True, help='Such as "okg:prior=1"; give it again for more.')
@click.option("--repetitions", default=30, show_default=True, type=click.IntRange(1), help="Random draws to average.")
@click.option("--pool-size", default=64, show_default=True, type=click.IntRange(1), help="Traces drawn a question.")
@click.option(
    "--target",
    type=click.Choice(["whole", "disjoint"]),
    default="whole",
    show_default=True,
    help="The vote of the traces drawn, or of others that the policy cannot draw.",
)
@click.option("--weighted", is_flag=True, help="Votes weighted by confidence, the top 70 % of them.")
@click.option(
    "--answer", help=f'How answers are read: {", ".join(ANSWERS)}, "choice:digits=0-1"; default: the manifest.'
)
@click.option("--train", type=click.IntRange(1), help="Training questions of online policies; default 30, or 10.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same table.")
@click.option("--workers", type=click.IntRange(1), help="Processes; default: one a core.")
@click.option("--skip-bad", is_flag=True, help="Pass over bad lines and say how many they were.")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write rows to .json(l), .csv or .parquet.")
@click.option("--certificates", "certify", is_flag=True, help="Check certificates, at mean budgets of 4, 8 and 16.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False), help="Write plots of each pool to a folder.")
def replay(
    paths: tuple[Path, ...],
    policies: tuple[str, ...],
    repetitions: int,
    pool_size: int,
    target: Target,
    weighted: bool,
    answer: str | None,
    train: int | None,
    seed: int,
    workers: int | None,
    skip_bad: bool,
    form: str,
    output: Path | None,
    certify: bool,
    plots: Path | None,
) -> None:
    """Compare policies on recorded answers; a folder stands for every pool in it.

    Each repetition draws traces of every question at random; all policies see the same. Self-consistency is agreement
    with the vote of all of them, or of others with --target disjoint. Offline policies are followed trace by trace,
    stopping rules over their thresholds, online policies over mean budgets on questions that did not train them.
    """
    if output is not None:
        _check_output(output)
    if plots is not None:
        check_matplotlib()
    plain = target == "whole" and not weighted  # what certificates can be checked against
    certified = CERTIFIED_AT if certify or (plots is not None and plain) else ()
    protocol = Protocol(repetitions, pool_size, target, weighted, train, seed=seed, certified=certified)
    pools = [read_pool_reporting_skips(path, skip_bad) for path in pool_files(paths)]
    specs = policies or _default(pools, protocol)
    with progress_bar() as progress:
        found = run(
            pools, specs, protocol=protocol, answer=answer, workers=workers or os.cpu_count() or 1, progress=progress
        )
    for pool in found:
        _tell(pool, pool_size)
    table = rows(found)
    if form == "table" and output is None:
        _print_tables(found, table)
    else:
        _write(table, form, output)
    if plots is not None:
        _plot(plots, pools, found, answer)


def read_pool_reporting_skips(path: Path, skip_bad: bool) -> Pool:
    """The pool; how many of its lines were skipped goes to stderr."""
    pool = read_pool(path, skip_bad=skip_bad)
    if pool.skipped:
        click.echo(f"{pool.name}: skipped {len(pool.skipped)} bad line{'s' * (len(pool.skipped) > 1)}.", err=True)
    return pool


def _default(pools: Sequence[Pool], protocol: Protocol) -> tuple[str, ...]:
    """Every policy that these pools allow."""
    if protocol.weighted:
        return DEFAULT_WEIGHTED
    try:
        for pool in pools:
            protocol.train_of(len(pool.questions))
    except InputError as error:
        click.echo(f"Online policies are left out: {error}", err=True)
        return DEFAULT
    return DEFAULT + DEFAULT_ONLINE


def _tell(pool: PoolResult, asked: int) -> None:
    if pool.note:
        click.echo(f"{pool.pool}: {pool.note}.", err=True)
    if pool.size < asked:
        why = "its halves have no more" if pool.protocol.target == "disjoint" else "its shortest question has no more"
        click.echo(f"{pool.pool}: {pool.size} traces a question, {why}.", err=True)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Progress on stderr, with the time that is left."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    console = Console(stderr=True)
    with Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("reading answers", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, description="replaying", completed=done, total=total)

        yield progress


def _print_tables(found: Sequence[PoolResult], table: Sequence[Row]) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDE, markup=False, emoji=False, highlight=False)
    for pool in found:
        console.print(pool_table(pool, table))
    if (certified := certificate_table(table)) is not None:
        console.print(certified)


def _plot(folder: Path, pools: Sequence[Pool], found: Sequence[PoolResult], answer: str | None) -> None:
    """Three pictures a pool: its curves, where the budget went, and whether certificates are what they say."""
    folder.mkdir(parents=True, exist_ok=True)
    for pool, result in zip(pools, found, strict=True):
        pictures = {"curves": draw_curves(result), "difficulty": draw_difficulty(result, read_answers(pool, answer))}
        if reliability := certificates([result]):
            pictures["reliability"] = draw_reliability(reliability, f"{pool.name}: certificates")
        for name, picture in pictures.items():
            click.echo(f"{save(picture, folder / f'{pool.name}.{name}.png')} written.", err=True)
    if len(found) > 1 and (reliability := certificates(found)):
        picture = draw_reliability(reliability, f"certificates of {len(found)} pools")
        click.echo(f"{save(picture, folder / 'reliability.png')} written.", err=True)


def _check_output(path: Path) -> None:
    """A file that cannot be written must not cost a whole replay."""
    if path.suffix not in (".json", ".jsonl", ".csv", ".parquet"):
        raise InputError(f'"{path.name}" has no known suffix; rows are written to .jsonl, .json, .csv or .parquet.')
    if not path.parent.is_dir():
        raise InputError(f'there is no folder "{path.parent}" to write {path.name} to. Make it, or choose another.')
    if path.suffix == ".parquet":
        _pyarrow("pyarrow")


def _write(table: Sequence[Row], form: str, output: Path | None) -> None:
    if output is None:
        click.echo(_csv(table) if form == "csv" else _json(table), nl=False)
        return
    if output.suffix == ".parquet":
        arrow = _pyarrow("pyarrow")
        _pyarrow("pyarrow.parquet").write_table(arrow.Table.from_pylist([asdict(row) for row in table]), output)
    else:
        output.write_text(_csv(table) if output.suffix == ".csv" else _json(table))
    click.echo(f"{output}: {len(table)} rows written.", err=True)


def _json(table: Sequence[Row]) -> str:
    return "".join(json.dumps(asdict(row)) + "\n" for row in table)


def _csv(table: Sequence[Row]) -> str:
    sink = io.StringIO()
    writer = csv.DictWriter(sink, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in table)
    return sink.getvalue()


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError('Parquet needs pyarrow, which is not here. Try: pip install "pets[parquet]"') from None
