"""Self-consistency and accuracy against traces per question, every policy of a pool in one figure.

A :class:`Series` is what a line shows: the mean of one metric over repetitions and its deviation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pets.replay import PoolResult
from pets.replay.results import Floats, Result
from pets.report.style import GREY, blank, places_of, quiet_grid, style_of, trace_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Series", "draw_curves", "series", "title_of"]

MAX_POINTS = 400  # of a curve with a point for every trace: more than a plot is wide


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """``traces``, ``mean`` and ``deviation``, (V,) each, cheapest point first; ``swept`` where points are few."""

    label: str
    swept: bool
    traces: Floats
    mean: Floats
    deviation: Floats


def series(result: Result, values: Floats) -> Series:
    """The line of ``values`` (R, V) of a result; a curve is thinned to the points that a plot can show.

    Points of a sweep are averaged value by value; with one repetition the deviation is 0.
    """
    points = _points(result)
    traces, values = result.traces[:, points].mean(axis=0), values[:, points]
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(points))
    order = np.argsort(traces, kind="stable")
    label = f"{result.policy} (stream)" if result.setting == "online" else result.policy
    return Series(label, result.option is not None, traces[order], values.mean(axis=0)[order], deviation[order])


def _points(result: Result) -> list[int]:
    """All points of a sweep; of a curve, evenly on a logarithmic axis from one trace per question on."""
    if result.option is not None:
        return list(range(len(result.values)))
    last = result.agree.shape[1] - 1
    points: list[int] = np.unique(
        np.geomspace(min(result.questions, last), last, MAX_POINTS).round().astype(int)
    ).tolist()
    return points


TARGETS = {"whole": "the vote of all traces drawn", "disjoint": "the vote of traces the policy cannot draw"}


def draw_curves(pool: PoolResult) -> "Figure":
    """A panel of self-consistency and, where gold is known, one of accuracy; streams have a row of their own.

    Bands and whiskers are one deviation over repetitions. A policy followed trace by trace is a line with a band, a
    swept one has a dot at each value of its sweep. Pass@1 and the vote of all recorded traces bound the accuracy.
    """
    streams = [result for result in pool.results if result.setting == "online"]
    batches = [result for result in pool.results if result.setting != "online"]
    parts = {"all questions at once": batches, "questions one by one, after training on others": streams}
    shown = {name: results for name, results in parts.items() if results}
    judged = pool.pass_at_1 is not None
    figure = blank(13 if judged else 7, 4.5 * len(shown) + 0.7)
    grid = figure.subplots(len(shown), 1 + judged, squeeze=False)
    places = places_of(dict.fromkeys(r.policy for r in pool.results))
    for row, (name, results) in zip(grid, shown.items(), strict=True):
        _consistency(row[0], pool, results, places)
        row[0].set_title(name, fontsize=10, loc="left")
        if judged:
            _accuracy(row[1], pool, results, places)
    figure.suptitle(title_of(pool), fontsize=11)
    return figure


def title_of(pool: PoolResult) -> str:
    """Pool, target, and what was averaged."""
    config = pool.config
    weights = ", weighted by confidence" if config.weighted else ""
    return (
        f"{pool.pool}: how often a vote is {TARGETS[config.target]}{weights}\n"
        f"{pool.questions} questions x {pool.size} traces, {config.repetitions} repetitions"
    )


def _consistency(axes: "Axes", pool: PoolResult, results: Sequence[Result], places: Mapping[str, int]) -> None:
    _lines(axes, [(places[r.policy], series(r, r.consistency)) for r in results], pool.size)
    axes.set_ylabel("self-consistency")
    if pool.config.target == "disjoint":
        _bound(axes, float(results[0].ceiling.mean()), "ceiling: all traces of the policy's half")
    axes.legend(loc="lower right", fontsize=8, framealpha=0.8, edgecolor="none").set_zorder(6)


def _accuracy(axes: "Axes", pool: PoolResult, results: Sequence[Result], places: Mapping[str, int]) -> None:
    _lines(axes, [(places[r.policy], series(r, r.accuracy)) for r in results], pool.size)
    axes.set_ylabel("accuracy")
    if pool.vote_accuracy is not None:
        _bound(axes, pool.vote_accuracy, "vote of the full pool")
    if pool.pass_at_1 is not None:
        _bound(axes, pool.pass_at_1, "pass@1", right=True)


def _lines(axes: "Axes", lines: Sequence[tuple[int, Series]], size: int) -> None:
    for place, line in lines:
        style = style_of(place)
        low, high = line.mean - line.deviation, line.mean + line.deviation
        if line.swept:
            axes.plot(line.traces, line.mean, label=line.label, linewidth=1.0, markersize=4, zorder=3, **style)
            axes.vlines(line.traces, low, high, color=style["color"], linewidth=0.8, alpha=0.35, zorder=2)
        else:
            style["marker"] = ""
            axes.plot(line.traces, line.mean, label=line.label, linewidth=1.7, zorder=3, **style)
            axes.fill_between(line.traces, low, high, color=style["color"], alpha=0.13, linewidth=0, zorder=1)
    trace_axis(axes, 0.97, max(2, size) * 1.05)
    axes.set_ylim(*_span([line for _, line in lines]))
    axes.set_xlabel("mean traces per question")
    quiet_grid([axes])


def _span(lines: Sequence[Series]) -> tuple[float, float]:
    """All means and most of the bands, with some air: a few wide bands must not press the lines flat."""
    means = np.concatenate([line.mean for line in lines])
    below = np.nanquantile(np.concatenate([line.mean - line.deviation for line in lines]), 0.2)
    above = np.nanquantile(np.concatenate([line.mean + line.deviation for line in lines]), 0.8)
    low, high = float(min(np.nanmin(means), below)), float(max(np.nanmax(means), above))
    air = 0.05 * max(high - low, 0.02)
    return low - air, min(high, 1.0) + air


def _bound(axes: "Axes", value: float, name: str, *, right: bool = False) -> None:
    """A horizontal line with its name inside the picture, at the end that the rising lines leave free."""
    low, high = axes.get_ylim()
    air = 0.05 * (high - low)
    axes.set_ylim(min(low, value - air), max(high, value + air))
    axes.axhline(value, color=GREY, linewidth=1.2, linestyle=(0, (6, 3)), zorder=2)
    above = value < high - 2 * air  # over the line, unless that leaves the picture
    axes.annotate(
        f"{name} {value:.3f}",
        (int(right), value),
        xycoords=("axes fraction", "data"),
        xytext=(-2 if right else 4, 4 if above else -4),
        textcoords="offset points",
        ha="right" if right else "left",
        va="bottom" if above else "top",
        fontsize=8,
        bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1},
        zorder=5,
    )
