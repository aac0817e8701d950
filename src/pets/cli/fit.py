"""``pets fit``: a plan for a stream, from a recorded pool."""

from pathlib import Path

import click

from pets.cli._run import check_output
from pets.plans import fit_plan, plan_text, write_plan
from pets.pools import pool_files, read_pool

__all__ = ["fit"]


@click.command(short_help="Make a plan for a stream from a recorded pool.")
@click.argument("pool", type=click.Path(path_type=Path))
@click.option("--mean-budget", type=float, default=16.0, show_default=True, help="Mean traces a question.")
@click.option(
    "--rounds", type=click.IntRange(min=0), default=3, show_default=True, help="Parallel batches; 0: no limit."
)
@click.option(
    "--max-per-question", "cap", type=click.IntRange(min=4), default=64, show_default=True, help="Traces at most."
)
@click.option("--answer", help="How recorded answers are read: choice, number, math, text, raw.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the orders of traces.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The plan; else stdout.")
def fit(
    pool: Path, mean_budget: float, rounds: int, cap: int, answer: str | None, seed: int, output: Path | None
) -> None:
    """Fit a plan to POOL, a file of recorded answers, or "starter". No gold is needed.

    \b
    pets fit mine.jsonl --mean-budget 16 --rounds 3 -o plan.json
    pets plan show plan.json
    pets stream --plan plan.json --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B < questions.jsonl

    Every question of a stream gets four traces; what they show and what is left of the budget decide how many more, in
    at most so many rounds of parallel traces. The plan is readable JSON.
    """
    check_output(output)
    (file,) = pool_files([pool]) if not pool.is_dir() else (pool,)
    plan = fit_plan(read_pool(file), mean_budget, rounds, cap=cap, answer=answer, seed=seed)
    if output is None:
        click.echo(plan_text(plan), nl=False)
        return
    write_plan(plan, output)
    source = plan.provenance
    click.echo(
        f"{output}: a plan for {mean_budget:g} traces a question, from {source.questions:,} questions with "
        f"{source.traces:,} traces.",
        err=True,
    )
