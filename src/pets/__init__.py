"""PETS: spend a self-consistency sampling budget where it changes the vote.

>>> import pets
>>> answer = pets.ask("What is 17 x 23?", sampler=lambda question: "17 x 23 = 391. The answer is 391.")
>>> answer.answer, answer.traces <= 16
('391', True)

Names are imported when they are used: `import pets` alone brings neither numpy nor an HTTP client.
"""

import importlib
from typing import TYPE_CHECKING

from pets._version import __version__ as __version__

if TYPE_CHECKING:  # what editors and type checkers see; HOMES is the same for Python
    from pets.answers.base import AnswerType as AnswerType
    from pets.api import Voter as Voter
    from pets.api import aask as aask
    from pets.api import ask as ask
    from pets.api import fit as fit
    from pets.api import record as record
    from pets.api import replay as replay
    from pets.api import solve as solve
    from pets.api import stream as stream
    from pets.core.allocator import Allocator as Allocator
    from pets.core.budget import Budget as Budget
    from pets.core.money import Currency as Currency
    from pets.core.policy import IndexPolicy as IndexPolicy
    from pets.core.policy import Policy as Policy
    from pets.core.policy import QuotaPolicy as QuotaPolicy
    from pets.core.policy import View as View
    from pets.core.tally import Tally as Tally
    from pets.engine import Answer as Answer
    from pets.engine import Consistency as Consistency
    from pets.engine import Engine as Engine
    from pets.engine import RunSpec as RunSpec
    from pets.engine import Solution as Solution
    from pets.engine import TokenPrice as TokenPrice
    from pets.engine.budget import Amount as Amount
    from pets.engine.reread import reread as reread
    from pets.errors import BudgetError as BudgetError
    from pets.errors import BusyError as BusyError
    from pets.errors import FirstTracesError as FirstTracesError
    from pets.errors import InputError as InputError
    from pets.errors import JobError as JobError
    from pets.errors import JobLeftError as JobLeftError
    from pets.errors import LocalModelError as LocalModelError
    from pets.errors import PetsError as PetsError
    from pets.errors import PoolError as PoolError
    from pets.errors import RefusedError as RefusedError
    from pets.errors import ReplyError as ReplyError
    from pets.errors import SamplerError as SamplerError
    from pets.errors import SpecError as SpecError
    from pets.errors import StateError as StateError
    from pets.errors import UnreachableError as UnreachableError
    from pets.lab import PoolResult as PoolResult
    from pets.lab import ReplayConfig as ReplayConfig
    from pets.lab import Result as Result
    from pets.plans import StreamPlan as StreamPlan
    from pets.plans import read_plan as read_plan
    from pets.plans import write_plan as write_plan
    from pets.pools import Pool as Pool
    from pets.pools import PooledQuestion as PooledQuestion
    from pets.pools import read_pool as read_pool
    from pets.pools import write_pool as write_pool
    from pets.questions import Problem as Problem
    from pets.registry import make_answer_type as make_answer_type
    from pets.registry import make_policy as make_policy
    from pets.registry import make_sampler as make_sampler
    from pets.report.replay_results import CurvesPlot as CurvesPlot
    from pets.report.replay_results import ReplayResults as ReplayResults
    from pets.samplers import Completion as Completion
    from pets.samplers import Prompt as Prompt
    from pets.samplers import Sampler as Sampler
    from pets.samplers import Sampling as Sampling
    from pets.samplers.openai import OpenAISampler as OpenAISampler
    from pets.types import Launch as Launch
    from pets.types import Question as Question
    from pets.types import Trace as Trace
    from pets.types import Verdict as Verdict

HOMES = {
    "pets.answers.base": "AnswerType",
    "pets.api": "Voter aask ask fit record replay solve stream",
    "pets.engine.reread": "reread",
    "pets.core.allocator": "Allocator",
    "pets.core.budget": "Budget",
    "pets.core.money": "Currency",
    "pets.core.policy": "IndexPolicy Policy QuotaPolicy View",
    "pets.core.tally": "Tally",
    "pets.engine": "Answer Consistency Engine RunSpec Solution TokenPrice",
    "pets.engine.budget": "Amount",
    "pets.errors": "BudgetError BusyError FirstTracesError InputError JobError JobLeftError LocalModelError PetsError "
    "PoolError RefusedError ReplyError SamplerError SpecError StateError UnreachableError",
    "pets.lab": "PoolResult ReplayConfig Result",
    "pets.plans": "StreamPlan read_plan write_plan",
    "pets.pools": "Pool PooledQuestion read_pool write_pool",
    "pets.questions": "Problem",
    "pets.registry": "make_answer_type make_policy make_sampler",
    "pets.report.replay_results": "CurvesPlot ReplayResults",
    "pets.samplers": "Completion Prompt Sampler Sampling",
    "pets.samplers.openai": "OpenAISampler",
    "pets.types": "Launch Question Trace Verdict",
}
HOME_OF = {name: module for module, names in HOMES.items() for name in names.split()}
__all__ = sorted([*HOME_OF, "__version__"])  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in HOME_OF:
        raise AttributeError(f"module 'pets' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(HOME_OF[name]), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
