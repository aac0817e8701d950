"""Admission under uncertain cost: how many traces a budget in tokens or money pays for.

What a trace will cost is not known when it is launched.

At every launch, over the k traces in flight and the new one,

    spent + sum of expected costs                                       <= total
    spent + sum of expected costs + z s sqrt(k + 1) + dearest seen      <= total + bound

so that the budget is met on average and, s being the learned spread of costs, exceeded by more than the bound less
than once in a thousand runs, whatever the longest trace may cost. Until ``MIN_SAMPLES`` traces have come back nothing
is known of the spread, and the second line counts every trace at the worst:

    spent + (k + 1) worst                                               <= total + bound

The expected cost of a question's trace is the mean of its own, shrunk towards the batch's as by two traces more.
"""

import math

from pets.core.budget import Budget
from pets.core.money import amount_words
from pets.errors import BudgetError

SHRINKAGE_TRACES = 2.0  # of the batch's mean that a question's own count against
RELEARN_GROWTH = 1.05  # of the traces seen, after which the ledger holds the new mean
MIN_SAMPLES = 16  # traces, to know what traces cost
Z = 3.09  # one in a thousand


class UnitCost:
    """Costs of a budget that counts traces: one each, known beforehand, so that the budget alone admits launches."""

    def can_launch(self) -> bool:
        """Whether one more trace may be launched: as far as its cost is concerned, always."""
        return True

    def reserve(self, question: str) -> int:
        """Hold what a trace of this question costs; the amount."""
        return 1

    def settle(self, question: str, held: int, cost: int) -> None:
        """A trace for which ``held`` was held has cost ``cost``."""

    def release(self, held: int) -> None:
        """A trace for which ``held`` was held will never be paid for."""

    def learn(self, question: str, cost: int) -> None:
        """See what a trace cost."""

    def forget(self, question: str) -> None:
        """No more traces of this question will come."""

    def expected(self, question: str) -> int:
        """The tokens' cost to expect of a trace of this question: they cost nothing."""
        return 0


class CostEstimator:
    """Learns what traces cost and says whether one more may be launched; ``worst`` is the dearest possible trace's.

    >>> from pets.core.money import Currency
    >>> estimator = CostEstimator(Budget(1000, currency=Currency.tokens(hold=400)), worst=400, bound=100)
    >>> held = estimator.reserve("q"), estimator.reserve("q")
    >>> estimator.can_launch()                                          # 800 at the worst; a third would make 1200
    False
    >>> estimator.settle("q", held[0], cost=90); estimator.budget.spent = 90
    >>> estimator.expected("q"), estimator.can_launch()
    (90, True)
    """

    def __init__(self, budget: Budget, worst: int, bound: int) -> None:
        total, unit = budget.total if budget.window is None else budget.window.amount, budget.currency.unit
        if not budget.spent and total + bound < worst:
            raise BudgetError(
                f"a budget of {amount_words(total, unit)} does not pay for one trace, which may cost "
                f"{amount_words(worst, unit)}. Raise the budget or lower --max-tokens."
            )
        self.budget, self.worst, self.bound = budget, worst, bound
        self._seen = self._sum = self._squares = self._dearest = 0
        self._own: dict[str, list[int]] = {}  # a question's traces and their cost
        self._expected = 0  # of what is in flight
        self._in_flight = 0
        self._relearn = 1.0

    def can_launch(self) -> bool:
        """Whether one more trace may be launched."""
        spent, total, traces = self.budget.spent, self.budget.total, self._in_flight + 1
        likely = spent + self._expected + self._usual
        if self._seen < MIN_SAMPLES:
            return likely <= total and spent + traces * self.worst <= total + self.bound
        return likely <= total and likely + Z * self._spread * math.sqrt(traces) + self._dearest <= total + self.bound

    def reserve(self, question: str) -> int:
        """Hold what a trace of this question is expected to cost; the amount."""
        amount = self.expected(question)
        self._expected += amount
        self._in_flight += 1
        return amount

    def settle(self, question: str, held: int, cost: int) -> None:
        """A trace for which ``held`` was held has cost ``cost``."""
        self.release(held)
        self.learn(question, cost)

    def release(self, held: int) -> None:
        """A trace for which ``held`` was held will never be paid for."""
        self._expected -= held
        self._in_flight -= 1

    def learn(self, question: str, cost: int) -> None:
        """See what a trace cost."""
        own = self._own.setdefault(question, [0, 0])
        own[0] += 1
        own[1] += cost
        self._seen += 1
        self._sum += cost
        self._squares += cost * cost
        self._dearest = max(self._dearest, cost)
        if self._seen >= self._relearn:
            self._relearn = RELEARN_GROWTH * self._seen
            self.budget.hold_at(self._usual)

    def forget(self, question: str) -> None:
        """No more traces of this question will come; what it cost stays among the batch's."""
        self._own.pop(question, None)

    def expected(self, question: str) -> int:
        """The cost to expect of a trace of this question."""
        seen, cost = self._own.get(question, (0, 0))
        return max(1, min(self.worst, round((cost + SHRINKAGE_TRACES * self._usual) / (seen + SHRINKAGE_TRACES))))

    @property
    def _usual(self) -> int:
        """The batch's mean cost, the worst before any is known."""
        return max(1, min(self.worst, round(self._sum / self._seen))) if self._seen else self.worst

    @property
    def _spread(self) -> float:
        """The deviation of costs, all questions together."""
        mean = self._sum / self._seen
        return math.sqrt(max(0.0, self._squares / self._seen - mean * mean))
