"""Budget against difficulty: what each question got where its policy's mean curve is at a self-consistency.

A few repetitions are enough to see a shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pets.replay import PoolResult, mean_curve, traces_at_mean
from pets.replay.labelled import LabelledPool, LabelledQuestion
from pets.replay.results import Floats, Result
from pets.report.curves import title_of
from pets.report.style import GREY, PALETTE, blank, quiet_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Spread", "draw_difficulty", "spreads"]

LEVEL = 0.99
NO_TRACE_AT = 0.5  # where no trace at all stands on a logarithmic axis
MAX_DOTS = 400  # about how many questions, all repetitions counted, are enough to see a shape


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Mean traces given to each question, (N,); NaN where it only trained. ``None``: the level is never reached."""

    label: str
    traces: Floats | None


def spreads(results: PoolResult, level: float = LEVEL) -> list[Spread]:
    """What every policy gave to each question where its mean curve is at ``level``."""
    repetitions = max(1, MAX_DOTS // results.questions)
    spread = []
    for result in results.results:
        point = _point(result, level)
        rows = [] if point is None else [allocation.at(point) for allocation in result.allocations[:repetitions]]
        label = f"{result.policy} (stream)" if result.setting == "online" else result.policy
        spread.append(Spread(label, _mean(rows) if rows else None))
    return spread


def leader_share(question: LabelledQuestion) -> float:
    """The leader's share of all votes that were recorded; 0 where there is none."""
    votes = [label for label in question.labels if label is not None]
    return max(map(votes.count, set(votes)), default=0) / max(1, len(votes))


def draw_difficulty(results: PoolResult, pool: LabelledPool, level: float = LEVEL) -> "Figure":
    """A panel for each policy, a dot for each question, and the mean of each tenth of the leader's share."""
    panels = spreads(results, level)
    shares = np.array([leader_share(question) for question in pool.questions])
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = blank(3.1 * columns, 2.5 * rows + 1.0)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel().tolist()
    _trace_ticks(grid[0], panels, results.size)
    for axes, spread in zip(grid, panels, strict=False):
        _panel(axes, spread, shares, level)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    of = " of the ceiling" if results.config.target == "disjoint" else ""
    figure.suptitle(
        f"{title_of(results)}\ntraces per question where mean self-consistency is {level:g}{of}", fontsize=11
    )
    figure.supxlabel("the leader's share of all recorded votes (right: easy)", fontsize=10)
    figure.supylabel("traces", fontsize=10)
    return figure


def _point(result: Result, level: float) -> int | None:
    """The point nearest to where the mean curve is at the level."""
    spend = traces_at_mean(result, level)
    return None if np.isnan(spend) else int(np.abs(mean_curve(result)[0] - spend).argmin())


def _mean(rows: Sequence[Floats]) -> Floats:
    """The mean of what is known of each question; a question that trained every time has none."""
    finite = np.isfinite(rows)
    return np.where(
        finite.any(axis=0), np.where(finite, rows, 0.0).sum(axis=0) / np.maximum(1, finite.sum(axis=0)), np.nan
    )


def _trace_ticks(axes: "Axes", panels: Sequence[Spread], size: int) -> None:
    """A logarithmic axis of traces; a question that got none stands at a tick of its own."""
    ticks = [2**power for power in range(20) if 2**power <= size]
    names = list(map(str, ticks))
    none = any(bool(np.any(spread.traces < 1)) for spread in panels if spread.traces is not None)
    axes.set_yscale("log", base=2)
    axes.set_yticks([NO_TRACE_AT] * none + ticks, labels=["<1"] * none + names)
    axes.set_ylim(0.8 * (NO_TRACE_AT if none else 1), size * 1.25)


def _panel(axes: "Axes", spread: Spread, shares: Floats, level: float) -> None:
    axes.set_xlim(min(0.95, float(shares.min())) - 0.03, 1.03)
    quiet_grid([axes])
    axes.set_title(spread.label, fontsize=10)
    if spread.traces is None:
        axes.text(0.5, 0.5, f"never reaches {level:g}", transform=axes.transAxes, ha="center", color=GREY)
        return
    finite = np.isfinite(spread.traces)
    x, y = shares[finite], spread.traces[finite]
    axes.set_title(f"{spread.label}: mean {y.mean():.1f}", fontsize=10)
    axes.scatter(x, np.maximum(y, NO_TRACE_AT), s=12, alpha=0.3, color=PALETTE[0], linewidths=0)
    tenths = np.minimum((x * 10).astype(int), 9)
    means = [(x[tenths == t].mean(), y[tenths == t].mean()) for t in np.unique(tenths).tolist()]
    axes.plot(*zip(*means, strict=True), color=PALETTE[1], linewidth=1.6, marker="o", markersize=3)
