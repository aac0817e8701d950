"""Budget against difficulty: what each question got where its policy's mean curve is at a self-consistency.

A few repetitions are enough to see a shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pets.lab import PoolResult, mean_curve, traces_at_mean
from pets.lab.labelled import LabelledPool, LabelledQuestion
from pets.lab.results import Floats, Result
from pets.report.style import GREY, Chart, colour_of, layer, titled

__all__ = ["Spread", "draw_difficulty", "spreads"]

LEVEL = 0.99
NO_TRACE_AT = 0.5  # where no trace at all stands on a logarithmic axis
PANELS_PER_ROW = 4
PANEL_PIXELS = 190
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


def draw_difficulty(results: PoolResult, pool: LabelledPool, level: float = LEVEL) -> Chart:
    """A panel for each policy, a dot for each question, and the mean of each tenth of the leader's share."""
    panels = spreads(results, level)
    shares = np.array([leader_share(question) for question in pool.questions])
    y = _trace_ticks(panels, results.size)
    x = {"type": "quantitative", "scale": {"domain": [min(0.95, float(shares.min())) - 0.03, 1.03], "nice": False}}
    x |= {"axis": {"format": ".0%", "tickCount": 4}, "title": "votes for the leading answer"}
    of = " of what is attainable" if results.config.target == "disjoint" else ""
    return titled(
        {
            "concat": [_panel(spread, pool, shares, x, y) for spread in panels],
            "columns": PANELS_PER_ROW,
            "resolve": {"scale": {"x": "shared", "y": "shared"}},
        },
        f"Where the traces went: easy questions are on the right, hard ones on the left ({results.pool})",
        f"Traces of each question where {level:.0%}{of} of the votes are those of all {results.size} traces; "
        "lines: mean of each tenth.",
    )


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


def _trace_ticks(panels: Sequence[Spread], size: int) -> dict[str, Any]:
    """A logarithmic axis of traces; a question that got none stands at a tick of its own."""
    none = any(bool(np.any(spread.traces < 1)) for spread in panels if spread.traces is not None)
    ticks = [NO_TRACE_AT] * none + [2**power for power in range(20) if 2**power <= size]
    least = 0.8 * (NO_TRACE_AT if none else 1)
    return {
        "type": "quantitative",
        "title": "traces",
        "scale": {"type": "log", "base": 2, "domain": [least, size * 1.25], "nice": False},
        "axis": {"values": ticks, "labelExpr": "datum.value < 1 ? '<1' : format(datum.value, 'd')"},
    }


def _panel(spread: Spread, pool: LabelledPool, shares: Floats, x: dict[str, Any], y: dict[str, Any]) -> Chart:
    """The dots of one policy and the means of tenths; words where it never comes to the level."""
    size = {"width": PANEL_PIXELS, "height": PANEL_PIXELS}
    if spread.traces is None:
        text = {"type": "text", "color": GREY, "text": "never gets there"}
        return {"title": spread.label, "data": {"values": [{}]}, "mark": text, **size}
    finite = np.isfinite(spread.traces)
    share, traces = shares[finite], np.maximum(spread.traces[finite], NO_TRACE_AT)
    ids = [question.id for question, there in zip(pool.questions, finite.tolist(), strict=True) if there]
    columns = zip(ids, share.tolist(), traces.tolist(), strict=True)
    dots = [{"id": id, "share": round(a, 4), "traces": round(b, 2)} for id, a, b in columns]
    tenths = np.minimum((share * 10).astype(int), 9)
    means = [
        {"share": float(share[tenths == t].mean()), "traces": float(spread.traces[finite][tenths == t].mean())}
        for t in np.unique(tenths).tolist()
    ]
    axes = {"x": {"field": "share", **x}, "y": {"field": "traces", **y}}
    tooltip = [{"field": "id"}, {"field": "share", "format": ".0%"}, {"field": "traces"}]
    circle = {"opacity": 0.35, "size": 18, "color": colour_of(spread.label)}
    line = {"point": {"color": "#444444", "size": 18}, "color": "#444444"}
    return {
        "title": {"text": f"{spread.label}: {spread.traces[finite].mean():.1f} per question", "fontSize": 12},
        **size,
        "layer": [
            layer("circle", dots, circle, **axes, tooltip=tooltip),
            layer("line", means, line, **axes),
        ],
    }
