"""What every figure shares: the palette, an axis of traces, and how it becomes a PNG.

Figures are drawn by matplotlib's Agg canvas without pyplot: no window, no global state. matplotlib is an extra, so it
is imported only when something is drawn.
"""

import importlib
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pets._extras import missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "GREY",
    "PALETTE",
    "blank",
    "check_matplotlib",
    "colour_of",
    "places_of",
    "quiet_grid",
    "save",
    "style_of",
    "trace_axis",
]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart by colour-blind readers; without the yellow, which white paper swallows."""
GREY = "#777777"
FIXED_PLACES = {"uniform": 0, "okg": 1}
DASHES = ("-", "--", ":")
MARKERS = "osD^vPX"


def check_matplotlib() -> None:
    """Say what to install before any work is done."""
    _matplotlib("matplotlib")


def blank(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches."""
    figure: Figure = _matplotlib("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    return figure


def save(figure: "Figure", path: Path) -> Path:
    """Write the figure as PNG and hand back where."""
    figure.savefig(path, dpi=150, format="png")
    return path


def places_of(policies: Iterable[str]) -> dict[str, int]:
    """Which style each policy has: uniform and okg always the same, the others by their order.

    >>> places_of(["asc", "okg", "okg:prior=1"])
    {'asc': 2, 'okg': 1, 'okg:prior=1': 3}
    """
    free = count(len(FIXED_PLACES))
    return {policy: FIXED_PLACES[policy] if policy in FIXED_PLACES else next(free) for policy in policies}


def colour_of(policy: str) -> str:
    """The colour that uniform or okg has in every figure and on every page; others are grey."""
    return PALETTE[FIXED_PLACES[policy]] if policy in FIXED_PLACES else GREY


def style_of(place: int) -> dict[str, Any]:
    """Colour, dashes and marker of the line in this place: past the palette's end the dashes change."""
    turn, colour = divmod(place, len(PALETTE))
    marker = MARKERS[(colour + turn) % len(MARKERS)]
    return {"color": PALETTE[colour], "linestyle": DASHES[turn % len(DASHES)], "marker": marker}


def trace_axis(axes: "Axes", low: float, high: float) -> None:
    """A logarithmic axis of traces with plain numbers, doubling from tick to tick."""
    axes.set_xscale("log", base=2)
    ticks = [2**power for power in range(20) if low <= 2**power <= high]
    axes.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    axes.set_xlim(low, high)


def quiet_grid(axes: Sequence["Axes"]) -> None:
    """A faint grid behind the lines and no box around them."""
    for panel in axes:
        panel.grid(True, color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)


def _matplotlib(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(error.name or module, "plots") from None
