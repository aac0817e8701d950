"""PETS: spend a self-consistency sampling budget where it changes the vote.

>>> from pets import Allocator, Budget, Question, Trace, make_policy
>>> allocator = Allocator(make_policy("okg"), Budget(total=32, cap=16), [Question("q1"), Question("q2")])
>>> while launches := allocator.ask(4):
...     for launch in launches:                         # sample the model here
...         counted = allocator.tell(Trace(launch.question, launch.number, answer="42"))
>>> [verdict.answer for verdict in allocator.verdicts()], allocator.budget.free
(['42', '42'], 0)
"""

import importlib
from typing import TYPE_CHECKING

from pets.core.allocator import Allocator
from pets.core.budget import Budget, Currency
from pets.core.policy import IndexPolicy, QuotaPolicy, View
from pets.core.tally import Tally
from pets.errors import BudgetError, InputError, PetsError, PoolError, SpecError, StateError
from pets.registry import make_policy
from pets.types import Launch, Question, Trace, Verdict

if TYPE_CHECKING:
    from pets.engine import Engine, solve

__all__ = [
    "Allocator",
    "Budget",
    "BudgetError",
    "Currency",
    "Engine",
    "IndexPolicy",
    "InputError",
    "Launch",
    "PetsError",
    "PoolError",
    "Question",
    "QuotaPolicy",
    "SpecError",
    "StateError",
    "Tally",
    "Trace",
    "Verdict",
    "View",
    "make_policy",
    "solve",
]


def __getattr__(name: str) -> object:
    """Live runs bring an HTTP client and more, which `import pets` does without."""
    if name in ("Engine", "solve"):
        return getattr(importlib.import_module("pets.engine"), name)
    raise AttributeError(f"module 'pets' has no attribute {name!r}")
