"""``pets replay``: policies side by side on recorded answers, by the paper's protocol."""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from pets import report
from pets.cli._groups import option, verb
from pets.cli._output import FORMAT, Format, check_output, count, print_rows, print_table, progress_bar, write_output
from pets.cli._ray import CLUSTER_HELP, connect
from pets.cli._terminal import say
from pets.cli.pools import PoolOptions
from pets.errors import InputError
from pets.lab import PoolResult, ReplayConfig, certificates, read_answers, rows
from pets.lab import replay as run
from pets.lab.calibration import CERTIFIED_AT
from pets.lab.mixture import SIZES, choose_and_score, mixture_lab, shares_of, usual_mixtures
from pets.pools import Pool
from pets.registry import typed_policy
from pets.report.style import Chart

DEFAULT = ("uniform", "okg", "okg:prior=1", "asc", "esc", "boinf", "lead", "its_adaptive", "dsc")
DEFAULT_ONLINE = ("online_grid", "price", "price:rounds=3")
DEFAULT_WEIGHTED = (
    "uniform",
    "okg",
    "okg_weighted",
    "okg_weighted:verdict=vote",
    "conf_guided:keep=10",
    "conf_guided:keep=50",
    "conf_guided:keep=90",
)
DEFAULT_CLOCK = ("asc", "lead", "asc:places=1", "asc:batch=2", "all:32", "its_beta", "short_m:8/16")
SECONDS_PER_TRACE = 4e-5  # of one policy in one repetition, on one core of 2024
WORTH_SAYING_S = 20.0
FOLDER = click.Path(path_type=Path, file_okay=False)


@verb()
@click.argument("paths", nargs=-1, required=True, metavar="POOL...", type=click.Path(path_type=Path))
def replay(
    paths: tuple[Path, ...],
    protocol: ReplayConfig,
    reading: PoolOptions,
    policies: tuple[str, ...] = option(
        'A policy such as "okg:prior=1" or python:MODULE:CLASS; give it again for more. Without any, all that the '
        "pools allow.",
        (),
        flags=("--policy",),
    ),
    workers: str | None = option(
        "How many processes replay; one per core if not given. With ray, or ray:ADDRESS, those of a Ray cluster. "
        f"{CLUSTER_HELP}",
        metavar="N|ray[:ADDRESS]",
    ),
    form: Format | None = FORMAT,
    output: Path | None = option(
        "Write the rows to a .jsonl, .json, .csv or .parquet file too.", flags=("-o", "--output")
    ),
    certify: bool = option("Check certificates too, at mean budgets of 4, 8 and 16.", False, flags=("--certificates",)),
    plots: Path | None = option("Write plots of each pool to this folder, as PNG, SVG and PDF.", kind=FOLDER),
) -> None:
    """Compare policies on recorded answers; a folder stands for every pool in it, a.jsonl=2+b.jsonl for a mixture.

    \b
    pets replay gpqa.jsonl --policy okg --policy uniform
    pets replay a.jsonl+b.jsonl                two models' answers to the same questions, by turns
    pets replay gpqa.jsonl --clock             what hurry costs and saves, where the pool has lengths

    Each repetition draws traces of every question at random; all policies see the same. Self-consistency is agreement
    with the vote of all of them, or of others with --reference disjoint. Offline policies are followed trace by trace,
    those with waves (okg:waves=4) run at mean budgets, stopping rules over their thresholds, online policies over mean
    budgets on questions that did not train them.
    """
    check_output(output, *paths, rows=True)
    if plots is not None:
        report.charts_library()
    checkable = protocol.reference == "whole" and not (protocol.weighted or protocol.clock)
    if certify or (plots is not None and checkable):
        protocol = replace(protocol, certified=CERTIFIED_AT)
    pools, mixtures = reading.read_mixtures(paths)
    specs = [*map(typed_policy, policies)] or _default_policies(pools, protocol)
    place, _, address = (str(os.cpu_count() or 1) if workers is None else workers).partition(":")
    cluster, processes = connect(address) if place == "ray" else None, 1
    if cluster is None:
        if not place.isdecimal() or not int(place) or address:
            raise InputError(f"--workers is a number of processes, or ray[:ADDRESS]; got {workers!r}.")
        processes = int(place)
        traces = sum(len(pool.questions) for pool in pools) * protocol.size
        seconds = SECONDS_PER_TRACE * traces * len(specs) * protocol.repetitions / processes
        work = f"{len(specs)} policies, {protocol.repetitions} repetitions, {processes} at a time"
        if seconds > WORTH_SAYING_S:
            say(f"{work}: about {max(1, round(seconds / 60))} min.")
    with progress_bar() as progress:
        results = run(
            pools, specs, config=protocol, answer=reading.answer, workers=processes, cluster=cluster, progress=progress
        )
    for pool, result in zip(pools, results, strict=True):
        if result.note:
            say(f"{result.pool}: {result.note}.")
        if result.size < protocol.size:
            uneven = len({len(question.answers) for question in pool.questions}) > 1
            hint = " (--min-traces leaves short ones out)" if uneven else ""
            halves = protocol.reference == "disjoint"
            why = "its halves have no more" if halves else f"its shortest question has no more{hint}"
            say(f"{result.pool}: {result.size} traces per question, {why}.")
    files = "\n".join(map(str, paths))
    table = [replace(row, files=files) for row in rows(results)]

    def print_people() -> None:
        for pool in results:
            print_table(report.clock_table(pool) if pool.config.clock else report.pool_table(pool, table), keys=2)
        if (certified := report.certificate_table(table)) is not None:
            print_table(certified, keys=2)
        for own, weights in mixtures:
            _print_mixture(own, tuple(weights), protocol, reading.answer)

    print_rows(map(asdict, table), form, print_people)
    if output is not None:
        written = write_output(map(asdict, table), output)
        say(f"{output}: {count(written, 'row')} written.")
    if plots is not None:
        _plot(plots, pools, results, reading.answer)


def _default_policies(pools: Sequence[Pool], protocol: ReplayConfig) -> tuple[str, ...]:
    if protocol.weighted:
        return DEFAULT_WEIGHTED
    offline, online = (DEFAULT_CLOCK, ("price",)) if protocol.clock else (DEFAULT, DEFAULT_ONLINE)
    try:
        for pool in pools:
            protocol.train_of(len(pool.questions))
    except InputError as error:
        say(f"Online policies are left out: {error}")
        return offline
    return offline + online


def _print_mixture(
    pools: Sequence[Pool], weights: tuple[float, ...], protocol: ReplayConfig, answer: str | None
) -> None:
    """Print the mixture's vote beside each model's, and the score of models and weights chosen on other questions."""
    others = [row for row in usual_mixtures(len(weights)) if shares_of(row) != shares_of(weights)]
    try:
        lab = mixture_lab(
            pools,
            answer=answer,
            mixtures=[weights, *others],
            sizes=[size for size in SIZES if size <= protocol.size],
            repetitions=protocol.repetitions,
            seed=protocol.seed,
        )
    except InputError as error:  # without gold there is no accuracy
        say(str(error))
        return
    print_table(report.mixture_table(lab, shown=len(weights) + 1))
    print_table(report.choice_table(lab, [choose_and_score(lab, size, protocol.seed) for size in lab.sizes]))


def _plot(folder: Path, pools: Sequence[Pool], results: Sequence[PoolResult], answer: str | None) -> None:
    """Save each pool's charts: curves, difficulty and reliability, or time against tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Chart] = {}
    for pool, result in zip(pools, results, strict=True):
        if result.config.clock:
            files[f"{pool.name}.clock"] = report.draw_clock(result)
        else:
            files[f"{pool.name}.curves"] = report.draw_curves(result)
            files[f"{pool.name}.difficulty"] = report.draw_difficulty(result, read_answers(pool, answer))
        if reliability := certificates([result]):
            title = f"{pool.name}: are certificates what they say?"
            files[f"{pool.name}.reliability"] = report.draw_reliability(reliability, title)
    if len(results) > 1 and (reliability := certificates(results)):
        files["reliability"] = report.draw_reliability(reliability, f"Certificates of {len(results)} pools")
    for name, picture in files.items():
        say(f"{', '.join(map(str, report.save(picture, folder / name)))} written.")
