"""Streams of questions: a plan fitted to recorded answers, and all that keeps to it.

plan.py      StreamPlan: grids, curves, budgets, prices, prior, and where they come from; read_plan, write_plan
fit.py       fit_plan: from a training pool
drift.py     Drift: an alarm when warm-up patterns no longer fit the plan
traces.py    where traces come from: recorded ones
asking.py    ... and a model that is asked live
outcome.py   what is said of a question
stream.py    Stream: questions as they arrive, several on their way at once
"""

from pets.plans.asking import SampledTraces
from pets.plans.drift import Drift
from pets.plans.fit import fit_plan
from pets.plans.outcome import Outcome
from pets.plans.plan import Provenance, StreamPlan, left_by_windows, plan_text, read_plan, write_plan
from pets.plans.stream import Stream
from pets.plans.traces import RecordedTraces

__all__ = ["Drift", "Outcome", "Provenance", "RecordedTraces", "SampledTraces", "Stream"]
__all__ += ["StreamPlan", "fit_plan", "left_by_windows", "plan_text", "read_plan", "write_plan"]
