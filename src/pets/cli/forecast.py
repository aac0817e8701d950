"""``pets forecast``: what budget for which self-consistency, from a run or a pool."""

import json
from pathlib import Path

import click
import numpy as np
import plotext

from pets.core.tally import Tally
from pets.engine.forecast import Forecast
from pets.engine.forecast import forecast as play_on
from pets.engine.outlook import tallies_of
from pets.engine.runs import restored
from pets.errors import InputError
from pets.pools import pool_files, read_pool
from pets.registry import make_policy
from pets.replay import replay
from pets.store import Store

__all__ = ["forecast"]

REPETITIONS = 10


@click.command(short_help="What budget for 99 %? From a run or a pool.")
@click.argument("run", metavar="RUN|POOL", default="last")
@click.option("--store", type=click.Path(dir_okay=False), help="The file that holds the run.")
@click.option("--target", "targets", type=click.FloatRange(0, 1, True, True), multiple=True, default=(0.95, 0.99))
@click.option("--policy", default="okg", show_default=True, help="An index policy that sees counts.")
@click.option("--up-to", type=click.FloatRange(min=1), default=32.0, show_default=True, help="Mean traces a question.")
@click.option("--runs", type=click.IntRange(1, 100), default=8, show_default=True, help="Simulated or replayed runs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def forecast(
    run: str, store: str | None, targets: tuple[float, ...], policy: str, up_to: float, runs: int, seed: int
) -> None:
    """Say which mean budget reaches which self-consistency, with the curve.

    \b
    pets forecast last --store runs.db --target 0.99       a run, finished or not
    pets forecast gpqa.jsonl                               a recorded pool, by replaying it

    A run is played on under the prior that its own traces teach. A pool is replayed: its self-consistency is
    agreement with the vote of the traces drawn. One line of JSON on stdout, the curve on stderr.
    """
    if store is None:
        found, questions = _replayed(Path(run), policy, up_to, runs, seed)
    else:
        tallies, cap = _run(store, run)
        chosen = make_policy(policy)
        found = play_on(tallies, chosen, up_to=up_to, cap=cap and max(cap, int(up_to)), runs=runs, seed=seed)
        questions = len(tallies)
    _draw(found)
    answers = {f"{target:g}": found.budget_for(target) for target in targets}
    for target, mean in answers.items():
        words = f"more than {up_to:g}x" if mean is None else f"{mean:.1f}x ({round(mean * questions):,} traces in all)"
        click.echo(f"self-consistency {target}: {words}", err=True)
    curve = [
        [round(float(x), 3), round(float(y), 4)] for x, y in zip(found.mean_budget, found.consistency, strict=True)
    ]
    click.echo(json.dumps({"questions": questions, "mean_budget_for": answers, "curve": curve}))


def _run(store: str, run: str) -> tuple[list[Tally], int | None]:
    with Store.open(store, create=False) as opened:
        view = opened.view(run)
        allocator = restored(view)
        return tallies_of(allocator, [problem.id for problem in view.problems()]), view.settings.cap


def _replayed(path: Path, policy: str, up_to: float, runs: int, seed: int) -> tuple[Forecast, int]:
    (found,) = pool_files([path]) if not path.is_dir() else (path,)
    if not found.exists():
        raise InputError(f'there is no pool "{path}"; for a run, name its --store.')
    pool = read_pool(found)
    (result,) = replay([pool], [policy], repetitions=runs, seed=seed)[0].results
    if result.option is not None:
        raise InputError(f"{policy} has no curve over budgets; choose an index policy such as okg.")
    traces, values = result.traces[0], result.consistency
    grid = np.linspace(1.0, min(up_to, float(traces[-1])), 96)
    curves = np.array([np.interp(grid, traces, row) for row in values])
    return Forecast(grid, curves.mean(axis=0), curves.std(axis=0)), len(pool.questions)


def _draw(found: Forecast) -> None:
    plotext.clear_figure()
    plotext.plot(found.mean_budget.tolist(), found.consistency.tolist())
    plotext.title("expected self-consistency against mean traces a question")
    plotext.plot_size(width=min(90, plotext.terminal_width() or 90), height=16)
    click.echo(plotext.build(), err=True)
