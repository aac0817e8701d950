"""``pets fit``: a plan for a stream, from a recorded pool."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from pets.cli._groups import option, verb
from pets.cli._output import check_output
from pets.cli._pools import PoolOptions
from pets.cli._terminal import echo
from pets.cli.options import FILE
from pets.core.patterns import K0
from pets.errors import InputError
from pets.plans import fit_plan, plan_text, write_plan
from pets.plans.plan import is_plan_file
from pets.pools import pool_files

__all__ = ["fit"]


@dataclass(frozen=True, slots=True)
class FitPlanOptions:
    """What the plan is to allow."""

    title: ClassVar[str] = "Plan"

    mean_budget: float = option("How many traces per question the stream may spend on average.", 16.0)
    max_traces: int = option(
        "How many traces a question gets at most.", 64, at_least=4, replaces=("--max-per-question",)
    )
    rounds: int = option("In how many parallel batches a question may be sampled; 0 sets no limit.", 3, at_least=0)
    zone: float = option(
        "The lead, as a share of all traces, that another answer needs to matter, such as 0.1; 0 settles every tie.",
        0.0,
        kind=click.FloatRange(0, 1, max_open=True),
    )
    seed: int = option("What the orders of traces are drawn from.", 0, at_least=0)


@dataclass(frozen=True, slots=True)
class PlanFileOptions:
    """Where the plan goes."""

    title: ClassVar[str] = "Output"

    output: Path | None = option("The plan's file; without one, stdout.", flags=("-o", "--output"), kind=FILE)


@verb()
@click.argument("pool", type=click.Path(path_type=Path))
def fit(pool: Path, goal: FitPlanOptions, reading: PoolOptions, result: PlanFileOptions) -> None:
    """Fit a plan to POOL, a file of recorded answers, or "starter". No gold is needed, and
    --answer reads the texts of a pool that holds no answers yet.

    \b
    pets fit mine.jsonl --mean-budget 16 --rounds 3 -o plan.json
    pets plan show plan.json
    pets stream --plan plan.json --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B < questions.jsonl

    Every question of a stream gets four traces; what they show and what is left of the budget decide how many more, in
    at most --rounds batches of parallel traces. The plan is readable JSON.
    """
    check_output(result.output, pool)
    _check_replaces_plan(result.output)
    (path,) = pool_files([pool]) if not pool.is_dir() else (pool,)
    labelled = reading.label(reading.read(path), min_traces=K0)
    plan = fit_plan(labelled, goal.mean_budget, goal.rounds, cap=goal.max_traces, zone=goal.zone, seed=goal.seed)
    if result.output is None:
        echo(*plan_text(plan).rstrip("\n").split("\n"))
        return
    write_plan(plan, result.output)
    source = plan.provenance
    echo(
        f"{result.output}: a plan for {goal.mean_budget:g} traces per question, from {source.questions:,} questions "
        f"with {source.traces:,} traces.",
        err=True,
    )


def _check_replaces_plan(path: Path | None) -> None:
    """Refuse to write over a file that holds something else than a plan."""
    if path is not None and path.is_file() and path.stat().st_size and not is_plan_file(path):
        raise InputError(f'"{path}" is there already and is no plan: it stays as it is. Choose another file for -o.')
