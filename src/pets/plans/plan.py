"""What a stream goes by: difficulty grids, curves, budgets, prices and the prior, learned from a training pool.

The numbers are those of :mod:`pets.core.grid`, :mod:`pets.core.price` and :mod:`pets.core.prior`; a plan holds them
together, with where they come from, so that they can be read, kept and handed to a service.
"""

import itertools
import math
from dataclasses import dataclass

from pets.core.budget import Budget
from pets.core.greedy import Plan
from pets.core.grid import Grid
from pets.core.patterns import K0, PATTERNS, bin_of
from pets.core.price import PriceTable
from pets.core.prior import STRENGTHS, LearnedPrior
from pets.errors import InputError
from pets.policies.price import Price

__all__ = ["Provenance", "StreamPlan", "left_by_windows"]

SLACK = 50  # a window may leave a 50th of its budget to the next
SUM = 1e-6  # how far written shares may be from adding up to 1


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a plan comes from: the pool, how its answers were read, and with what.

    ``options`` is the size of a closed answer set. ``digest`` tells whether two plans saw the same answers.
    """

    pool: str
    questions: int
    traces: int
    answer: str
    options: int | None
    digest: str
    pets: str
    seed: int

    def __post_init__(self) -> None:
        if self.questions < 1 or self.traces < K0 * self.questions:
            raise InputError(f"{self.questions} training questions of {self.traces} traces; each has {K0} at least.")
        if self.options is not None and self.options < 2:
            raise InputError(f"a closed answer set has 2 options or more; got {self.options}.")


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A plan for a stream of questions at ``mean_budget`` traces each, in ``rounds`` batches after the warm-up.

    ``grid`` holds share, curve and voting chance of each warm-up pattern (easiest first); ``budgets``
    what the greedy plan gives them at the mean budget; ``prices`` the mean spend at each log price, none where a
    single round leaves nothing to price; ``prior`` how strongly the model agrees with itself. ``rounds`` = 0 is one
    trace at a time without a limit; ``cap`` is the most that a question may get.
    """

    mean_budget: float
    rounds: int
    cap: int
    grid: Grid
    budgets: Plan
    prices: PriceTable | None
    prior: LearnedPrior
    provenance: Provenance

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean_budget) and K0 <= self.mean_budget <= self.cap):
            raise InputError(
                f"a mean budget lies between the warm-up of {K0} traces and the cap of {self.cap}; "
                f"got {self.mean_budget:g}."
            )
        if self.rounds < 0 or (self.prices is None) != (self.rounds == 1):
            raise InputError(f"rounds are 0 or more, and only a plan of 1 round has no prices; got {self.rounds}.")
        _check_grid(self.grid, self.budgets, self.cap)
        _check_prior(self.prior)

    def policy(self, *, use_up: bool = False, leave: int = 0) -> Price:
        """The policy, ready for an :class:`~pets.core.allocator.Allocator` with a total and a horizon or by windows.

        With ``use_up`` what would be left at the end, or of a window, goes to the last questions, all but ``leave``.
        """
        return Price(
            self.rounds,
            use_up=use_up,
            leave=leave,
            table=None if self.prices is None else self.prices.rows,
            grids=self.grid.rows if self.prices is None else None,
            shares=self.prior.shares,
            edges=self.prior.edges,
        )

    def budget_of(self, pattern: int) -> float:
        """What the one-shot plan gives a question of this pattern on average."""
        j = bin_of(pattern, self.grid.K)
        low, high = self.budgets.low[j], self.budgets.high[j]
        return low + self.budgets.rho * (high - low)

    @property
    def expected(self) -> float:
        """The self-consistency that the one-shot plan expects of the stream."""
        grid, rho = self.grid, self.budgets.rho
        low, high = (grid.SC(ends).diagonal() for ends in (self.budgets.low, self.budgets.high))
        shares = zip(grid.shares, low.tolist(), high.tolist(), strict=True)
        return math.fsum(share * ((1 - rho) * a + rho * b) for share, a, b in shares)


def left_by_windows(budget: Budget) -> int:
    """``leave`` for a budget: 2 % of a window's, nothing where there are no windows.

    >>> left_by_windows(Budget.per_window(100, 1600)), left_by_windows(Budget(1600))
    (32, 0)
    """
    return 0 if budget.window is None else budget.window.amount // SLACK


def _check_grid(grid: Grid, budgets: Plan, cap: int) -> None:
    """Refuse shares that are no distribution and budgets that are none."""
    if len(PATTERNS) != grid.K or len(budgets.low) != grid.K or len(budgets.high) != grid.K:
        raise InputError(f"a plan has {len(PATTERNS)} grids, one for each warm-up pattern, each with its budget.")
    if not _distribution(grid.shares) or not all(0.0 <= chance <= 1.0 for chance in grid.voting):
        raise InputError(f"shares {grid.shares} add up to 1 and voting chances {grid.voting} lie in [0, 1].")
    ends = zip(budgets.low, budgets.high, strict=True)
    if not all(K0 <= low <= high <= cap for low, high in ends) or not 0.0 <= budgets.rho < 1.0:
        raise InputError(f"budgets lie between {K0} and {cap}, and rho in [0, 1); got {budgets}.")


def _check_prior(prior: LearnedPrior) -> None:
    """Refuse a prior that no batch can have taught."""
    rows, edges = prior.shares, prior.edges
    rising = all(a < b for a, b in itertools.pairwise(edges)) and all(map(math.isfinite, edges))
    if not rising or len(rows) not in (1, len(edges) + 1):
        raise InputError("the length classes of a prior are cut at rising edges, with a row of shares for each class.")
    if not all(len(row) == len(STRENGTHS) and min(row) > 0.0 and _distribution(row) for row in rows):
        raise InputError(f"a row of the prior has {len(STRENGTHS)} shares above 0 that add up to 1.")


def _distribution(shares: tuple[float, ...]) -> bool:
    return all(share >= 0.0 for share in shares) and abs(math.fsum(shares) - 1.0) <= SUM
