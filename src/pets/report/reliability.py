"""The reliability diagram: how often a leader is right whose certificate says how likely that is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pets.replay.calibration import Calibration
from pets.report.style import GREY, blank, places_of, quiet_grid, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_reliability"]


def draw_reliability(calibrations: Mapping[str, Calibration], title: str) -> "Figure":
    """A line for each policy, a dot for each bin that is not empty, above the number of certificates in each bin.

    On the diagonal certificates are what they say; under it they promise too much.
    """
    figure = blank(6.0, 6.8)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=(0, (6, 3)), zorder=2)
    places = places_of(calibrations)
    for label, calibration in calibrations.items():
        place = places[label]
        _diagram(above, place, f"{label}: calibration error {calibration.error:.4f}", calibration)
        _counts(below, place, calibration)
    above.set(ylabel="share that is the vote of all traces drawn", ylim=(-0.02, 1.02))
    above.legend(loc="upper left", fontsize=8, framealpha=0.8, edgecolor="none")
    below.set(xlabel="certificate", ylabel="certificates", xlim=(-0.02, 1.02), yscale="log")
    quiet_grid([above, below])
    figure.suptitle(title, fontsize=11)
    return figure


def _diagram(axes: "Axes", place: int, label: str, calibration: Calibration) -> None:
    points = [(bucket.certificate, bucket.right) for bucket in calibration.bins if bucket.count]
    axes.plot(*zip(*points, strict=True), label=label, linewidth=1.2, markersize=4, zorder=3, **style_of(place))


def _counts(axes: "Axes", place: int, calibration: Calibration) -> None:
    edges = [bucket.low for bucket in calibration.bins] + [1.0]
    counts = [bucket.count for bucket in calibration.bins]
    style = style_of(place)
    axes.stairs(counts, edges, color=style["color"], linestyle=style["linestyle"], linewidth=1.2)
