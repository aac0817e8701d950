"""The ways in which the mock misbehaves, each at a rate of its own, and its limit on requests.

Eight fatal faults spoil a response, at most one at a time; others change a response that is not spoiled, in any
combination; those of a batch befall its jobs and their lines. One that would change nothing (no log-probabilities where
none were asked for) does not happen and is not counted.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from pets.arguments import Interval, check_fields, setting
from pets.errors import InputError

FatalFault = Literal[
    "rate_limit", "rate_limit_bare", "error_500", "hang", "half_body", "wrong_json", "disconnect", "error_event"
]
ResponseFault = Literal["one_choice", "no_logprobs", "slow"]
BatchFault = Literal["batch_expired", "batch_partial", "batch_error", "batch_invalid"]
FATAL_FAULTS: tuple[FatalFault, ...] = get_args(FatalFault)
SECONDS = Interval(0, open=")")


def _rate(help_text: str | None = None) -> float:
    rate: float = setting(0.0, help_text, within=Interval(0, 1))
    return rate


@dataclass(frozen=True, slots=True)
class Faults:
    """The share of requests that each fault befalls, 0 to 1; those without a help text are for Python alone.

    >>> Faults(hang=0.7, error_500=0.5)
    Traceback (most recent call last):
    pets.errors.InputError: the faults that spoil a response add up to 1.2; a response is spoiled once. Give at most 1.
    """

    rate_limit: float = _rate("A 429 with Retry-After, of a second or as many as are said.")
    error_500: float = _rate("A 500.")
    hang: float = _rate("Nothing is said until the client goes.")
    half_body: float = _rate("Half of the body is sent, then the connection closes.")
    wrong_json: float = _rate("The body (or a stream event) is whole and no JSON.")
    disconnect: float = _rate("The connection closes before a byte is sent.")
    one_choice: float = _rate("One choice comes, whatever n is.")
    no_logprobs: float = _rate("No log-probabilities come though they were asked for.")
    slow: float = _rate("The first byte comes a second late, or as many as are said.")
    slow_seconds: float = setting(1.0, within=SECONDS)  # that a slow reply waits
    retry_after: float = setting(1.0, within=SECONDS)  # that a 429 asks to wait
    rate_limit_bare: float = _rate()  # a 429 without Retry-After
    error_event: float = _rate()  # an error within a stream that had begun well; a 500 where nothing is streamed
    batch_expired: float = _rate()  # a job expires with every other request not executed, which is not charged
    batch_partial: float = _rate()  # the output of a job lacks every other reply, which is charged all the same
    batch_error: float = _rate()  # a request of a job fails with 500, in the file of errors
    batch_invalid: float = _rate()  # a job fails validation, and nothing of it is executed
    batch_seconds: float = setting(0.0, within=SECONDS)  # that a job takes beyond its longest trace

    def __post_init__(self) -> None:
        check_fields(self)
        if (total := math.fsum(getattr(self, name) for name in FATAL_FAULTS)) > 1 + 1e-9:
            words = f"the faults that spoil a response add up to {total:g}; a response is spoiled once. Give at most 1."
            raise InputError(words)


class RequestLimit:
    """At most ``requests`` at once; what was used comes back evenly, all of it within ``per_s`` seconds.

    >>> limit = RequestLimit(2, per_s=10.0, clock=lambda: 0.0)
    >>> [limit.take() for _ in range(3)]
    [0.0, 0.0, 5.0]
    """

    def __init__(self, requests: int, per_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        if requests < 1 or not 0 < per_s < math.inf:
            raise InputError(f"a limit is at least 1 request in more than 0 seconds; got {requests}, {per_s}.")
        self._requests, self._request_s, self._clock = requests, per_s / requests, clock
        self._level, self._updated = float(requests), clock()

    def take(self) -> float:
        """Take one request and return 0, or return the seconds until there is one to take."""
        self._refill()
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) * self._request_s

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The limit, what is left of it, and when all of it will be back, as OpenAI's servers say it."""
        self._refill()
        reset_ms = math.ceil((self._requests - self._level) * self._request_s * 1e3)
        texts = {"limit": str(self._requests), "remaining": str(int(self._level)), "reset": f"{reset_ms}ms"}
        return [(f"x-ratelimit-{name}-requests".encode(), text.encode()) for name, text in texts.items()]

    def _refill(self) -> None:
        now = self._clock()
        self._level = min(float(self._requests), self._level + (now - self._updated) / self._request_s)
        self._updated = now
