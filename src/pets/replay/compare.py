"""One policy against the best of its rivals on each pool, nobody scored on what it was chosen on.

A rival is a family: a stopping rule at any of its thresholds. Taking the best of a dozen rules at a dozen thresholds
on the same repetitions that score it would flatter the winner. So, at self-consistency ``level``:

1. On the even repetitions, each policy gets a *plan* that meets the level in the mean. For a curve that is a spend;
   for a sweep two neighbouring values on its frontier of mean points and the share w of the second, so that their
   mixture meets the level (a user can mix two thresholds by tossing a coin for each question). Rivals that never reach
   the level are out; of the others, the one whose plan spends least is the pool's rival.
2. On the odd repetitions both plans are scored as they stand: what they spend, and what self-consistency they give.

``ratio`` = our spend / the rival's on the odd repetitions. The plans may miss the level there, each by its own luck
(on 30 questions one vote is 3 points, so both the spend and what it gave jump), so ``equal_ratio`` holds the rival's
plan fixed and asks what our mean curve spends to give what that plan gave: the steadier of the two. The
paired test is at equal spend: in each odd repetition, our self-consistency at exactly what the rival's plan spent
in it, less the rival's; Student's t, two-sided, Holm-corrected over the pools. ``significant`` losses are those
with a negative ``advantage`` and ``p_holm`` < 0.05.

With disjoint halves the level is a share of the ceiling. ``parity=1`` swaps the halves: choose on the odd ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr

from pets.errors import InputError
from pets.replay.metrics import LEVEL_TOLERANCE, at_spend, frontier, mean_curve
from pets.replay.results import Floats, PoolResult, Result

__all__ = ["Comparison", "average_ratio", "compare"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours and the best rival on one pool; spends are mean traces per question, ``None`` where there is none.

    ``rival`` is ``None`` if no rival reaches the level on the even repetitions, ``spend`` if we do not.
    """

    pool: str
    level: float
    ours: str
    rival: str | None
    option: str | None
    values: tuple[float, ...]
    spend: float | None
    consistency: float | None
    rival_spend: float | None
    rival_consistency: float | None
    ratio: float | None
    equal_ratio: float | None
    advantage: float | None
    p: float | None
    p_holm: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the difference at equal spend is more than luck, all pools considered."""
        return self.p_holm is not None and self.p_holm < 0.05


@dataclass(frozen=True, slots=True)
class SpendPoint:
    """A point of a result, or the mixture of two: a share ``w`` of the questions at ``high``.

    It was made on the repetitions of this ``parity``, which spend ``planned``.
    """

    result: Result
    parity: int
    planned: float
    low: int
    high: int
    w: float

    @property
    def values(self) -> tuple[float, ...]:
        """The values of the sweep that it uses; none for a curve."""
        if self.result.option is None:
            return ()
        return tuple(self.result.values[point] for point in dict.fromkeys((self.low, self.high)))

    @property
    def scored(self) -> slice:
        """The repetitions that it was not made on."""
        return slice(1 - self.parity, None, 2)

    def of(self, values: Floats) -> Floats:
        """The mixture of ``values`` (R, V) in each scored repetition."""
        scored = values[self.scored]
        return (1.0 - self.w) * scored[:, self.low] + self.w * scored[:, self.high]


def compare(
    pools: Sequence[PoolResult], ours: str, rivals: Sequence[str], level: float = 0.99, *, parity: int = 0
) -> list[Comparison]:
    """One comparison a pool; see the module for what is chosen and what is scored."""
    if any(pool.config.repetitions < 4 for pool in pools):
        raise InputError("a comparison chooses on half of the repetitions and scores on the rest; give it 4 or more.")
    compared = [_pool(pool, ours, rivals, level, parity) for pool in pools]
    return [
        replace(comparison, p_holm=p)
        for comparison, p in zip(compared, holm([comparison.p for comparison in compared]), strict=True)
    ]


def average_ratio(compared: Sequence[Comparison], *, equal: bool = False) -> float:
    """The mean of the pools' ratios (``equal``: of their equal ratios) where there is one; NaN if there is none."""
    ratios = [comparison.equal_ratio if equal else comparison.ratio for comparison in compared]
    finite = [ratio for ratio in ratios if ratio is not None]
    return float(np.mean(finite)) if finite else float("nan")


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction; ``None`` stays out of the family.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    order = sorted((value, place) for place, value in enumerate(p) if value is not None)
    corrected: list[float | None] = [None] * len(p)
    running = 0.0
    for rank, (value, place) in enumerate(order):
        running = max(running, min(1.0, value * (len(order) - rank)))
        corrected[place] = running
    return corrected


def _pool(pool: PoolResult, ours: str, rivals: Sequence[str], level: float, parity: int) -> Comparison:
    result = pool.result(ours)
    mine = _spend_point(result, level, parity)
    plans = [plan for spec in rivals if (plan := _spend_point(pool.result(spec), level, parity)) is not None]
    best = min(plans, key=lambda plan: plan.planned, default=None)
    spend, consistency = _score(mine)
    rival_spend, rival_consistency = _score(best)
    advantage, p = (None, None) if best is None else _at_equal_spend(result, best)
    return Comparison(
        pool=pool.pool,
        level=level,
        ours=ours,
        rival=None if best is None else best.result.policy,
        option=None if best is None else best.result.option,
        values=() if best is None else best.values,
        spend=spend,
        consistency=consistency,
        rival_spend=rival_spend,
        rival_consistency=rival_consistency,
        ratio=None if spend is None or rival_spend is None else spend / rival_spend,
        equal_ratio=None if best is None else _equal_ratio(result, best),
        advantage=advantage,
        p=p,
    )


def _spend_point(result: Result, level: float, parity: int) -> SpendPoint | None:
    """What meets the level in the mean of the repetitions to choose on."""
    part = slice(parity, None, 2)
    traces, consistency = mean_curve(result, part)
    bar = float(result.bar(level)[part].mean()) - LEVEL_TOLERANCE
    points = np.arange(len(traces)) if result.option is None else frontier(traces, consistency)
    good = consistency[points] >= bar
    if not good.any():
        return None
    at = int(good.argmax())
    high, low = int(points[at]), int(points[max(0, at - 1)])
    if result.option is None or low == high:
        return SpendPoint(result, parity, float(traces[high]), high, high, 1.0)
    w = float((bar - consistency[low]) / (consistency[high] - consistency[low]))
    return SpendPoint(result, parity, float((1.0 - w) * traces[low] + w * traces[high]), low, high, w)


def _score(plan: SpendPoint | None) -> tuple[float | None, float | None]:
    """Mean spend and self-consistency of a plan on the scored repetitions."""
    if plan is None:
        return None, None
    return _mean(plan.of(plan.result.traces)), _mean(plan.of(plan.result.consistency))


def _mean(values: Floats) -> float:
    return float(values.mean())


def _at_equal_spend(mine: Result, rival: SpendPoint) -> tuple[float | None, float | None]:
    """Mean of our self-consistency less the rival's at the rival's spend, and its p."""
    spends = np.full(mine.repetitions, np.nan)
    spends[rival.scored] = rival.of(rival.result.traces)
    differences = at_spend(mine, mine.consistency, spends)[rival.scored] - rival.of(rival.result.consistency)
    differences = differences[np.isfinite(differences)]
    if differences.size < 2:
        return None, None
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(differences.size))
    if error < LEVEL_TOLERANCE:
        return mean, 1.0 if abs(mean) < LEVEL_TOLERANCE else 0.0
    return mean, float(2.0 * stdtr(differences.size - 1, -abs(mean) / error))


def _equal_ratio(mine: Result, rival: SpendPoint) -> float | None:
    """What our mean curve of the scored repetitions spends to give what the rival's plan gave, over its spend."""
    traces, consistency = mean_curve(mine, rival.scored)
    points = frontier(traces, consistency)
    x, y = traces[points], consistency[points]
    bar = _mean(rival.of(rival.result.consistency)) - LEVEL_TOLERANCE
    return float(np.interp(bar, y, x)) / _mean(rival.of(rival.result.traces)) if bar <= y[-1] else None
