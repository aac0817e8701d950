"""Waves: what each question gets when the budget is spent in a few parallel batches of all questions."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from pets.core.tally import Tally

__all__ = ["Wave", "equal_shares"]


@dataclass(frozen=True, slots=True)
class Wave:
    """What a plan may spend: ``budget`` traces over the ``left`` waves to come, this one among them.

    No question gets more than ``cap`` traces in all.
    """

    budget: int
    left: int
    cap: int | None = None


def equal_shares(score: Callable[[Tally], float], states: Mapping[Tally, int], wave: Wave) -> dict[Tally, list[int]]:
    """Sizes for every question: the share 1 / left of the budget, one trace after the other where the score is highest.

    What was dealt is scored as pending; a score of -infinity is never dealt to.

    >>> plan = equal_shares(lambda tally: -tally.launched, {Tally((1,)): 2, Tally((4,)): 1}, Wave(10, 2))
    >>> plan[Tally((1,))], plan[Tally((4,))]
    ([3, 2], [0])
    """
    sizes = {tally: [0] * many for tally, many in states.items()}
    heap: list[tuple[float, int, int, Tally]] = []

    def offer(place: int, dealt: int, tally: Tally) -> None:
        fantasy = replace(tally, pending=tally.pending + dealt)
        if (wave.cap is None or fantasy.launched < wave.cap) and (value := score(fantasy)) > -math.inf:
            heappush(heap, (-value, place, dealt, tally))

    for place, tally in enumerate(states):
        offer(place, 0, tally)
    left = -(-wave.budget // wave.left)
    while left and heap:
        _, place, dealt, tally = heappop(heap)
        many = min(left, states[tally])
        sizes[tally][:many] = [dealt + 1] * many
        left -= many
        offer(place, dealt + 1, tally)
    return sizes
