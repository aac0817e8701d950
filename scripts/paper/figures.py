"""The paper's figures that need no pool: voting-curve panels, and the budget plan of nine binary questions.

The panels show SC(theta; B) exactly with both probit fits, for M = 2, 4 and 10 options. In the budget plan offline (okg
with Dir(1)) knows nothing of theta and is averaged over simulated batches, online is told theta; as the mean budget
grows the shares become alike (Liu et al., PETS, figure "budget plan").
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.consistency import SC_curve
from pets.core.greedy import binary_steps, greedy
from pets.core.probit import Probit, fit_probit_l1, fit_probit_regression, sup_error
from pets.registry import make_policy
from pets.report.style import PALETTE, Chart, colour_of, titled, trace_axis
from pets.types import Question, Trace
from scripts.paper.panels import PANELS

Floats = NDArray[np.float64]

B_MAX = 64
FITS = ["regression", "l1"]


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


def draw_voting(curves: Sequence[VotingCurve]) -> Chart:
    """A panel for each M: dots are exact, lines are the fits."""
    panels = sorted({curve.options for curve in curves})
    charts = [_voting_panel([curve for curve in curves if curve.options == M], M) for M in panels]
    return titled(
        {"hconcat": charts, "resolve": {"scale": {"color": "independent"}}},
        "How sure a vote is after B traces, and the curve Φ(a√B + b) that stands in for it",
        "Dots: exact. Solid lines: regression in probit space. Dotted lines: least L1 loss.",
    )


def _voting_panel(curves: Sequence[VotingCurve], options: int) -> Chart:
    fine = np.geomspace(1, B_MAX, 100)
    names = [curve.name for curve in curves]
    dots = [
        {"label": curve.name, "traces": B, "SC": float(curve.exact[B])} for curve in curves for B in range(1, B_MAX + 1)
    ]
    fits = [
        {"label": curve.name, "traces": round(x, 3), "SC": y, "fit": fit}
        for curve in curves
        for fit, probit in zip(FITS, (curve.regression, curve.l1), strict=True)
        for x, y in zip(fine.tolist(), probit.curve(fine).tolist(), strict=True)
    ]
    x = trace_axis(B_MAX, "traces B")
    y = {"field": "SC", "type": "quantitative", "title": "self-consistency SC(θ; B)", "scale": {"domain": [0, 1]}}
    legend = {"orient": "bottom", "columns": 3, "title": "shape of θ"}
    colour = {"field": "label", "type": "nominal", "legend": legend}
    colour["scale"] = {"domain": names, "range": list(PALETTE[: len(names)])}
    dashes = {"field": "fit", "type": "nominal", "legend": None, "scale": {"domain": FITS, "range": [[1, 0], [2, 2]]}}
    return {
        "title": {"text": f"M = {options} options", "fontSize": 13},
        "width": 300,
        "height": 280,
        "layer": [
            {
                "data": {"values": dots},
                "mark": {"type": "circle", "size": 14, "opacity": 0.6},
                "encoding": {"x": x, "y": y, "color": colour, "tooltip": [{"field": "label"}, {"field": "traces"}, y]},
            },
            {
                "data": {"values": fits},
                "mark": {"type": "line", "strokeWidth": 1.5},
                "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dashes},
            },
        ],
    }


def _short(share: float) -> str:
    return f"{share:.4g}"


THETAS = (0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
MEANS = (4, 16, 64, 256)
OFFLINE = "okg:prior=1"
ONLINE = "online: greedy plan"


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


def draw_plan(rows: Sequence[PlanRow]) -> Chart:
    """A panel for each mean budget: bars side by side, whiskers one deviation over batches."""
    means = sorted({row.mean_budget for row in rows})
    charts = [_plan_panel([row for row in rows if row.mean_budget == mean], mean) for mean in means]
    return titled(
        {"hconcat": charts},
        "Where a budget goes: nine yes-or-no questions, hard ones on the left",
        "Offline: mean of simulated batches, whiskers one deviation. Online: the greedy plan, θ known.",
    )


def _plan_panel(rows: Sequence[PlanRow], mean: int) -> Chart:
    offline = f"offline: {OFFLINE}"
    bars = [
        {"theta": f"{row.theta:.2f}", "plan": plan, "traces": traces, "low": max(0.0, traces - sd), "high": traces + sd}
        for row in rows
        for plan, traces, sd in ((offline, row.offline, row.offline_sd), (ONLINE, row.online, 0.0))
    ]
    scale = {"domain": [offline, ONLINE], "range": [colour_of(OFFLINE), colour_of("oracle")]}
    legend = {"orient": "bottom", "title": None}
    x = {"field": "theta", "type": "nominal", "title": "θ, the leader's probability", "axis": {"labelAngle": 0}}
    offset = {"field": "plan", "sort": [offline, ONLINE]}
    return {
        "title": {"text": f"mean budget {mean}", "fontSize": 13},
        "data": {"values": bars},
        "width": 260,
        "height": 240,
        "layer": [
            {
                "mark": "bar",
                "encoding": {
                    "x": x,
                    "xOffset": offset,
                    "y": {"field": "traces", "type": "quantitative", "title": "traces"},
                    "color": {"field": "plan", "type": "nominal", "scale": scale, "legend": legend},
                    "tooltip": [{"field": "plan"}, {"field": "theta"}, {"field": "traces", "format": ".1f"}],
                },
            },
            {
                "transform": [{"filter": f"datum.plan === '{offline}'"}],
                "mark": {"type": "rule", "color": "#444444"},
                "encoding": {
                    "x": x,
                    "xOffset": offset,
                    "y": {"field": "low", "type": "quantitative"},
                    "y2": {"field": "high"},
                },
            },
        ],
    }
