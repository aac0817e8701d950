"""Streams of questions: a plan fitted to recorded answers, and all that keeps to it.

plan.py      StreamPlan: grids, curves, budgets, prices, prior, and where they come from; read_plan, write_plan
fit.py       fit_plan: from a training pool
drift.py     Drift: an alarm when warm-up patterns no longer fit the plan
stream.py    Stream: questions as they arrive, several on their way at once, through the driver
"""

from pets.plans.drift import Drift
from pets.plans.fit import fit_plan
from pets.plans.plan import Provenance, StreamPlan, left_by_windows, plan_text, read_plan, write_plan
from pets.plans.stream import Stream, StreamSettings, stream_budget

__all__ = [
    "Drift",
    "Provenance",
    "Stream",
    "StreamPlan",
    "StreamSettings",
    "fit_plan",
    "left_by_windows",
    "plan_text",
    "read_plan",
    "stream_budget",
    "write_plan",
]
