"""The price of a trace: a stream that buys while the index is above a common price allocates as offline okg does.

Offline, okg ends where every question's index has fallen to about the same value. So a stream can stop each
question when its index falls under a *price*, and steer the price so that the spend meets R_t / H_t (DESIGN,
section 5). The steering is one table: the mean spend that each price led to on training questions, read
backwards at the mean that is left. When the table errs, R_t / H_t moves and the price follows.

``rounds`` bounds latency: a question's traces go out in at most that many parallel batches. A batch is sized by
the fantasy: the number of pending traces, in the posterior mean's proportions, that brings the index down to the
price; with ``left`` rounds to go, a share 1/left of it is sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from pets.core.tally import Tally
from pets.errors import InputError

__all__ = ["Index", "PriceTable", "batch", "fit_prices"]

Index = Callable[[Tally], float]

LOG_PRICES = tuple(np.log(np.concatenate([np.geomspace(0.5, 1e-3, 40), np.geomspace(7e-4, 1e-12, 24)])).tolist())


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Mean traces a question at each log price, falling prices and rising spends.

    >>> table = PriceTable(log_prices=(-1.0, -3.0, -9.0), spends=(4.0, 8.0, 32.0))
    >>> table.log_price(6.0), table.log_price(2.0), table.log_price(99.0)
    (-2.0, -1.0, -9.0)
    """

    log_prices: tuple[float, ...]
    spends: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a <= b for a, b in zip(self.spends, self.spends[1:], strict=False))
        if len(self.spends) != len(self.log_prices) or not self.spends or not rising:
            raise InputError("a price table needs one spend for each price, and spends that do not fall.")

    def log_price(self, mean_budget: float) -> float:
        """The price at which the training questions spent ``mean_budget`` on average."""
        return float(np.interp(mean_budget, self.spends, self.log_prices))


def batch(index: Index, tally: Tally, log_price: float, left: int, cap: int) -> int:
    """How many traces to launch now: 0 at or under the price, 1 without a limit of rounds (``left`` = 0).

    Complexity: O(log cap) evaluations of the index; the fantasy index falls as traces are added.

    >>> import math
    >>> from pets.core.okg import okg_index
    >>> index = lambda tally: okg_index(tally, prior=1.0, unseen=1)
    >>> [batch(index, Tally((3, 2), options=4), math.log(0.01), left, cap=64) for left in (0, 1, 3)]
    [1, 59, 20]
    """

    def index_with(more: int) -> float:
        return index(replace(tally, pending=tally.pending + more) if more else tally)

    return _size(index_with, log_price, left, cap - tally.launched)


def _size(index_with: Callable[[int], float], log_price: float, left: int, room: int) -> int:
    """:func:`batch`, given the index as a function of the traces added as a fantasy."""
    if room <= 0 or index_with(0) <= log_price:
        return 0
    if left == 0:
        return 1
    low, high = 0, 1  # the index is above the price with `low` more, at or under it with `high` (or there is no room)
    while high < room and index_with(high) > log_price:
        low, high = high, min(2 * high, room)
    while high - low > 1:
        middle = (low + high) // 2
        if index_with(middle) > log_price:
            low = middle
        else:
            high = middle
    return -(-high // left)


def fit_prices(
    index: Index, paths: Sequence[Sequence[str | None]], *, options: int | None, rounds: int, warmup: int
) -> PriceTable:
    """The table of an index on recorded paths: each a question's answers in a random order.

    A path that ends before its index has fallen to the price spends all of itself. Every index along a path is worked
    out once, whatever the number of prices.
    """
    if not paths:
        raise InputError("a price table needs at least one training question.")
    spends = np.mean([_spends(index, path, options, rounds, warmup) for path in paths], axis=0)
    return PriceTable(LOG_PRICES, tuple(np.maximum.accumulate(spends).tolist()))


def _spends(index: Index, path: Sequence[str | None], options: int | None, rounds: int, warmup: int) -> list[int]:
    """What the price rule spends along one path at each of LOG_PRICES, the warm-up included."""

    @cache
    def tally_at(n: int) -> Tally:
        return Tally.of(path[:n], options=options)

    @cache
    def index_at(n: int, more: int) -> float:
        return index(replace(tally_at(n), pending=more) if more else tally_at(n))

    spends: list[int] = []
    for log_price in LOG_PRICES:
        # prices fall: without a limit of rounds, what was bought at the last price is bought again
        spent = spends[-1] if spends and rounds == 0 else min(warmup, len(path))
        done = 0
        while spent < len(path) and not (rounds and done == rounds):
            left = rounds - done if rounds else 0
            more = _size(partial(index_at, spent), log_price, left, len(path) - spent)
            if more == 0:
                break
            spent += more
            done += 1
        spends.append(spent)
    return spends
