"""Plans of streams, fitted to recorded answers, and the alarm when questions no longer fit them.

plan.py      StreamPlan: grids, curves, budgets, prices, prior, provenance; fit_plan, read_plan, write_plan
drift.py     Drift: an alarm when warm-up patterns no longer fit the plan
"""

from pets.plans.drift import Drift
from pets.plans.plan import Provenance, StreamPlan, fit_plan, left_by_windows, plan_text, read_plan, write_plan

__all__ = ["Drift", "Provenance", "StreamPlan", "fit_plan", "left_by_windows", "plan_text", "read_plan", "write_plan"]
