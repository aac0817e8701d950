"""The paper's figures that need no pool: voting-curve panels, and the budget plan of nine binary questions.

The panels show SC(theta; B) exactly with both probit fits, for M = 2, 4 and 10 options. In the budget plan offline (okg
with Dir(1)) knows nothing of theta and is averaged over simulated batches, online is told theta; as the mean budget
grows the shares become alike (Liu et al., PETS, figure "budget plan").
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.consistency import SC_curve
from pets.core.greedy import binary_steps, greedy
from pets.core.probit import PANELS, Probit, fit_probit_l1, fit_probit_regression, sup_error
from pets.registry import make_policy
from pets.report.style import GREY, PALETTE, blank, quiet_grid, trace_axis
from pets.types import Question, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MEANS", "THETAS", "PlanRow", "VotingCurve", "budget_plan", "draw_plan", "draw_voting", "voting_curves"]

Floats = NDArray[np.float64]

B_MAX = 64
STYLES = (("regression in probit space", "-"), ("least L1 loss", ":"))


@dataclass(frozen=True, slots=True, eq=False)
class VotingCurve:
    """One theta of a panel: SC at 0..64 traces and the two fits."""

    options: int
    name: str
    theta: tuple[float, ...]
    exact: Floats
    regression: Probit
    l1: Probit

    def row(self) -> dict[str, object]:
        """The fits as numbers, with the largest error of each."""
        fits = {"regression": self.regression, "l1": self.l1}
        cells: dict[str, object] = {
            "options": self.options,
            "name": self.name,
            "theta": " ".join(map(_short, self.theta)),
        }
        for name, fit in fits.items():
            cells |= {f"{name}_a": fit.a, f"{name}_b": fit.b, f"{name}_sup_error": sup_error(fit, self.exact)}
        return cells


def voting_curves() -> list[VotingCurve]:
    """Every theta of the paper's panels."""
    curves = []
    for M, panel in PANELS.items():
        for name, theta in panel.items():
            exact = SC_curve(theta, B_MAX)
            curves.append(VotingCurve(M, name, theta, exact, fit_probit_regression(exact), fit_probit_l1(exact)))
    return curves


def draw_voting(curves: Sequence[VotingCurve]) -> "Figure":
    """A panel for each M: dots are exact, lines are the fits."""
    figure = blank(13, 4.9)
    panels = sorted({curve.options for curve in curves})
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0].tolist()
    for axes, M in zip(row, panels, strict=True):
        _voting_panel(axes, [curve for curve in curves if curve.options == M])
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


def _voting_panel(axes: "Axes", curves: Sequence[VotingCurve]) -> None:
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


THETAS = (0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
MEANS = (4, 16, 64, 256)
OFFLINE = "okg:prior=1"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """Traces for the question of one theta at one mean budget; ``offline_sd`` is over batches."""

    mean_budget: int
    theta: float
    offline: float
    offline_sd: float
    online: float

    def row(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


def budget_plan(means: Sequence[int] = MEANS, batches: int = 100, seed: int = 0) -> list[PlanRow]:
    """Both allocations at each mean budget, ``means`` rising. Both spend exactly the mean."""
    runs = np.array([offline_sizes(means, np.random.default_rng([seed, batch])) for batch in range(batches)])
    spread = runs.std(axis=0, ddof=1) if batches > 1 else np.zeros(runs.shape[1:])
    table = zip(means, runs.mean(axis=0), spread, strict=True)
    return [
        PlanRow(mean, *map(float, cells))
        for mean, offline, sd in table
        for cells in zip(THETAS, offline, sd, online_sizes(mean), strict=True)
    ]


def offline_sizes(means: Sequence[int], rng: np.random.Generator) -> NDArray[np.int64]:
    """Traces of each question in one simulated batch, (means, 9): a small budget's run begins a larger one's."""
    N = len(THETAS)
    questions = [Question(str(q), options=2) for q in range(N)]
    allocator = Allocator(make_policy(OFFLINE), Budget(N * max(means)), questions, seed=int(rng.integers(2**31)))
    sizes = np.zeros(N, dtype=np.int64)
    snapshots = []
    ends = {N * mean for mean in means}
    while launches := allocator.ask():
        id, number = launches[0]
        q = int(id)
        allocator.tell(Trace(id, number, "A" if rng.random() < THETAS[q] else "B"))
        sizes[q] += 1
        if int(sizes.sum()) in ends:
            snapshots.append(sizes.copy())
    return np.array(snapshots)


def online_sizes(mean: int) -> Floats:
    """The greedy plan's expected traces for each theta, (9,), each as likely as the others to arrive."""
    N = len(THETAS)
    plan = greedy([binary_steps(theta, 64 * mean) for theta in THETAS], [1 / N] * N, mean, floor=0)
    return (1 - plan.rho) * np.array(plan.low) + plan.rho * np.array(plan.high)


def draw_plan(rows: Sequence[PlanRow]) -> "Figure":
    """A panel for each mean budget: bars side by side, whiskers one deviation over batches."""
    means = sorted({row.mean_budget for row in rows})
    figure = blank(3.4 * len(means), 4.0)
    panels = figure.subplots(1, len(means), squeeze=False)[0].tolist()
    for axes, mean in zip(panels, means, strict=True):
        _plan_panel(axes, [row for row in rows if row.mean_budget == mean])
        axes.set_title(f"mean budget {mean}", fontsize=11)
    panels[0].set_ylabel("traces")
    figure.suptitle("Budget plan of nine binary questions", fontsize=12)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _plan_panel(axes: "Axes", rows: Sequence[PlanRow]) -> None:
    at = np.arange(len(rows))
    offline, spread = [row.offline for row in rows], [row.offline_sd for row in rows]
    below = list(map(min, offline, spread))  # a whisker does not go under no trace
    label = f"offline: {OFFLINE} (mean and deviation of simulated batches)"
    axes.bar(at - 0.2, offline, 0.4, color=PALETTE[0], label=label)
    axes.errorbar(at - 0.2, offline, (below, spread), fmt="none", ecolor="#444444", elinewidth=0.8)
    axes.bar(at + 0.2, [row.online for row in rows], 0.4, color=PALETTE[4], label="online: greedy plan, θ known")
    axes.set_xticks(at, labels=[f"{row.theta:.2f}"[1:] for row in rows], fontsize=9)
    axes.set_xlabel("θ, the leader's probability")
    quiet_grid([axes])
    axes.grid(False, axis="x")
