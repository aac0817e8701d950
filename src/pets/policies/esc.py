"""Early-Stopping Self-Consistency: sample window by window until the answers of one window are all the same.

Windows are disjoint; the vote is over everything drawn. Li, Yuan, Feng, Pan, Wang, Sun, Wang and Li, "Escape
Sky-high Cost" (ICLR 2024): windows of 5, 40 traces at most.
"""

from dataclasses import dataclass

from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class ESC(QuotaPolicy):
    """Stops at a unanimous ``window`` or at ``cap``; a trace without an answer breaks its window's unanimity.

    >>> rule = ESC(window=2)
    >>> rule.quota(Tally.of(["A", "B"]), View()), rule.quota(Tally.of(["A", "B", "B", "B"]), View())
    (4, 4)
    """

    sees = "traces"
    solitary = True
    sweep = ("window", (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20))

    window: int = 5
    cap: int = 40

    def __post_init__(self) -> None:
        if self.window < 1 or self.cap < 1:
            raise InputError(f"esc needs window >= 1 and cap >= 1; got {self}.")

    def quota(self, tally: Tally, view: View) -> int:
        launched = tally.launched
        if launched >= self.cap or self._unanimous(tally.answers):
            return launched
        return min(self.cap, (launched // self.window + 1) * self.window)

    def _unanimous(self, answers: tuple[str | None, ...]) -> bool:
        size = self.window
        windows = (answers[start : start + size] for start in range(0, len(answers) - size + 1, size))
        return any(window[0] is not None and window.count(window[0]) == size for window in windows)
