"""The price rule for a stream whose end is known: what is left there is lost, so nothing is left."""

from dataclasses import dataclass

from pets.core.policy import View
from pets.core.tally import Tally
from pets.policies.price import Price

__all__ = ["StreamPrice"]


@dataclass(frozen=True, slots=True)
class StreamPrice(Price):
    """:class:`~pets.policies.price.Price`, and with ``use_up`` never less than what no other question could use:

        b_t >= R_t - cap (H_t - 1),

    the mirror of the promise b_t <= R_t - K0 (H_t - 1). By induction the others can always take the rest, so the budget
    is spent to the last trace; the floor is above the price's own wish for the last few questions alone. A stream by
    windows has no such end: what a window leaves carries over.

    >>> rule, view = StreamPrice(rounds=1, use_up=True), View(budget_left=100, questions_left=2, cap=64)
    >>> rule.quota(Tally((4,)), view), StreamPrice(rounds=1).quota(Tally((4,)), view) < 36
    (36, True)
    """

    use_up: bool = False

    def quota(self, tally: Tally, view: View) -> int:
        """The price's, or the floor where that is more."""
        wanted = Price.quota(self, tally, view)
        if not self.use_up or view.cap is None:
            return wanted
        return max(wanted, view.budget_left - view.cap * (view.questions_left - 1))
