"""A run in a few numbers: while it goes on, and when it is over."""

from dataclasses import dataclass

from pets.engine.answers import Answer
from pets.engine.outlook import Outlook

__all__ = ["Snapshot", "Solution"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How a run goes. ``rate`` is traces a second since it began or was resumed; ``faults`` those of this time."""

    questions: int
    traces: int
    failed: int
    in_flight: int
    spent: int
    total: int
    unit: str
    seconds: float
    rate: float
    expected_left: int
    faults: dict[str, int]
    outlook: Outlook | None

    @property
    def seconds_left(self) -> float | None:
        """Until the budget is spent, at this rate; ``None`` before there is one."""
        return self.expected_left / self.rate if self.rate > 0 else None


@dataclass(frozen=True, slots=True)
class Solution:
    """How a run went.

    ``consistency`` is the expected self-consistency and its 95 % interval. ``lost`` launches were in flight at a kill:
    charged, and among ``failed``. ``complete`` is False where it was stopped before its end. ``answers`` holds every
    question's where they were asked for.
    """

    run: int | None
    questions: int
    traces: int
    failed: int
    lost: int
    tokens: int
    prompt_tokens: int
    cost: float | None
    spent: int
    total: int
    unit: str
    consistency: tuple[float, float, float]
    faults: dict[str, int]
    complete: bool
    answers: tuple[Answer, ...] = ()
