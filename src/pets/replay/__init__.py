"""The replay lab: every policy, on recorded answers, by the paper's protocol.

:func:`replay` runs and keeps every repetition's curves, :func:`rows` turns them into metrics.
"""

import sys
from types import ModuleType

from pets.replay.config import BUDGETS, ReplayConfig
from pets.replay.lab import replay
from pets.replay.labelled import LabelledPool, read_answers, relabelled
from pets.replay.metrics import LEVELS, area, at_spend, mean_curve, reached, traces_at_mean
from pets.replay.results import PoolResult, Result
from pets.replay.rows import Row, certificates, rows

__all__ = ["BUDGETS", "LEVELS", "PoolResult", "ReplayConfig", "Result", "Row"]
__all__ += [
    "LabelledPool",
    "area",
    "at_spend",
    "certificates",
    "mean_curve",
    "reached",
    "read_answers",
    "relabelled",
    "replay",
    "rows",
    "traces_at_mean",
]


class _CallablePackage(ModuleType):
    """``from pets import replay`` gives this package, whatever was imported before; called, it is :func:`replay`."""

    __call__ = staticmethod(replay)


sys.modules[__name__].__class__ = _CallablePackage
