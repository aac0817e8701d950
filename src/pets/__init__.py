"""PETS: spend a self-consistency sampling budget where it changes the vote.

>>> from pets import Allocator, Budget, Question, Trace, make_policy
>>> allocator = Allocator(make_policy("okg"), Budget(total=32, cap=16), [Question("q1"), Question("q2")])
>>> while launches := allocator.ask(4):
...     for launch in launches:                         # sample the model here
...         counted = allocator.tell(Trace(launch.question, launch.number, answer="42"))
>>> [verdict.answer for verdict in allocator.verdicts()], allocator.budget.free
(['42', '42'], 0)

Names are imported when they are used: `import pets` alone brings neither numpy nor an HTTP client.
"""

import importlib
from typing import TYPE_CHECKING

from pets._version import __version__

if TYPE_CHECKING:  # what editors and type checkers see; HOMES is the same for Python
    from pets.answers.base import AnswerType
    from pets.core.allocator import Allocator
    from pets.core.budget import Budget
    from pets.core.money import Currency
    from pets.core.policy import IndexPolicy, Policy, QuotaPolicy, View
    from pets.core.tally import Tally
    from pets.engine import Answer, Engine, Solution, solve
    from pets.errors import (
        BudgetError,
        BusyError,
        FirstTracesError,
        InputError,
        JobError,
        JobLeftError,
        LocalModelError,
        PetsError,
        PoolError,
        RefusedError,
        ReplyError,
        SamplerError,
        SpecError,
        StateError,
        UnreachableError,
    )
    from pets.lab import replay
    from pets.pools import Pool, read_pool
    from pets.questions import Problem
    from pets.registry import make_answer_type, make_policy, make_sampler
    from pets.samplers import Completion, Prompt, Sampler, Sampling
    from pets.samplers.openai import OpenAISampler
    from pets.types import Launch, Question, Trace, Verdict

__all__ = [
    "Allocator", "Answer", "AnswerType", "Budget", "BudgetError", "BusyError", "Completion", "Currency", "Engine",
    "FirstTracesError", "IndexPolicy", "InputError", "JobError", "JobLeftError", "Launch", "LocalModelError",
    "OpenAISampler", "PetsError", "Policy", "Pool", "PoolError", "Problem", "Prompt", "Question", "QuotaPolicy",
    "RefusedError", "ReplyError", "Sampler", "SamplerError", "Sampling", "Solution", "SpecError", "StateError",
    "Tally", "Trace", "UnreachableError", "Verdict", "View", "__version__", "make_answer_type", "make_policy",
    "make_sampler", "read_pool", "replay", "solve",
]  # fmt: skip

HOMES = {
    "pets.answers.base": "AnswerType",
    "pets.core.allocator": "Allocator",
    "pets.core.budget": "Budget",
    "pets.core.money": "Currency",
    "pets.core.policy": "IndexPolicy Policy QuotaPolicy View",
    "pets.core.tally": "Tally",
    "pets.engine": "Answer Engine Solution solve",
    "pets.errors": "BudgetError BusyError FirstTracesError InputError JobError JobLeftError LocalModelError PetsError "
    "PoolError RefusedError "
    "ReplyError SamplerError SpecError StateError UnreachableError",
    "pets.lab": "replay",
    "pets.pools": "Pool read_pool",
    "pets.questions": "Problem",
    "pets.registry": "make_answer_type make_policy make_sampler",
    "pets.samplers": "Completion Prompt Sampler Sampling",
    "pets.samplers.openai": "OpenAISampler",
    "pets.types": "Launch Question Trace Verdict",
}
HOME_OF = {name: module for module, names in HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in HOME_OF:
        raise AttributeError(f"module 'pets' has no attribute {name!r}")
    module = importlib.import_module(HOME_OF[name])
    value: object = getattr(module, name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
