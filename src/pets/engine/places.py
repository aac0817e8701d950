"""``Places``: so many at once, shared by those who pay for them.

First come, first served would give all places to one client with many slow requests. Here a payer may have
FREE_MULTIPLE times as many as are left free: alone, seven eighths of all; of two that want everything, each the same.
So the next payer finds a place at once, however long the others keep theirs, and nobody's is taken away (dynamic
thresholds: Choudhury and Hahne, 1998).
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

FREE_MULTIPLE = 7


class Places:
    """At most ``size`` at once; ``shared`` says whether there are several payers: one without others may have all.

    >>> places = Places(8, shared=lambda: True)
    >>> places.take("alice", 7), places.take("alice"), places.take("bob"), places.taken
    (True, False, True, 8)
    """

    def __init__(self, size: int, shared: Callable[[], bool] = lambda: False) -> None:
        self.size = size
        self.taken = 0
        self._shared = shared
        self._by_payer: Counter[str] = Counter()
        self._waiting: dict[str, list[tuple[int, int, int, asyncio.Future[int]]]] = {}  # by payer, heaps
        self._arrivals = count()

    def taken_by(self, payer: str) -> int:
        """How many this payer has."""
        return self._by_payer[payer]

    def room(self, payer: str) -> int:
        """How many more this payer may take now: at least one, where it has none and one is free."""
        free, own = max(0, self.size - self.taken), self._by_payer[payer]
        if not self._shared():
            return free
        return min(free, max((FREE_MULTIPLE * free - own) // (FREE_MULTIPLE + 1), int(not own)))

    def take(self, payer: str, number: int = 1) -> bool:
        """Take as many if there is room for all of them; where nothing is taken, more than there are."""
        if self.taken and number > self.room(payer):
            return False
        self._add(payer, number)
        return True

    async def acquire(self, payer: str, most: int, rank: int = 0) -> int:
        """Wait for a place, and take as many as there is room for: 1 to ``most``. Of a payer's, the least ``rank`` goes
        first, then who came first; of payers, who has least."""
        arrival: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        heappush(self._waiting.setdefault(payer, []), (rank, next(self._arrivals), most, arrival))
        self._serve()
        try:
            return await arrival
        except asyncio.CancelledError:
            if arrival.done() and not arrival.cancelled():
                self.give_back(payer, arrival.result())
            raise

    def give_back(self, payer: str, number: int = 1) -> None:
        """Free places, for payers that wait."""
        self._add(payer, -number)
        self._serve()

    def _serve(self) -> None:
        """Give places to those who wait, as long as one of them may have any."""
        while ready := [payer for payer in self._waiting if self.room(payer) > 0]:
            payer = min(ready, key=self._by_payer.__getitem__)
            queue = self._waiting.pop(payer)
            _, _, most, arrival = heappop(queue)
            if queue:
                self._waiting[payer] = queue  # behind the others who have as few
            if not arrival.done():  # its request has not gone
                number = min(most, self.room(payer))
                self._add(payer, number)
                arrival.set_result(number)

    def _add(self, payer: str, number: int) -> None:
        self.taken += number
        self._by_payer[payer] += number
        if not self._by_payer[payer]:
            del self._by_payer[payer]
