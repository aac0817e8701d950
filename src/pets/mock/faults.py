"""The ways in which the mock misbehaves, each at a rate of its own.

Eight faults spoil a reply, at most one at a time; the others bend a reply that is not spoiled, in any combination. One
that would change nothing (no log-probabilities where none were asked for) does not happen and is not counted.
"""

import math
import random
from dataclasses import dataclass, field
from typing import Literal, get_args

from pets.errors import InputError

__all__ = ["BENDS", "SPOILERS", "Bend", "Faults", "Spoiler", "draw_bends", "draw_spoiler"]

Spoiler = Literal[
    "rate_limit", "rate_limit_bare", "error_500", "hang", "half_body", "wrong_json", "disconnect", "error_event"
]
Bend = Literal["fewer_choices", "one_choice", "usage_of_one", "no_logprobs", "extra_logprob", "slow", "reasoning_apart"]
SPOILERS: tuple[Spoiler, ...] = get_args(Spoiler)
BENDS: tuple[Bend, ...] = get_args(Bend)
YOUNGER = {"reasoning_apart"}  # drawn only where it can happen, so that the same seed still brings the same older ones


def _rate(says: str) -> float:
    return field(default=0.0, metadata={"help": says, "metavar": "RATE"})


@dataclass(frozen=True, slots=True)
class Faults:
    """The share of requests that each fault befalls, 0 to 1.

    >>> Faults(hang=0.7, error_500=0.5)
    Traceback (most recent call last):
    pets.errors.InputError: the faults that spoil a reply add up to 1.2; a reply is spoiled once. Give at most 1.
    """

    rate_limit: float = _rate("A 429 with Retry-After.")
    rate_limit_bare: float = _rate("A 429 without Retry-After.")
    error_500: float = _rate("A 500.")
    hang: float = _rate("Nothing is said until the client goes.")
    half_body: float = _rate("Half of the body is sent, then the connection closes.")
    wrong_json: float = _rate("The body (or a stream event) is whole and no JSON.")
    disconnect: float = _rate("The connection closes before a byte is sent.")
    error_event: float = _rate("An error comes within a stream that had begun well; a 500 where nothing is streamed.")
    fewer_choices: float = _rate("Fewer choices than n come.")
    one_choice: float = _rate("One choice comes, whatever n is.")
    usage_of_one: float = _rate("The usage counts the first choice alone.")
    no_logprobs: float = _rate("No log-probabilities come though they were asked for.")
    extra_logprob: float = _rate("A place has k + 1 log-probabilities: the sampled token was not among the top k.")
    slow: float = _rate("The first byte comes --slow-seconds late.")
    reasoning_apart: float = _rate(
        "A chat's thoughts come in reasoning, the answer alone in content, which may be null."
    )
    slow_seconds: float = field(default=1.0, metadata={"help": "How many seconds a slow reply waits."})
    retry_after: float = field(default=1.0, metadata={"help": "How many seconds a 429 asks to wait."})

    def __post_init__(self) -> None:
        for name in (*SPOILERS, *BENDS):
            rate = getattr(self, name)
            if not 0 <= rate <= 1:
                raise InputError(f"{name} is {rate}; a rate lies between 0 and 1.")
        if (total := math.fsum(getattr(self, name) for name in SPOILERS)) > 1 + 1e-9:
            raise InputError(
                f"the faults that spoil a reply add up to {total:g}; a reply is spoiled once. Give at most 1."
            )
        for seconds in (self.slow_seconds, self.retry_after):
            if not 0 <= seconds < math.inf:
                raise InputError(f"a fault lasts {seconds} seconds; give a number, 0 or more.")


def draw_spoiler(faults: Faults, rng: random.Random) -> Spoiler | None:
    """Which fault spoils the next reply, if one does: always one draw, so that rates do not shift each other."""
    left = rng.random()
    for name in SPOILERS:
        left -= getattr(faults, name)
        if left < 0:
            return name
    return None


def draw_bends(faults: Faults, rng: random.Random) -> frozenset[Bend]:
    """Which faults bend the next reply."""
    rates = {name: getattr(faults, name) for name in BENDS}
    return frozenset(name for name, rate in rates.items() if (rate or name not in YOUNGER) and rng.random() < rate)
