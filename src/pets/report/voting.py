"""The paper's voting-curve panels: SC(theta; B) exactly, and both probit fits, for M = 2, 4 and 10 options."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pets.core.consistency import SC_curve
from pets.core.probit import PANELS, Probit, fit_probit_l1, fit_probit_regression, sup_error
from pets.report.canvas import GREY, PALETTE, blank, quiet_grid, trace_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pets.replay.results import Floats

__all__ = ["VotingCurve", "draw_voting", "voting_curves"]

B_MAX = 64
STYLES = (("regression in probit space", "-"), ("least L1 loss", ":"))


@dataclass(frozen=True, slots=True, eq=False)
class VotingCurve:
    """One theta of a panel: SC at 0..64 traces and the two fits."""

    options: int
    name: str
    theta: tuple[float, ...]
    exact: "Floats"
    regression: Probit
    l1: Probit

    def row(self) -> dict[str, object]:
        """The fits as numbers, with the largest error of each."""
        fits = {"regression": self.regression, "l1": self.l1}
        found: dict[str, object] = {
            "options": self.options,
            "name": self.name,
            "theta": " ".join(map(_short, self.theta)),
        }
        for name, fit in fits.items():
            found |= {f"{name}_a": fit.a, f"{name}_b": fit.b, f"{name}_sup_error": sup_error(fit, self.exact)}
        return found


def voting_curves() -> list[VotingCurve]:
    """Every theta of the paper's panels."""
    found = []
    for M, panel in PANELS.items():
        for name, theta in panel.items():
            exact = SC_curve(theta, B_MAX)
            found.append(VotingCurve(M, name, theta, exact, fit_probit_regression(exact), fit_probit_l1(exact)))
    return found


def draw_voting(curves: Sequence[VotingCurve]) -> "Figure":
    """A panel for each M: dots are exact, lines are the fits."""
    figure = blank(13, 4.9)
    panels = sorted({curve.options for curve in curves})
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0].tolist()
    for axes, M in zip(row, panels, strict=True):
        _panel(axes, [curve for curve in curves if curve.options == M])
        axes.set_title(f"M = {M} options", fontsize=11)
    row[0].set_ylabel("self-consistency SC(θ; B)")
    figure.suptitle(
        "Self-consistency of a vote over B traces: exact (dots) and its probit stand-in Φ(a√B + b) (lines)", fontsize=12
    )
    for label, dashes in STYLES:
        row[0].plot([], [], color=GREY, linestyle=dashes, label=label)
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False, fontsize=9)
    return figure


def _panel(axes: "Axes", curves: Sequence[VotingCurve]) -> None:
    B = np.arange(1, B_MAX + 1)
    fine = np.geomspace(1, B_MAX, 200)
    for colour, curve in zip(PALETTE, curves, strict=False):
        axes.plot(B, curve.exact[1:], "o", color=colour, markersize=3, alpha=0.55, linewidth=0, label=curve.name)
        for fit, (_, dashes) in zip((curve.regression, curve.l1), STYLES, strict=True):
            axes.plot(fine, fit.curve(fine), color=colour, linestyle=dashes, linewidth=1.5)
    trace_axis(axes, 0.95, B_MAX * 1.05)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("traces B")
    quiet_grid([axes])


def _short(share: float) -> str:
    return f"{share:.4g}"
