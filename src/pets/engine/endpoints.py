"""Several servers of one model: the next request goes to the healthiest and least loaded of them."""

import asyncio
from collections.abc import Sequence

import httpx

from pets.errors import BusyError, SamplerError
from pets.samplers import Sampler

__all__ = ["Endpoint", "Fleet", "unreachable"]

FAILURES = 5  # in a row, after which an endpoint rests
LONGEST_REST = 30.0
WEIGHT = 0.2  # of the latest reply in an endpoint's pace


class Endpoint:
    """One server: its load, its health, and how many traces it gives in one request.

    ``most`` is learned: a server that refuses n is asked for fewer, one that silently gives a single choice is asked
    for one at a time.
    """

    __slots__ = (
        "_ones",
        "_proven",
        "answered",
        "failures",
        "in_flight",
        "most",
        "number",
        "pace",
        "rest_until",
        "sampler",
    )

    def __init__(self, number: int, sampler: Sampler, most: int) -> None:
        self.number, self.sampler, self.most = number, sampler, most
        self.in_flight = 0  # traces
        self.pace = 0.0  # seconds a request, lately
        self.failures = 0  # in a row
        self.rest_until = 0.0
        self.answered = False  # whether it ever said anything
        self._ones = 0  # requests for several that brought one, in a row
        self._proven = False  # whether several ever came back

    def came(self, asked: int, got: int, seconds: float) -> None:
        """A reply was read."""
        self.answered, self.failures, self.rest_until = True, 0, 0.0
        self.pace = seconds if not self.pace else (1 - WEIGHT) * self.pace + WEIGHT * seconds
        if asked < 2:
            return
        self._proven = self._proven or got > 1
        self._ones = 0 if got > 1 else self._ones + 1
        if self._ones >= 2 and not self._proven:
            self.most = 1

    def failed(self, now: float, away: bool) -> None:
        """It gave nothing; ``away``: nobody was there. After a few such in a row it rests, longer each time."""
        self.failures += 1
        self.answered = self.answered or not away
        beyond = self.failures - (1 if away else FAILURES)
        if beyond >= 0:
            self.rest_until = now + min(LONGEST_REST, 0.5 * 2.0 ** min(beyond, 10))


class Fleet:
    """The endpoints of a run."""

    def __init__(self, samplers: Sequence[Sampler], most: int) -> None:
        self.endpoints = [Endpoint(number, sampler, most) for number, sampler in enumerate(samplers)]

    async def pick(self, avoid: Endpoint | None = None) -> Endpoint:
        """The next endpoint to ask, not the one that just failed if another is well; waits while all rest."""
        while True:
            now = asyncio.get_running_loop().time()
            well = [one for one in self.endpoints if one.rest_until <= now]
            if well:
                other = [one for one in well if one is not avoid] or well
                return min(other, key=lambda one: ((one.in_flight + 1) * (one.pace or 1e-9), one.in_flight))
            await asyncio.sleep(min(one.rest_until for one in self.endpoints) - now)

    @property
    def never_answered(self) -> bool:
        """Whether no endpoint has ever said a word."""
        return not any(one.answered for one in self.endpoints)

    @property
    def most(self) -> int:
        """The most traces that one request may ask for."""
        return max(one.most for one in self.endpoints)


def unreachable(error: SamplerError) -> bool:
    """Whether nobody was there: nothing was sampled, and the trace has not been tried."""
    return isinstance(error, BusyError) and isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)
