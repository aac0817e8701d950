"""The reliability diagram: how often a leader is right whose certificate says how likely that is."""

import math
from collections.abc import Mapping
from typing import Any

from pets.replay.calibration import Bin, Calibration
from pets.report.look import GREY, Chart, by_label, line_styles, titled

__all__ = ["draw_reliability", "wilson"]

Z = 1.96  # of a 95 % interval
FEW = 20  # certificates; a bin with fewer says little and is drawn faintly
SHAPES = ("circle", "square", "diamond")  # of a policy, and of the same with other options
WIDTH, HEIGHT, COUNTS_HEIGHT = 420, 340, 90


def draw_reliability(calibrations: Mapping[str, Calibration], title: str) -> Chart:
    """A dot with its 95 % interval for each bin, bins of few certificates faint, above the number in each bin.

    On the diagonal certificates are what they say; under it they promise too much.
    """
    styles = {_label(name, calibrations[name]): style for name, style in line_styles(calibrations).items()}
    values = [
        row for name, calibration in calibrations.items() for row in _rows(_label(name, calibration), calibration)
    ]
    colour = by_label(styles)
    shapes = {"domain": list(styles), "range": [SHAPES[len(style.dashes) % len(SHAPES)] for style in styles.values()]}
    shape = {"field": "label", "type": "nominal", "scale": shapes, "legend": None}
    share: Chart = {"type": "quantitative", "axis": {"format": ".0%"}, "scale": {"domain": [0, 1]}}
    x = {"field": "certificate", **share, "title": "certificate"}
    y_title = "answers that are the vote of all traces"
    tooltip = [
        {"field": "label", "title": "policy"},
        {"field": "certificate", "title": "mean certificate", "format": ".1%"},
        {"field": "right", "title": "share right", "format": ".1%"},
        {"field": "count", "title": "certificates", "format": ","},
    ]
    opacity = {"condition": {"test": f"datum.count < {FEW}", "value": 0.25}, "value": 1}
    diagonal = {"data": {"values": [{"a": 0, "b": 0}, {"a": 1, "b": 1}]}, "encoding": {}}
    above = {
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            {
                **diagonal,
                "mark": {"type": "line", "color": GREY, "strokeDash": [6, 3]},
                "encoding": {"x": {"field": "a", **share}, "y": {"field": "b", **share}},
            },
            {
                "mark": {"type": "rule"},
                "encoding": {
                    "x": x,
                    "y": {"field": "low", **share, "title": y_title},
                    "y2": {"field": "high"},
                    "color": colour["color"],
                    "opacity": opacity,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 50},
                "encoding": {
                    "x": x,
                    "y": {"field": "right", **share, "title": y_title},
                    "color": colour["color"],
                    "shape": shape,
                    "opacity": opacity,
                    "tooltip": tooltip,
                },
            },
        ],
    }
    counts = {
        "width": WIDTH,
        "height": COUNTS_HEIGHT,
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "bin", **share, "title": "certificate"},
            "y": {"field": "count", "type": "quantitative", "scale": {"type": "symlog"}, "title": "certificates"},
            **colour,
        },
    }
    return titled(
        {"data": {"values": values}, "vconcat": [above, counts]},
        title,
        f"Whiskers: 95 % intervals; faint: fewer than {FEW} certificates; beside each name its calibration error.",
    )


def wilson(right: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of ``count``.

    >>> [round(bound, 3) for bound in wilson(0.5, 2)]
    [0.095, 0.905]
    """
    centre = (right + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z * math.sqrt(right * (1 - right) / count + Z * Z / (4 * count * count)) / (1 + Z * Z / count)
    return max(0.0, centre - half), min(1.0, centre + half)


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
