"""The reliability diagram: how often a leader is right whose certificate says how likely that is."""

from collections.abc import Mapping
from typing import Any

from pets.engine.summary import wilson
from pets.lab.calibration import Bin, Calibration
from pets.report.style import GREY, SHARE, Chart, LineStyle, by_label, layer, line_styles, titled

__all__ = ["draw_reliability"]

FEW = 20  # certificates; a bin with fewer says little and is drawn faintly
WIDTH, HEIGHT, COUNTS_HEIGHT = 420, 340, 90


def draw_reliability(calibrations: Mapping[str, Calibration], title: str) -> Chart:
    """A dot with its 95 % interval for each bin, bins of few certificates faint, above the number in each bin.

    On the diagonal certificates are what they say; under it they promise too much.
    """
    styles = {_label(name, calibrations[name]): style for name, style in line_styles(calibrations).items()}
    rows = [row for name, scores in calibrations.items() for row in _rows(_label(name, scores), scores)]
    return titled(
        {"data": {"values": rows}, "vconcat": [_diagram(styles), _counts(styles)]},
        title,
        f"Whiskers: 95 % intervals; faint: fewer than {FEW} certificates; beside each name its calibration error.",
    )


def _diagram(styles: Mapping[str, LineStyle]) -> Chart:
    """Dots and whiskers about the diagonal."""
    legend = by_label(styles, points=styles)
    y = {**SHARE, "title": "answers that are the vote of all traces"}
    common = {
        "x": {"field": "certificate", **SHARE, "title": "certificate"},
        "color": legend["color"],
        "opacity": {"condition": {"test": f"datum.count < {FEW}", "value": 0.25}, "value": 1},
    }
    tooltip = [
        {"field": "label", "title": "policy"},
        {"field": "certificate", "title": "mean certificate", "format": ".1%"},
        {"field": "right", "title": "share right", "format": ".1%"},
        {"field": "count", "title": "certificates", "format": ","},
    ]
    dots = {**common, "y": {"field": "right", **y}, "shape": legend["shape"], "tooltip": tooltip}
    diagonal, dashed = [{"a": 0, "b": 0}, {"a": 1, "b": 1}], {"color": GREY, "strokeDash": [6, 3]}
    layers = [
        layer("line", diagonal, dashed, x={"field": "a", **SHARE}, y={"field": "b", **SHARE}),
        layer("rule", **common, y={"field": "low", **y}, y2={"field": "high"}),
        layer("point", None, {"filled": True, "size": 50}, **dots),
    ]
    return {"width": WIDTH, "height": HEIGHT, "layer": layers}


def _counts(styles: Mapping[str, LineStyle]) -> Chart:
    """How many certificates each bin has."""
    return {
        "width": WIDTH,
        "height": COUNTS_HEIGHT,
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "bin", **SHARE, "title": "certificate"},
            "y": {"field": "count", "type": "quantitative", "scale": {"type": "symlog"}, "title": "certificates"},
            **{channel: by_label(styles, points=styles)[channel] for channel in ("color", "strokeDash")},
        },
    }


def _label(name: str, calibration: Calibration) -> str:
    return f"{name} ({calibration.error:.3f})"


def _rows(label: str, calibration: Calibration) -> list[dict[str, Any]]:
    """A row for each bin, and one where the last of them ends."""
    last = calibration.bins[-1]
    return [_row(label, bucket) for bucket in calibration.bins] + [{"label": label, "bin": 1.0, "count": last.count}]


def _row(label: str, bucket: Bin) -> dict[str, Any]:
    row: dict[str, Any] = {"label": label, "bin": bucket.low, "count": bucket.count}
    if bucket.certificate is None or bucket.right is None:
        return row
    low, high = wilson(bucket.right, bucket.count)
    return row | {"certificate": bucket.certificate, "right": bucket.right, "low": low, "high": high}
