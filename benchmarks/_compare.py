"""One policy against the best of its rivals on each pool, nobody scored on what it was chosen on.

A rival is a family: a stopping rule at any of its thresholds. Taking the best of a dozen rules at a dozen thresholds
on the same repetitions that score it would flatter the winner. So, at self-consistency ``level``:

1. On the even repetitions, each policy gets a *plan* that meets the level on its isotonic mean curve
   (:mod:`pets.lab.metrics`): shares of the questions at neighbouring points, spends for a curve and values for a
   sweep (a user can mix two thresholds by tossing a coin for each question). Rivals that never reach the level are
   out; of the others, the one whose plan spends least is the pool's rival.
2. On the odd repetitions both plans are scored as they stand: what they spend, and what self-consistency they give.

``ratio`` = our spend / the rival's there. Each plan may miss the level on the odd repetitions by its own luck; the mean
over both halves (``parity=1`` swaps them: choose on the odd ones) is steadier. :func:`against_itself` is the null value
of such figures: a policy against itself, which should be 1.

``low`` and ``high`` are the 95 % interval of ``ratio`` over *questions* (:mod:`pets.lab.metrics`): each resample
plans and scores anew. ``advantage`` is our self-consistency less the rival's at exactly the rival's spend, with two
tests, each two-sided and Holm-corrected over the pools: over *draws* (the odd repetitions, Student's t: would the same
questions show it again?) and over *questions* (the bootstrap's deviation: would other questions?). ``significant`` is
the second.

:func:`average_ratio` is the geometric mean over data sets of the geometric means over their pools: eleven models that
answer the same 30 questions are one data set. With disjoint halves the level is a share of the ceiling. On
``pool.by_zone()`` everything is about zone-consistency.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr, stdtr

from pets.errors import InputError
from pets.lab.draws import Floats, Indices
from pets.lab.metrics import (
    LEVEL_TOLERANCE,
    RisingCurve,
    at_spend,
    question_table,
    resampled_weights,
    spaced_points,
    traces_at_mean,
)
from pets.lab.results import PoolResult, Result

SWEEP_POINTS = 64  # of the curve that stands in for a sweep when a policy meets itself


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours and the best rival on one pool; spends are mean traces per question, ``None`` where there is none.

    ``rival`` is ``None`` if no rival reaches the level on the even repetitions, ``spend`` if we do not. ``replicates``
    are the logarithms of the ratio in resamples of the questions.
    """

    pool: str
    dataset: str
    level: float
    ours: str
    rival: str | None = None
    option: str | None = None
    values: tuple[float, ...] = ()
    spend: float | None = None
    consistency: float | None = None
    rival_spend: float | None = None
    rival_consistency: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    advantage: float | None = None
    p_draws: float | None = None
    p_questions: float | None = None
    replicates: Floats | None = field(default=None, repr=False, compare=False)

    @property
    def significant(self) -> bool:
        """Whether the difference at equal spend would show on other questions, too, all pools considered."""
        return self.p_questions is not None and self.p_questions < 0.05


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean ratio and its 95 % interval over questions; NaN where there is none."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


def shares_at(curve: RisingCurve, bar: float) -> Floats | None:
    """The share of questions at each of V points whose mixture meets the bar, (V,); ``None`` if none does."""
    if bar - LEVEL_TOLERANCE > curve.consistency[-1]:
        return None
    bar = min(bar, float(curve.consistency[-1]))
    high = int(np.searchsorted(curve.consistency, bar))
    low = max(0, high - 1)
    step = curve.consistency[high] - curve.consistency[low]
    w = float((bar - curve.consistency[low]) / step) if step > 0 else 1.0
    shares = np.zeros(curve.order.size)
    for block, share in ((low, 1.0 - w), (high, w)):
        start, last = curve.starts[block], block == curve.starts.size - 1
        members = curve.order[start : start + 1 if last else curve.starts[block + 1]]
        shares[members] += share / members.size
    return shares


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A policy's mean points on the repetitions to choose on and on those to score on, (V,) each, and both bars."""

    chosen: tuple[Floats, Floats]
    scored: tuple[Floats, Floats]
    bars: tuple[float, float]

    def shares(self) -> Floats | None:
        """The plan: shares of the questions at the points whose mixture meets the level where it is chosen."""
        return shares_at(RisingCurve.through(*self.chosen), self.bars[0])

    def level_spend(self) -> float:
        """What the level costs where it is scored; NaN if it is never reached."""
        return RisingCurve.through(*self.scored).traces_at(self.bars[1])

    def clipped(self) -> "Reading":
        """The same with bars that the curves reach."""
        tops = (float(RisingCurve.through(*points).consistency[-1]) for points in (self.chosen, self.scored))
        first, second = map(min, self.bars, tops)
        return replace(self, bars=(first, second))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A policy's shares of the questions at its points, and what they spend where they were chosen and are scored."""

    result: Result
    reading: Reading
    shares: Floats

    @property
    def planned(self) -> float:
        """Mean traces per question on the repetitions to choose on."""
        return float(self.reading.chosen[0] @ self.shares)

    @property
    def spend(self) -> float:
        """Mean traces per question on the repetitions to score on."""
        return float(self.reading.scored[0] @ self.shares)

    @property
    def consistency(self) -> float:
        """Self-consistency on the repetitions to score on."""
        return float(self.reading.scored[1] @ self.shares)

    @property
    def values(self) -> tuple[float, ...]:
        """The values of the sweep that it uses; none for a curve."""
        if self.result.option is None:
            return ()
        return tuple(self.result.values[point] for point in np.flatnonzero(self.shares > LEVEL_TOLERANCE).tolist())


def compare(
    pools: Sequence[PoolResult], ours: str, rivals: Sequence[str], level: float = 0.99, *, parity: int = 0
) -> list[Comparison]:
    """One comparison per pool; see the module for what is chosen and what is scored."""
    _check(pools)
    compared = [_pool(pool, ours, rivals, level, parity) for pool in pools]
    tests = (holm([getattr(comparison, name) for comparison in compared]) for name in ("p_draws", "p_questions"))
    return [
        replace(comparison, p_draws=draws, p_questions=questions)
        for comparison, draws, questions in zip(compared, *tests, strict=True)
    ]


def against_itself(pools: Sequence[PoolResult], ours: str, level: float = 0.99) -> list[Comparison]:
    """A policy against itself on disjoint repetitions, two comparisons per pool: the truth is 1.

    The rival is the policy at 64 of its own points, as a sweep would have them, read on the even repetitions; ours is
    the whole curve, read on the odd ones; and the other way round.
    """
    _check(pools)
    return [_itself(pool, ours, level, parity) for pool in pools for parity in (0, 1)]


def average_ratio(compared: Sequence[Comparison]) -> Estimate:
    """The geometric mean over data sets of the pools' ratios, and its interval over questions where they have one."""
    groups: dict[str, list[Comparison]] = {}
    for comparison in compared:
        if comparison.ratio is not None:
            groups.setdefault(comparison.dataset, []).append(comparison)
    if not groups:
        return Estimate(np.nan, np.nan, np.nan)
    logs = [np.mean([np.log(c.ratio or np.nan) for c in group]) for group in groups.values()]
    mean = float(np.exp(np.mean(logs)))
    resampled = [[c.replicates for c in group if c.replicates is not None] for group in groups.values()]
    if not all(resampled):
        return Estimate(mean, np.nan, np.nan)
    return Estimate(mean, *_interval(np.mean([np.mean(group, axis=0) for group in resampled], axis=0)))


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


def _check(pools: Sequence[PoolResult]) -> None:
    if any(pool.config.repetitions < 4 for pool in pools):
        raise InputError("a comparison chooses on half of the repetitions and scores on the rest; give it 4 or more.")


def _pool(pool: PoolResult, ours: str, rivals: Sequence[str], level: float, parity: int) -> Comparison:
    mine = _plan(pool.result(ours), level, parity)
    plans = [plan for spec in rivals if (plan := _plan(pool.result(spec), level, parity)) is not None]
    comparison = Comparison(pool.pool, pool.dataset, level, ours)
    if mine is not None:
        comparison = replace(comparison, spend=mine.spend, consistency=mine.consistency)
    if not plans:
        return comparison
    best = min(plans, key=lambda plan: plan.planned)
    comparison = replace(
        comparison,
        rival=best.result.policy,
        option=best.result.option,
        values=best.values,
        rival_spend=best.spend,
        rival_consistency=best.consistency,
    )
    if mine is None:
        return comparison
    advantage, p_draws = _over_draws(mine.result, best, slice(1 - parity, None, 2))
    comparison = replace(
        comparison,
        ratio=mine.spend / best.spend,
        advantage=advantage,
        p_draws=p_draws,
    )
    return _over_questions(comparison, pool, (mine.result, best.result), parity)


def _plan(result: Result, level: float, parity: int) -> Plan | None:
    """What meets the level in the mean of the repetitions to choose on."""
    points = spaced_points(result)
    halves = [slice(parity, None, 2), slice(1 - parity, None, 2)]
    chosen, scored = (
        (result.traces[half][:, points].mean(axis=0), result.consistency[half][:, points].mean(axis=0))
        for half in halves
    )
    first, second = (float(result.bar(level)[half].mean()) for half in halves)
    reading = Reading(chosen, scored, (first, second))
    shares = reading.shares()
    return None if shares is None else Plan(result, reading, shares)


def _over_draws(mine: Result, rival: Plan, scored: slice) -> tuple[float | None, float | None]:
    """Mean of our self-consistency less the rival's at the rival's spend, and its p over draws."""
    points = spaced_points(rival.result)
    spends = np.full(mine.repetitions, np.nan)
    spends[scored] = rival.result.traces[scored][:, points] @ rival.shares
    values = rival.result.consistency[scored][:, points] @ rival.shares
    differences = at_spend(mine, mine.consistency, spends)[scored] - values
    differences = differences[np.isfinite(differences)]
    if differences.size < 2:
        return None, None
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(differences.size))
    if error < LEVEL_TOLERANCE:
        return mean, 1.0 if abs(mean) < LEVEL_TOLERANCE else 0.0
    return mean, float(2.0 * stdtr(differences.size - 1, -abs(mean) / error))


def _over_questions(
    comparison: Comparison, pool: PoolResult, results: tuple[Result, Result], parity: int
) -> Comparison:
    """The comparison with its interval and test over questions; as it is where results keep no allocations.

    A resample in which a curve never reaches the level is read at the most that it reaches.
    """
    if not all(result.allocations for result in results):
        return comparison
    logs, advantages = [], []
    for mine, rival in zip(*(_readings(pool, result, comparison.level, parity) for result in results), strict=True):
        plans = [Plan(results[0], reading.clipped(), _shares(reading.clipped())) for reading in (mine, rival)]
        logs.append(np.log(max(plans[0].spend, LEVEL_TOLERANCE) / max(plans[1].spend, LEVEL_TOLERANCE)))
        advantages.append(float(np.interp(plans[1].spend, *mine.scored)) - plans[1].consistency)
    mean, error = float(np.mean(advantages)), float(np.std(advantages, ddof=1))
    replicates = np.array(logs)
    low, high = _interval(replicates)
    p = float(2.0 * ndtr(-abs(mean) / error)) if error > LEVEL_TOLERANCE else 1.0
    return replace(comparison, low=low, high=high, p_questions=p, replicates=replicates)


def _shares(reading: Reading) -> Floats:
    shares = reading.shares()
    assert shares is not None, "a clipped bar is reached"
    return shares


def _readings(
    pool: PoolResult, result: Result, level: float, parity: int, points: Indices | None = None
) -> Iterator[Reading]:
    """The reading of a policy in each resample of the questions."""
    weights = resampled_weights(pool)
    places = spaced_points(result) if points is None else points
    tables = [question_table(result, places, slice(half, None, 2)) for half in (parity, 1 - parity)]
    ones = np.ones(len(weights))
    bars = zip(*(level * (table.ceilings(weights) if result.relative else ones) for table in tables), strict=True)
    curves = [zip(*table.curves(weights), strict=True) for table in tables]
    for chosen, scored, (first, second) in zip(*curves, bars, strict=True):
        yield Reading(chosen, scored, (float(first), float(second)))


def _itself(pool: PoolResult, ours: str, level: float, parity: int) -> Comparison:
    result = pool.result(ours)
    spends = np.geomspace(result.questions, result.questions * result.size, SWEEP_POINTS).round().astype(np.int64)
    sweep = np.unique(np.minimum(spends, result.agree.shape[1] - 1))
    there = slice(parity, None, 2)
    rival = RisingCurve.through(*(table[there][:, sweep].mean(axis=0) for table in (result.traces, result.consistency)))
    spend = traces_at_mean(result, level, slice(1 - parity, None, 2))
    rival_spend = rival.traces_at(float(result.bar(level)[there].mean()))
    comparison = Comparison(pool.pool, pool.dataset, level, ours, ours, spend=spend, rival_spend=rival_spend)
    if np.isnan(spend / rival_spend) or not result.allocations:
        return comparison
    pairs = zip(_readings(pool, result, level, parity), _readings(pool, result, level, 1 - parity, sweep), strict=True)
    levels = np.array([[reading.clipped().level_spend() for reading in pair] for pair in pairs])
    replicates = np.log(np.maximum(levels, LEVEL_TOLERANCE)) @ np.array([1.0, -1.0])
    low, high = _interval(replicates)
    return replace(comparison, ratio=spend / rival_spend, low=low, high=high, replicates=replicates)


def _interval(logs: Floats) -> tuple[float, float]:
    low, high = np.exp(np.percentile(logs, [2.5, 97.5])).tolist()
    return low, high
