"""The charts of a replayed pool: its curves, where the budget went, and whether certificates are what they say.

A :class:`Series` is a line of :func:`draw_curves`: a metric at some numbers of traces, and the band about it.
:func:`draw_difficulty` shows what each question got where its policy's mean curve is at a self-consistency; a few
repetitions are enough to see a shape. :func:`draw_reliability` shows how often a leader is right whose certificate says
how likely that is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pets.engine.progress import wilson
from pets.lab import PoolResult, mean_curve, traces_at_mean
from pets.lab.calibration import Calibration
from pets.lab.draws import Floats
from pets.lab.labelled import LabelledPool, leader_share
from pets.lab.results import Result
from pets.report.style import Chart, LineStyle, by_label, colour_of, line_styles, template, titled, trace_axis

MAX_POINTS = 160  # of a curve with a point for every trace
LEVEL = 0.99  # of self-consistency, at which the spread over questions is shown
NO_TRACE_AT = 0.5  # where no trace at all stands on a logarithmic axis
MAX_DOTS = 400  # about how many questions, all repetitions counted, are enough to see a shape
FEW = 20  # certificates; a bin with fewer says little and is drawn faintly
TARGETS = {"whole": "the answer of all traces drawn", "disjoint": "the answer of traces that the policy cannot draw"}
CURVES_LEGEND = (
    "Lines: followed trace by trace; points: one for each threshold of a stopping rule, or each mean budget.",
    "Bands and whiskers: one standard deviation over draws.",
)


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
        """A series whose bands reach equally far up and down, within 0 and 1."""
        return cls(label, swept, traces, mean, np.maximum(0.0, mean - reach), np.minimum(1.0, mean + reach))

    def rows(self) -> list[dict[str, Any]]:
        """The points of the line, as a chart's data; those without a mean or before the first trace left out."""
        columns = zip(*(column.tolist() for column in (self.traces, self.mean, self.low, self.high)), strict=True)
        return [
            {"label": self.label, "swept": self.swept, "traces": round(traces, 3)}
            | {"mean": round(mean, 5), "low": round(low, 5), "high": round(high, 5)}
            for traces, mean, low, high in columns
            if np.isfinite(mean) and traces > 0
        ]


Bound = tuple[str, float]
"""A horizontal line: its name, and where it is."""


def series(result: Result, values: Floats) -> Series:
    """The line of ``values`` (R, V) of a result; a curve is thinned to the points that a plot can show.

    Points of a sweep are averaged value by value; with one repetition the deviation is 0.
    """
    points = list(range(len(result.values)))  # all of a sweep
    if result.option is None:  # of a curve, evenly on a logarithmic axis from one trace per question on
        last = result.agree.shape[1] - 1
        points = np.unique(np.geomspace(min(result.questions, last), last, MAX_POINTS).round().astype(int)).tolist()
    traces, values = result.traces[:, points].mean(axis=0), values[:, points]
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(points))
    order = np.argsort(traces, kind="stable")
    mean = values.mean(axis=0)[order]
    return Series.about(result.policy, result.option is not None, traces[order], mean, deviation[order])


def draw_curves(pool: PoolResult) -> Chart:
    """A panel of self-consistency and, where gold is known, one of accuracy; streams have a row of their own.

    Bands and whiskers are one deviation over draws. A policy followed trace by trace is a line with a band; a stopping
    rule is the points that its thresholds give. Pass@1 and the vote of all recorded traces bound the accuracy.
    """
    streams = [result for result in pool.results if result.setting == "online"]
    batches = [result for result in pool.results if result.setting != "online"]
    parts = {"all questions at once": batches, "questions one by one, after training on others": streams}
    styles = line_styles(dict.fromkeys(result.policy for result in pool.results))
    swept = {result.policy for result in pool.results if result.option is not None}
    legend = by_label(styles, swept, {result.policy for result in pool.results if result.option is None})
    rows = []
    for name, results in parts.items():
        if not results:
            continue
        consistency = [series(result, result.consistency) for result in results]
        ceiling = [("all traces of the policy's half", float(results[0].ceiling.mean()))]
        bounds = ceiling if pool.config.reference == "disjoint" else []
        panels = [curve_panel(consistency, styles, "self-consistency", pool.size, bounds, legend)]
        if pool.pass_at_1 is not None:
            accuracy = [series(result, result.accuracy) for result in results]
            bounds = accuracy_bounds(pool.vote_accuracy, pool.pass_at_1)
            panels.append(curve_panel(accuracy, styles, "accuracy", pool.size, bounds, legend))
        rows.append({"title": {"text": name, "fontSize": 13}, "hconcat": panels})
    weights = ", votes weighted by confidence" if pool.config.weighted else ""
    counts = f"{pool.pool}: {pool.questions} questions, {pool.size} traces each, {pool.config.repetitions} draws."
    title = f"How often the vote is {TARGETS[pool.config.reference]}{weights}"
    return titled({"vconcat": rows}, title, [counts, *CURVES_LEGEND])


def accuracy_bounds(vote_accuracy: float | None, pass_at_1: float | None) -> list[Bound]:
    """The accuracies of a pool between which those of its policies lie, as far as they are known."""
    known = {"vote of the full pool": vote_accuracy, "one trace (pass@1)": pass_at_1}
    return [(name, value) for name, value in known.items() if value is not None]


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
    if legend is None:
        points = {line.label for line in lines if line.swept}
        legend = by_label(styles, points, {line.label for line in lines if not line.swept})
    # All means and whiskers and most of the bands, with some air: a few wide bands must not press the lines flat.
    shown = [row["mean"] for row in rows] + [value for _, value in bounds]
    shown += [row[end] for row in rows if row["swept"] for end in ("low", "high")]
    low = min(*shown, float(np.quantile([row["low"] for row in rows], 0.2)))
    high = max(*shown, float(np.quantile([row["high"] for row in rows], 0.8)))
    air = 0.05 * max(high - low, 0.02)
    span = [round(max(0.0, low - air), 4), round(min(1.0, high + air), 4)]
    values = {"name": name, "x": trace_axis(size), "span": span, "rows": rows}
    panel = template("curve_panel", **values, **legend)
    for bound, value in bounds:
        named = [{"mean": value, "name": f"{bound} {value:.1%}"}]
        panel["layer"] += template("curve_bound", **values, values=named)["layer"]
    return panel


def spreads(results: PoolResult, level: float = LEVEL) -> dict[str, Floats | None]:
    """Mean traces per question (N,) of every policy where its mean curve reaches ``level``.

    NaN where a question only trained; ``None`` for a policy that never reaches the level.
    """
    repetitions = max(1, MAX_DOTS // results.questions)
    spread: dict[str, Floats | None] = {}
    for result in results.results:
        label = f"{result.policy} (stream)" if result.setting == "online" else result.policy
        spend = traces_at_mean(result, level)
        if np.isnan(spend):
            spread[label] = None
            continue
        point = int(np.abs(mean_curve(result)[0] - spend).argmin())  # the nearest
        rows = [allocation.at(point) for allocation in result.allocations[:repetitions]]
        finite = np.isfinite(rows)  # a question that trained every time has no mean
        means = np.where(finite, rows, 0.0).sum(axis=0) / np.maximum(1, finite.sum(axis=0))
        spread[label] = np.where(finite.any(axis=0), means, np.nan)
    return spread


def draw_difficulty(results: PoolResult, pool: LabelledPool, level: float = LEVEL) -> Chart:
    """A panel for each policy, a dot for each question, and the mean of each tenth of the leader's share."""
    panels = spreads(results, level)
    shares = np.array([leader_share(question.labels) for question in pool.questions])
    # What the axes of all panels span; a question that got no trace stands at a tick of its own.
    none = any(bool(np.any(traces < 1)) for traces in panels.values() if traces is not None)
    ticks = [NO_TRACE_AT] * none + [2**power for power in range(20) if 2**power <= results.size]
    domain = [0.8 * (NO_TRACE_AT if none else 1), results.size * 1.25]
    axes = {"shares": [min(0.95, float(shares.min())) - 0.03, 1.03], "domain": domain, "ticks": ticks}
    of = " of what is attainable" if results.config.reference == "disjoint" else ""
    return titled(
        template("difficulty", panels=[_difficulty_panel(*panel, pool, shares, axes) for panel in panels.items()]),
        f"Where the traces went: easy questions are on the right, hard ones on the left ({results.pool})",
        f"Traces of each question where {level:.0%}{of} of the votes are those of all {results.size} traces; "
        "lines: mean of each tenth.",
    )


def _difficulty_panel(
    label: str, traces: Floats | None, pool: LabelledPool, shares: Floats, axes: Mapping[str, Any]
) -> Chart:
    """The dots of one policy and the means of tenths; a note where it never reaches the level."""
    if traces is None:
        return template("difficulty_unreached", title=label)
    finite = np.isfinite(traces)
    share, traces = shares[finite], traces[finite]
    ids = [question.id for question, there in zip(pool.questions, finite.tolist(), strict=True) if there]
    columns = zip(ids, share.tolist(), np.maximum(traces, NO_TRACE_AT).tolist(), strict=True)
    tenths = np.minimum((share * 10).astype(int), 9)
    means = [
        {"share": float(share[tenths == t].mean()), "traces": float(traces[tenths == t].mean())}
        for t in np.unique(tenths).tolist()
    ]
    dots = [{"id": id, "share": round(a, 4), "traces": round(b, 2)} for id, a, b in columns]
    title = f"{label}: {traces.mean():.1f} per question"
    return template("difficulty_panel", title=title, dots=dots, means=means, colour=colour_of(label), **axes)


def draw_clock(pool: PoolResult) -> Chart:
    """Time against tokens: hurries, or mean budgets, are a line, a single setting is a point; left below is best."""
    styles = line_styles(dict.fromkeys(result.policy for result in pool.results))
    rows: list[dict[str, Any]] = []
    for result in pool.results:
        columns = [result.on_clock["trace_tokens"], result.on_clock["time"], result.consistency]
        points = zip(result.values, *(column.mean(axis=0).tolist() for column in columns), strict=True)
        rows += [
            {"label": result.policy, "at": f"{result.option} {value:g}", "value": f"{value:g}", "order": index}
            | {"tokens": round(tokens, 3), "time": round(time, 3), "consistency": round(consistency, 5)}
            for index, (value, tokens, time, consistency) in enumerate(points)
        ]
    return titled(
        template("clock", rows=rows, **by_label(styles, styles, styles)),
        f"What time costs: the front of hurry ({pool.pool})",
        f"{pool.questions} questions, {pool.size} traces each, {pool.config.repetitions} draws. Numbers: hurry.",
    )


def draw_reliability(calibrations: Mapping[str, Calibration], title: str) -> Chart:
    """A dot with its 95 % interval for each bin, bins of few certificates faint, above the number in each bin.

    On the diagonal certificates are what they say; under it they promise too much.
    """
    labels = {name: f"{name} ({scores.error:.3f})" for name, scores in calibrations.items()}
    styles = {labels[name]: style for name, style in line_styles(calibrations).items()}
    rows: list[dict[str, Any]] = []
    for name, scores in calibrations.items():
        for bucket in scores.bins:
            rows.append({"label": labels[name], "bin": bucket.low, "count": bucket.count})
            if bucket.certificate is not None and bucket.right is not None:
                low, high = wilson(bucket.right, bucket.count)
                rows[-1] |= {"certificate": bucket.certificate, "right": bucket.right, "low": low, "high": high}
        rows.append({"label": labels[name], "bin": 1.0, "count": scores.bins[-1].count})  # where the last one ends
    return titled(
        template("reliability", rows=rows, few=f"datum.count < {FEW}", **by_label(styles, points=styles)),
        title,
        f"Whiskers: 95 % intervals; faint: fewer than {FEW} certificates; beside each name its calibration error.",
    )
