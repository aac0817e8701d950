"""``pets demo``: any two policies side by side on synthetic questions of known difficulty."""

from collections.abc import Iterator

import click
import numpy as np
import plotext
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import IndexPolicy, Policy
from pets.registry import make_policy
from pets.types import Question, Trace

__all__ = ["demo"]

OPTIONS = "ABCD"
STRENGTH = 0.2  # of the Dirichlet that questions come from: how seldom a model disagrees with itself
CAP = 64
MEANS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24)
TARGETS = (0.90, 0.95, 0.98)

Curve = NDArray[np.float64]


@click.command()
@click.option("--questions", default=200, show_default=True, type=click.IntRange(1, 100_000), help="How many.")
@click.option("--policy", default="okg", show_default=True, help='A policy, such as "okg:prior=0.5".')
@click.option("--against", default="uniform", show_default=True, help="The policy to compare it with.")
@click.option("--repetitions", default=10, show_default=True, type=click.IntRange(1, 1000), help="Runs to average.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same table.")
def demo(questions: int, policy: str, against: str, repetitions: int, seed: int) -> None:
    """Compare two policies on synthetic questions whose answer distribution is known.

    Self-consistency is the share of questions whose vote equals the infinite-budget vote. Both policies see the
    same traces. Nothing is sampled from a model here.
    """
    policies = {spec: make_policy(spec) for spec in dict.fromkeys((policy, against))}
    console = Console(stderr=True)
    population = f"{questions} synthetic questions, {len(OPTIONS)} options, Dir({STRENGTH})"
    console.print(f"{population}; {repetitions} repetitions, seed {seed}")
    curves: dict[str, list[Curve]] = {spec: [] for spec in policies}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("running", total=repetitions * len(policies))
        for repetition in range(repetitions):
            rng = np.random.default_rng([seed, repetition])
            theta = rng.dirichlet([STRENGTH] * len(OPTIONS), size=questions)
            draws = np.array([rng.choice(len(OPTIONS), size=CAP, p=row) for row in theta])
            for spec, chosen in policies.items():
                curves[spec].append(consistency_curve(chosen, theta, draws, seed))
                progress.advance(bar)
    means = {spec: np.mean(runs, axis=0) for spec, runs in curves.items()}
    Console().print(_table(means, curves))
    _plot(means)


def consistency_curve(policy: Policy, theta: Curve, draws: NDArray[np.int64], seed: int) -> Curve:
    """Share of questions whose vote is argmax theta with a mean budget of each of MEANS; shape (len(MEANS),).

    An index policy's run of a large budget begins with its runs of smaller ones; a quota policy plans for its budget,
    so that it is run anew for each.
    """
    if isinstance(policy, IndexPolicy):
        curve = _run(policy, theta, draws, seed, MEANS[-1])
        return curve[[mean * len(theta) - 1 for mean in MEANS]]
    means = [mean for mean in MEANS if mean >= policy.warmup]
    ends = [_run(policy, theta, draws, seed, mean)[-1] for mean in means]
    return np.array([np.nan] * (len(MEANS) - len(means)) + ends)


def _run(policy: Policy, theta: Curve, draws: NDArray[np.int64], seed: int, mean: int) -> Curve:
    """The same share after 1, 2, 3, ... traces in all; shape (mean * questions,)."""
    total = mean * len(theta)
    target = [OPTIONS[i] for i in theta.argmax(axis=1)]
    asked = [Question(str(i), options=len(OPTIONS)) for i in range(len(theta))]
    allocator = Allocator(policy, Budget(total, cap=CAP), asked, seed=seed)
    right = np.zeros(len(theta), dtype=bool)
    curve = []
    for i, number in _launches(allocator):
        allocator.tell(Trace(str(i), number, OPTIONS[draws[i, number]], confidence=1.0))
        right[i] = allocator.verdict(str(i)).answer == target[i]
        curve.append(right.mean())
    return np.array(curve + curve[-1:] * (total - len(curve)))


def _launches(allocator: Allocator) -> Iterator[tuple[int, int]]:
    """One launch at a time until the allocator wants no more."""
    while launches := allocator.ask():
        yield int(launches[0].question), launches[0].number


def _table(means: dict[str, Curve], curves: dict[str, list[Curve]]) -> Table:
    table = Table(title="self-consistency (mean ± deviation)")
    table.add_column("traces a question", justify="right")
    for spec in means:
        table.add_column(spec, justify="right")
    for at, mean in enumerate(MEANS):
        cells = (f"{means[spec][at]:.3f} ± {np.std([run[at] for run in curves[spec]]):.3f}" for spec in means)
        table.add_row(str(mean), *cells)
    table.add_section()
    for target in TARGETS:
        table.add_row(f"to reach {target:.2f}", *(_reached(curve, target) for curve in means.values()))
    return table


def _reached(curve: Curve, target: float) -> str:
    """Mean traces a question at which the curve crosses the target, between two of MEANS."""
    over = np.flatnonzero(curve >= target)
    if not over.size:
        return "not reached"
    i = int(over[0])
    if i == 0 or np.isnan(curve[i - 1]):
        return f"{MEANS[i]}"
    part = (target - curve[i - 1]) / (curve[i] - curve[i - 1])
    return f"{MEANS[i - 1] + part * (MEANS[i] - MEANS[i - 1]):.1f}"


def _plot(means: dict[str, Curve]) -> None:
    plotext.clear_figure()
    for spec, curve in means.items():
        known = np.flatnonzero(~np.isnan(curve))
        plotext.plot([MEANS[i] for i in known], curve[known].tolist(), label=spec)
    plotext.title("self-consistency against mean traces a question")
    plotext.plot_size(width=min(90, plotext.terminal_width() or 90), height=20)
    click.echo(plotext.build())  # click drops the colours where stdout is no terminal
