"""Budgets in tokens or money: what a trace will cost is not known when it is launched.

At every launch, over the traces in flight,

    spent + sum of expected costs <= total                 so that the budget is met on average
    spent + sum of worst costs    <= total + bound         so that it is never exceeded by more than the bound

The expected cost of a question's trace is learned: the mean of its own traces, shrunk towards the batch's as by two
traces more; before anything has come back it is the worst, the longest trace that may be asked for. The second line
alone is a hard promise; it throttles only where few traces are left to pay for.
"""

from pets.core.budget import Budget
from pets.errors import BudgetError

__all__ = ["Purse"]

SHRINK = 2.0  # traces of the batch's mean that a question's own count against
RELEARN = 1.05  # growth of the traces seen, after which the ledger holds the new mean


class Purse:
    """The ledger of a budget whose traces differ in cost; ``worst`` is the dearest possible trace's.

    >>> from pets.core.budget import Currency
    >>> purse = Purse(Budget(1000, currency=Currency.tokens(hold=400)), worst=400, bound=100)
    >>> purse.launch("q"); purse.launch("q"); purse.allows()     # 800 at the worst; a third would make 1200
    False
    >>> purse.settle("q", 400, cost=90); purse.budget.spent = 90
    >>> purse.expected("q"), purse.allows()
    (90, True)
    """

    def __init__(self, budget: Budget, worst: int, bound: int) -> None:
        if budget.total - budget.spent < worst and not budget.spent and budget.total + bound < worst:
            unit = budget.currency.unit
            raise BudgetError(
                f"a budget of {budget.total} {unit} does not pay for one trace, which may cost {worst}. "
                "Raise the budget or lower max_tokens."
            )
        self.budget, self.worst, self.bound = budget, worst, bound
        self._mean = [0, 0]  # traces seen, their cost
        self._own: dict[str, list[int]] = {}
        self._expected = 0  # of what is in flight
        self._in_flight = 0
        self._relearn = 1.0

    def allows(self) -> bool:
        """Whether one more trace may be launched."""
        budget = self.budget
        likely = budget.spent + self._expected + self._usual
        at_worst = budget.spent + (self._in_flight + 1) * self.worst
        return likely <= budget.total and at_worst <= budget.total + self.bound

    def launch(self, question: str) -> int:
        """Hold what a trace of this question is expected to cost; the amount."""
        amount = self.expected(question)
        self._expected += amount
        self._in_flight += 1
        return amount

    def settle(self, question: str, held: int, cost: int) -> None:
        """A trace for which ``held`` was held has cost ``cost``."""
        self._expected -= held
        self._in_flight -= 1
        self.learn(question, cost)

    def learn(self, question: str, cost: int) -> None:
        """See what a trace cost."""
        for sums in (self._mean, self._own.setdefault(question, [0, 0])):
            sums[0] += 1
            sums[1] += cost
        if self._mean[0] >= self._relearn:
            self._relearn = RELEARN * self._mean[0]
            self.budget.hold_at(self._usual)

    def know(self, traces: int, cost: int) -> None:
        """What an earlier time of the same run has paid, all questions together."""
        self._mean[0] += traces
        self._mean[1] += cost
        self.budget.hold_at(self._usual)

    def expected(self, question: str) -> int:
        """The cost to expect of a trace of this question."""
        seen, cost = self._own.get(question, (0, 0))
        usual = self._usual
        return max(1, min(self.worst, round((cost + SHRINK * usual) / (seen + SHRINK))))

    @property
    def _usual(self) -> int:
        """The batch's mean cost, the worst before any is known."""
        seen, cost = self._mean
        return max(1, min(self.worst, round(cost / seen))) if seen else self.worst
