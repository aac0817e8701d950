"""The published stopping rules, each over all that can be set of it; thresholds are swept by the lab."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from pets.lab import PoolResult, replay
from pets.pools import Pool

QUESTIONS = 200  # of a pool that is replayed no more often than asked for

UNRANKED_RIVALS = [
    "asc",
    "asc:form=dirichlet",
    "lead",
    "esc",
    "boinf",
    "boinf:unknown=0",
    "boinf:unknown=1",
    "its_adaptive",
    "its_adaptive:start=4",
    "its_adaptive:start=8",
]
"""Those that ask for nothing but traces."""

RIVALS = [*UNRANKED_RIVALS, "dsc", "dsc:window=2", "dsc:window=8"]
"""With dsc, to which the lab gives a ranking of the questions by 32 further traces of each, free of charge."""

ZONE_RIVALS = ["asc:zone=0.1", "asc:form=dirichlet,zone=0.1", "boinf:zone=0.1"]
"""Those that can be made aware of an indifference zone of 0.1, made aware of it."""


def replay_evenly(
    pools: Sequence[Pool], policies: Sequence[str], repetitions: int, **settings: Any
) -> list[PoolResult]:
    """Replay every pool ``repetitions`` times, one of n < QUESTIONS questions QUESTIONS / n times as often.

    Chance then weighs alike on all: a pool of 30 questions would make the mean of several as noisy as itself.
    """
    results = []
    for place, pool in enumerate(pools, start=1):
        times = repetitions * max(1, round(QUESTIONS / len(pool.questions)))
        print(f"{place}/{len(pools)} {pool.name}: {times} repetitions", file=sys.stderr)
        results += replay([pool], policies, repetitions=times, workers=os.cpu_count() or 1, **settings)
    return results
