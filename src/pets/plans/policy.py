"""The price rule for a stream whose budget has an end, its own or a window's: what is left there is used up."""

from dataclasses import dataclass

from pets.core.budget import Budget
from pets.core.policy import View
from pets.core.tally import Tally
from pets.policies.price import Price

__all__ = ["StreamPrice", "left_by_windows"]

SLACK = 50  # a window may leave a 50th of its budget to the next


@dataclass(frozen=True, slots=True)
class StreamPrice(Price):
    """:class:`~pets.policies.price.Price`, and with ``use_up`` never less than what no other question could use:

        b_t >= R_t - leave - cap (H_t - 1),

    the mirror of the promise b_t <= R_t - K0 (H_t - 1). By induction the others can always take the rest, so all but
    ``leave`` traces are spent; the floor is above the price's own wish for the last few questions alone. By windows
    H_t ends with the window, and what one leaves carries over: ``leave`` keeps a little of it from being forced on the
    window's last question.

    >>> rule, view = StreamPrice(rounds=1, use_up=True), View(budget_left=100, questions_left=2, cap=64)
    >>> rule.quota(Tally((4,)), view), StreamPrice(rounds=1).quota(Tally((4,)), view) < 36
    (36, True)
    """

    use_up: bool = False
    leave: int = 0

    def quota(self, tally: Tally, view: View) -> int:
        """The price's, or the floor where that is more."""
        wanted = Price.quota(self, tally, view)
        if not self.use_up or view.cap is None:
            return wanted
        return max(wanted, view.budget_left - self.leave - view.cap * (view.questions_left - 1))


def left_by_windows(budget: Budget) -> int:
    """``leave`` for a budget: 2 % of a window's, nothing where there are no windows.

    >>> left_by_windows(Budget.per_window(100, 1600)), left_by_windows(Budget(1600))
    (32, 0)
    """
    return 0 if budget.window is None else budget.window.amount // SLACK
