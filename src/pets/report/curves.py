"""Self-consistency and accuracy against traces per question, every policy of a pool in one figure.

A :class:`Series` is what a line shows: a metric at some numbers of traces, and the band about it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pets.lab import PoolResult
from pets.lab.results import Floats, Result
from pets.report.style import GREY, Chart, LineStyle, by_label, layer, line_styles, titled, trace_axis

__all__ = ["Bound", "Series", "curve_panel", "draw_curves", "series", "title_of"]

MAX_POINTS = 160  # of a curve with a point for every trace
PANEL_WIDTH, PANEL_HEIGHT = 420, 280


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """``traces``, ``mean``, ``low`` and ``high``, (V,) each, cheapest point first; ``swept``: points, not a line."""

    label: str
    swept: bool
    traces: Floats
    mean: Floats
    low: Floats
    high: Floats

    @classmethod
    def about(cls, label: str, swept: bool, traces: Floats, mean: Floats, reach: Floats) -> Self:
        """With bands that reach equally far up and down, within 0 and 1."""
        return cls(label, swept, traces, mean, np.maximum(0.0, mean - reach), np.minimum(1.0, mean + reach))

    def rows(self) -> list[dict[str, Any]]:
        """The points of the line, as a chart's data; those without a mean or before the first trace left out."""
        columns = zip(*(column.tolist() for column in (self.traces, self.mean, self.low, self.high)), strict=True)
        return [
            {
                "label": self.label,
                "swept": self.swept,
                "traces": round(traces, 3),
                "mean": round(mean, 5),
                "low": round(low, 5),
                "high": round(high, 5),
            }
            for traces, mean, low, high in columns
            if np.isfinite(mean) and traces > 0
        ]


@dataclass(frozen=True, slots=True)
class Bound:
    """A horizontal line with its name."""

    value: float
    name: str


def series(result: Result, values: Floats) -> Series:
    """The line of ``values`` (R, V) of a result; a curve is thinned to the points that a plot can show.

    Points of a sweep are averaged value by value; with one repetition the deviation is 0.
    """
    points = _points(result)
    traces, values = result.traces[:, points].mean(axis=0), values[:, points]
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(points))
    order = np.argsort(traces, kind="stable")
    mean = values.mean(axis=0)[order]
    return Series.about(result.policy, result.option is not None, traces[order], mean, deviation[order])


def _points(result: Result) -> list[int]:
    """All points of a sweep; of a curve, evenly on a logarithmic axis from one trace per question on."""
    if result.option is not None:
        return list(range(len(result.values)))
    last = result.agree.shape[1] - 1
    points: list[int] = np.unique(
        np.geomspace(min(result.questions, last), last, MAX_POINTS).round().astype(int)
    ).tolist()
    return points


TARGETS = {"whole": "the answer of all traces drawn", "disjoint": "the answer of traces that the policy cannot draw"}


def draw_curves(pool: PoolResult) -> Chart:
    """A panel of self-consistency and, where gold is known, one of accuracy; streams have a row of their own.

    Bands and whiskers are one deviation over draws. A policy followed trace by trace is a line with a band; a stopping
    rule is the points that its thresholds give. Pass@1 and the vote of all recorded traces bound the accuracy.
    """
    streams = [result for result in pool.results if result.setting == "online"]
    batches = [result for result in pool.results if result.setting != "online"]
    parts = {"all questions at once": batches, "questions one by one, after training on others": streams}
    styles = line_styles(dict.fromkeys(result.policy for result in pool.results))
    legend = legend_of([series(result, result.consistency) for result in pool.results], styles)
    panels = [_row(pool, name, results, styles, legend) for name, results in parts.items() if results]
    title, subtitle = title_of(pool)
    return titled({"vconcat": panels}, title, subtitle)


def title_of(pool: PoolResult) -> tuple[str, list[str]]:
    """What is shown, in a reader's words; the pool and what was averaged."""
    config = pool.config
    weights = ", votes weighted by confidence" if config.weighted else ""
    return f"How often the vote is {TARGETS[config.target]}{weights}", [
        f"{pool.pool}: {pool.questions} questions, {pool.size} traces each, {config.repetitions} draws.",
        "Lines: followed trace by trace; points: one for each threshold of a stopping rule, or each mean budget.",
        "Bands and whiskers: one standard deviation over draws.",
    ]


def _row(
    pool: PoolResult,
    name: str,
    results: Sequence[Result],
    styles: Mapping[str, LineStyle],
    legend: Mapping[str, Any],
) -> Chart:
    """The panels of one setting beside each other, with a legend in common."""
    consistency = [series(result, result.consistency) for result in results]
    ceiling = [Bound(float(results[0].ceiling.mean()), "all traces of the policy's half")]
    bounds = ceiling if pool.config.target == "disjoint" else []
    panels = [curve_panel(consistency, styles, "self-consistency", pool.size, bounds, legend)]
    if pool.pass_at_1 is not None:
        accuracy = [series(result, result.accuracy) for result in results]
        known = {"vote of the full pool": pool.vote_accuracy, "one trace (pass@1)": pool.pass_at_1}
        bounds = [Bound(value, name) for name, value in known.items() if value is not None]
        panels.append(curve_panel(accuracy, styles, "accuracy", pool.size, bounds, legend))
    return {"title": {"text": name, "fontSize": 13}, "hconcat": panels}


def legend_of(lines: Sequence[Series], styles: Mapping[str, LineStyle]) -> dict[str, Any]:
    """Colour, dashes and shape of these lines and points."""
    points = {line.label for line in lines if line.swept}
    return by_label(styles, points, {line.label for line in lines if not line.swept})


def curve_panel(
    lines: Sequence[Series],
    styles: Mapping[str, LineStyle],
    name: str,
    size: float,
    bounds: Sequence[Bound] = (),
    legend: Mapping[str, Any] | None = None,
) -> Chart:
    """One panel: lines with bands, points with whiskers, bounds with their names.

    Panels that share a ``legend`` are given it.
    """
    rows = [row for line in lines for row in line.rows()]
    y = {"type": "quantitative", "title": name, "axis": {"format": ".0%"}, "scale": {"domain": _span(rows, bounds)}}
    x = trace_axis(size)
    legend = legend_of(lines, styles) if legend is None else legend
    tooltip = [
        {"field": "label", "title": "policy"},
        {"field": "traces", "title": "traces per question", "format": ".2f"},
        {"field": "mean", "title": name, "format": ".1%"},
        {"field": "low", "title": "band from", "format": ".1%"},
        {"field": "high", "title": "band to", "format": ".1%"},
    ]
    spread = {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}, "color": legend["color"]}
    point = {"x": x, "y": {"field": "mean", **y}, "tooltip": tooltip}
    dashes, shape = ({name: legend[name] for name in ("color", name)} for name in ("strokeDash", "shape"))
    followed, swept = {"transform": [{"filter": "!datum.swept"}]}, {"transform": [{"filter": "datum.swept"}]}
    layers: list[Chart] = [
        followed | layer("area", None, {"opacity": 0.15, "clip": True}, **spread),
        swept | layer("rule", None, {"opacity": 0.4, "clip": True}, **spread),
        followed | layer("line", None, {"strokeWidth": 2, "clip": True}, **point, **dashes),
        swept | layer("point", None, {"filled": True, "size": 48, "clip": True, "opacity": 1}, **point, **shape),
        followed | layer("point", None, {"size": 60, "opacity": 0, "clip": True}, **point),
    ]
    layers += [part for bound in bounds for part in _bound(bound, y)]
    return {"data": {"values": rows}, "width": PANEL_WIDTH, "height": PANEL_HEIGHT, "layer": layers}


def _span(rows: Sequence[dict[str, Any]], bounds: Sequence[Bound]) -> list[float]:
    """All means and whiskers and most of the bands, with some air: a few wide bands must not press the lines flat."""
    shown = [row["mean"] for row in rows] + [bound.value for bound in bounds]
    shown += [row[end] for row in rows if row["swept"] for end in ("low", "high")]
    low = min(*shown, float(np.quantile([row["low"] for row in rows], 0.2)))
    high = max(*shown, float(np.quantile([row["high"] for row in rows], 0.8)))
    air = 0.05 * max(high - low, 0.02)
    return [round(max(0.0, low - air), 4), round(min(1.0, high + air), 4)]


def _bound(bound: Bound, y: dict[str, Any]) -> list[Chart]:
    rows = [{"mean": bound.value, "name": f"{bound.name} {bound.value:.1%}"}]
    height = {"field": "mean", **y}
    text = {"align": "left", "baseline": "bottom", "dx": 4, "dy": -3}
    return [
        layer("rule", rows, {"color": GREY, "strokeDash": [6, 3]}, y=height),
        layer("text", rows, text, y=height, x={"value": 0}, text={"field": "name"}),
    ]
