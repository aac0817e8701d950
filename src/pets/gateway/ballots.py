"""A question while it is voted on."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from pets.errors import SamplerError
from pets.gateway.auth import ApiKey
from pets.gateway.requests import ChatRequest, VoteOptions
from pets.gateway.stream import Decision
from pets.gateway.verdicts import Ballot, Judgement
from pets.openai.errors import ApiError
from pets.types import Launch

__all__ = ["Outcome", "Poll", "Stop"]

Stop = Literal["policy", "max_traces", "rounds", "deadline", "budget", "single", "fallback"]


@dataclass(slots=True, eq=False)
class Poll:
    """The ballots of one question and what they took; ``box`` brings its launches, then None."""

    id: str
    request: ChatRequest
    options: VoteOptions
    key: ApiKey
    hold: int
    seed: int
    deadline: float
    box: asyncio.Queue[list[Launch] | None] = field(default_factory=asyncio.Queue)
    ballots: dict[int, Ballot] = field(default_factory=dict)
    in_flight: int = 0  # launches handed out that have not been told
    sent: int = 0
    rounds: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    delivered: int = 0
    lost: int = 0  # paid for, and nothing came
    retries: int = 0
    stopped: Stop = "policy"
    decision: Decision | None = None
    error: SamplerError | ApiError | None = None
    waited: float = 0.0
    _busy: int = 0
    _since: float = 0.0

    def begin(self, now: float) -> None:
        """An upstream request goes out."""
        if not self._busy:
            self._since = now
        self._busy += 1

    def end(self, now: float) -> None:
        """It is over."""
        self._busy -= 1
        if not self._busy:
            self.waited += now - self._since

    def in_order(self) -> list[Ballot]:
        """The launch-order prefix that has come back; all that came where nothing in it voted.

        What finishes first is short, and short traces vote differently: a vote cut off by its deadline does not
        count those that overtook others.
        """
        prefix: list[Ballot] = []
        while (ballot := self.ballots.get(len(prefix))) is not None:
            prefix.append(ballot)
        if any(ballot.form is not None for ballot in prefix):
            return prefix
        return [self.ballots[number] for number in sorted(self.ballots)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a voted request came to. ``waited`` are the seconds in which an upstream request was under way."""

    poll: Poll
    judgement: Judgement
    seconds: float
