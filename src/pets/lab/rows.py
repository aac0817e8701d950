"""Results as rows: one for each pool, policy and metric, ready for JSON, CSV or Parquet."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.special import stdtrit

from pets.lab.calibration import Calibration, Certified, calibrate
from pets.lab.draws import Floats
from pets.lab.metrics import LEVELS, area, at_spend, reached, resampled_levels, traces_at_mean
from pets.lab.results import PoolResult, Result

LIMIT_LEVELS = (0.95, 0.99)
"""The levels of self-consistency at which policies are compared with the attainable limit."""


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one policy on one pool, over repetitions.

    ``policy`` is empty for what belongs to the pool itself (``pass_at_1``, ``vote_accuracy``, ``tied_targets``,
    ``ceiling``, ``traces_limit_...``), ``pool`` for certificates of all pools together; ``option`` and ``value`` are
    set for a point of a sweep. ``mean``, ``sd`` and ``median`` are over the ``reached`` repetitions of ``repetitions``
    that have the metric. ``difference`` is the mean of what this policy has more than ``against``, ``low`` and ``high``
    its 95 % interval ``over`` draws (the same questions again: Student's t) or over questions (others of their kind: a
    paired bootstrap, for what is read off the mean curve). Traces and tokens are means per question.
    ``seed`` is what all draws came from, ``files`` where `pets replay` read the pools, one in a line.
    """

    pool: str
    policy: str
    setting: str
    option: str | None
    value: float | None
    metric: str
    mean: float | None
    sd: float | None
    median: float | None
    reached: int
    repetitions: int
    questions: int
    against: str | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    over: str | None = None
    seed: int = 0
    files: str = ""


def rows(pools: Sequence[PoolResult], *, against: str | None = None, matched: str = "okg") -> list[Row]:
    """Every metric of every policy. ``against`` is the reference of the paired differences (default: the first policy).

    ``matched`` is the policy whose first reach of self-consistency 1 sets the spend at which all are compared.
    """
    table = [row for pool in pools for row in _pool_rows(pool, against or pool.results[0].policy, matched)]
    table += _together(pools) if len(pools) > 1 else ()
    return [replace(row, seed=pools[0].config.seed) for row in table]


def certificates(pools: Sequence[PoolResult]) -> dict[str, Calibration]:
    """The reliability of each policy's certificates, all pools and mean budgets together; empty if none were made.

    Those of an indifference zone have names of their own, such as "okg, zone 0.1".
    """
    calibrations = _calibrations(result for pool in pools for result in pool.results)
    return {policy + (f", zone {zone:g}" if zone else ""): scores for (policy, zone), scores in calibrations.items()}


def _calibrations(results: Iterable[Result]) -> dict[tuple[str, float], Calibration]:
    certified: dict[tuple[str, float], list[Certified]] = {}
    for part in (part for result in results for part in result.certified):
        certified.setdefault((part.policy, part.zone), []).append(part)
    return {key: calibrate(parts) for key, parts in certified.items()}


def _pool_rows(pool: PoolResult, against: str, matched: str) -> Iterator[Row]:
    yield from _bounds(pool)
    if pool.config.clock:  # each rule at its own threshold or budget: no level is asked for
        for result in pool.results:
            yield from _sweep(result)
        return
    spends = None
    if any(result.policy == matched for result in pool.results):
        spends = reached(pool.result(matched), 1.0).first
    reference = dict(_metrics(pool.result(against), spends))
    reference_levels = resampled_levels(pool, pool.result(against), LEVELS)
    for result in pool.results:
        for metric, values in _metrics(result, spends):
            other = reference.get(metric) if result.policy != against else None
            yield _row(result, metric, values, against if other is not None else None, other)
        yield from _level_rows(pool, result, against, reference_levels)
        if pool.config.tolerance:
            by_zone = result.by_zone()
            for level in LIMIT_LEVELS:
                traces = traces_at_mean(by_zone, level)
                yield _row(result, f"zone_traces_at_mean_{level:g}", np.array([traces]))
                if pool.zone_limit is not None:
                    ratio = traces / pool.zone_limit.traces_at(level)
                    yield _row(result, f"zone_limit_ratio_{level:g}", np.array([ratio]))
        for (_, zone), scores in _calibrations([result]).items():
            for metric, value in _scores(scores, zone):
                yield _row(result, metric, np.array([value]))
        yield from _sweep(result)


def _level_rows(pool: PoolResult, result: Result, against: str, reference_levels: Floats) -> Iterator[Row]:
    """Traces at each level of the mean curve, with intervals over questions; and as multiples of the limit's."""
    compared = result.policy != against
    levels = resampled_levels(pool, result, LEVELS) if compared else reference_levels
    for level, mine, theirs in zip(LEVELS, levels.T, reference_levels.T, strict=True):
        traces = traces_at_mean(result, level)
        row = _row(result, f"traces_at_mean_{level:g}", np.array([traces]))
        difference = traces - traces_at_mean(pool.result(against), level)
        if compared and np.isfinite(difference):
            resampled = (mine - theirs)[np.isfinite(mine - theirs)]
            low, high = np.percentile(resampled, [2.5, 97.5]).tolist() if resampled.size > 1 else (None, None)
            row = replace(row, against=against, difference=difference, low=low, high=high, over="questions")
        yield row
        if pool.limit is not None and level in LIMIT_LEVELS:
            yield _row(result, f"limit_ratio_{level:g}", np.array([traces / pool.limit.traces_at(level)]))


def _metrics(result: Result, spends: Floats | None) -> Iterator[tuple[str, Floats]]:
    for level in LEVELS:
        at = reached(result, level)
        yield f"traces_first_{level:g}", at.first
        yield f"traces_settled_{level:g}", at.settled
        if at.first_tokens is not None and at.settled_tokens is not None:
            yield f"tokens_first_{level:g}", at.first_tokens
            yield f"tokens_settled_{level:g}", at.settled_tokens
    yield "area", area(result)
    if len(result.values) == 1:  # a rule as it was set
        yield "own_traces", result.traces[:, 0]
        yield "own_consistency", result.consistency[:, 0]
    if spends is not None:
        yield "consistency_matched", at_spend(result, result.consistency, spends)
        yield "zone_consistency_matched", at_spend(result, result.zone_consistency, spends)
        yield "accuracy_matched", at_spend(result, result.accuracy, spends)


def _sweep(result: Result) -> Iterator[Row]:
    """The points of a sweep, or of a curve at whole numbers of traces per question."""
    columns = {"traces": result.traces, "consistency": result.consistency, "accuracy": result.accuracy}
    columns["zone_consistency"] = result.zone_consistency
    if result.mean_tokens is not None:
        columns["tokens"] = result.mean_tokens
    if result.budget_used is not None:
        columns["budget_used"] = result.budget_used
    columns |= result.on_clock
    option, values, points = result.option, result.values, range(len(result.values))
    if option is None:
        del columns["traces"]
        option, values = "budget", tuple(float(budget) for budget in range(1, result.size + 1))
        points = range(result.questions, result.questions * result.size + 1, result.questions)
    for value, point in zip(values, points, strict=True):
        for metric, table in columns.items():
            yield _row(result, metric, table[:, point], option=option, value=value)


def _bounds(pool: PoolResult) -> Iterator[Row]:
    bounds: dict[str, Floats] = {"tied_targets": pool.tied, "ceiling": pool.ceiling}
    for metric, value in (("pass_at_1", pool.pass_at_1), ("vote_accuracy", pool.vote_accuracy)):
        if value is not None:
            bounds[metric] = np.array([value])
    for name, limit in (("limit", pool.limit), ("zone_limit", pool.zone_limit)):
        if limit is not None:
            bounds |= {f"traces_{name}_{level:g}": np.array([limit.traces_at(level)]) for level in LIMIT_LEVELS}
    for metric, values in bounds.items():
        count = len(values)
        yield Row(pool.pool, "", "", None, None, metric, *_spread(values), count, count, pool.questions)


def _scores(calibration: Calibration, zone: float) -> Iterator[tuple[str, float]]:
    """What a reliability diagram comes to, as ``certificate_...`` or ``zone_certificate_...`` metrics."""
    prefix = "zone_certificate" if zone else "certificate"
    for field in fields(Calibration):
        if field.name not in ("bins", "certificate"):
            yield f"{prefix}_{field.name}", float(getattr(calibration, field.name))
    yield f"{prefix}_mean", calibration.certificate


def _together(pools: Sequence[PoolResult]) -> Iterator[Row]:
    questions = sum(pool.questions for pool in pools)
    for (policy, zone), scores in _calibrations(result for pool in pools for result in pool.results).items():
        for metric, value in _scores(scores, zone):
            yield Row("", policy, "offline", None, None, metric, value, None, value, 1, 1, questions)


def _row(
    result: Result,
    metric: str,
    values: Floats,
    against: str | None = None,
    other: Floats | None = None,
    *,
    option: str | None = None,
    value: float | None = None,
) -> Row:
    good = int(np.isfinite(values).sum())
    paired = (None, None, None) if other is None else _interval(values - other)
    return Row(
        result.pool, result.policy, result.setting, option, value, metric,
        *_spread(values), good, len(values), result.questions, against, *paired, None if other is None else "draws",
    )  # fmt: skip


def _spread(values: Floats) -> tuple[float | None, float | None, float | None]:
    good = values[np.isfinite(values)]
    if not good.size:
        return None, None, None
    return float(good.mean()), float(good.std(ddof=1)) if good.size > 1 else None, float(np.median(good))


def _interval(differences: Floats) -> tuple[float | None, float | None, float | None]:
    """Mean paired difference and its 95 % interval by Student's t; no interval from one pair."""
    good = differences[np.isfinite(differences)]
    if good.size < 2:
        return (float(good.mean()) if good.size else None), None, None
    mean = float(good.mean())
    half = float(stdtrit(good.size - 1, 0.975) * good.std(ddof=1) / np.sqrt(good.size))
    return mean, mean - half, mean + half
