"""Queues: who is served next, one kind for each kind of policy.

base.py     what every queue can be asked
states.py   an index policy that sees counts: questions in the same belief state share one entry
ranks.py    an index policy that sees whole traces, or soft votes: one entry for each question
quotas.py   a quota policy: what is granted, fewest launched first
waves.py    an index policy with waves: one wave of all questions at a time
walk.py     where a quota policy stops along recorded paths, without launching a trace
"""

from typing import Any

from pets.core.budget import Budget
from pets.core.policy import IndexPolicy, Policy, QuotaPolicy
from pets.core.queues.base import Queue, ReplicaTotals
from pets.core.queues.quotas import QuotaQueue
from pets.core.queues.ranks import RankQueue
from pets.core.queues.states import StateQueue
from pets.core.queues.waves import WaveQueue
from pets.errors import InputError

__all__ = ["Queue", "ReplicaTotals", "queue_for"]


def queue_for(
    policy: Policy,
    budget: Budget,
    horizon: int | None,
    seed: int,
    *,
    alike: bool = True,
    hurry: float | None = None,
) -> Queue[Any]:
    """The queue that serves this kind of policy; ``alike``: questions with the same votes share an entry.

    With a ``hurry`` the traces of a question are raced.
    """
    if isinstance(policy, QuotaPolicy):
        return QuotaQueue(policy, budget, horizon, seed)
    if isinstance(policy, IndexPolicy) and policy.waves:
        return WaveQueue(policy, budget, horizon)
    if isinstance(policy, IndexPolicy):
        return (StateQueue if alike and policy.sees == "counts" else RankQueue)(policy, budget, hurry)
    raise InputError(f"{policy!r} is neither an index nor a quota policy; derive it from IndexPolicy or QuotaPolicy.")
