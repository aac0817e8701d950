"""The replay lab: every policy, on recorded answers, by the paper's protocol.

:func:`replay` runs and keeps every repetition's curves, :func:`rows` turns them into metrics.
"""

from pets.lab.config import BUDGETS, ReplayConfig
from pets.lab.lab import replay
from pets.lab.labelled import LabelledPool, read_answers, relabelled
from pets.lab.metrics import LEVELS, area, at_spend, mean_curve, reached, traces_at_mean
from pets.lab.results import PoolResult, Result
from pets.lab.rows import Row, certificates, rows

__all__ = [
    "BUDGETS", "LEVELS", "LabelledPool", "PoolResult", "ReplayConfig", "Result", "Row", "area", "at_spend",
    "certificates", "mean_curve", "reached", "read_answers", "relabelled", "replay", "rows", "traces_at_mean",
]  # fmt: skip
