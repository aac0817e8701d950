"""Are certificates what they say? On recorded pools the vote of all traces drawn is known, so they can be checked.

When a policy has spent a mean budget, the prior of each question is learned from the others' tallies and its leader
gets its certificate for B = the traces drawn, and with an indifference zone a second one. Pooled over questions and
repetitions, certificates of about c should be right a share c of the time.

With disjoint halves the certificate is the one for infinitely many traces, and right is who agrees with the vote of the
other half. That vote errs, too, so certificates may look a little too sure.

Even a calibrated forecaster has a calibration error, the smaller the pool the larger: ``null`` is the 95 % point of
what one would have here whose every certificate is an independent coin, ``null_questions`` of one whose certificates of
a question share one coin, since all repetitions draw from the same few traces of it. The truth lies between.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pets.core.certificate import certificate
from pets.core.prior import BatchFit
from pets.core.tally import Tally, count_votes
from pets.errors import InputError
from pets.lab.config import ReplayConfig
from pets.lab.draws import Draw, Flags, Floats, Indices

CERTIFIED_AT = (4.0, 8.0, 16.0)
"""Mean budgets at which certificates are checked."""

NULL_DRAWS = 200  # of a calibrated forecaster


@dataclass(frozen=True, slots=True, eq=False)
class Certified:
    """The N questions of a repetition at one mean budget; arrays of shape (N,).

    ``share`` is the leader's share of the votes (0 without a vote), ``right`` whether it is the target, or with a
    ``zone`` whether it is good.
    """

    pool: str
    policy: str
    budget: float
    certificate: Floats
    share: Floats
    right: Flags
    zone: float = 0.0


@dataclass(frozen=True, slots=True)
class Bin:
    """Certificates in [low, high); the last bin holds 1 too. Means are ``None`` where the bin is empty."""

    low: float
    high: float
    count: int
    certificate: float | None
    right: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """A reliability diagram and its scores.

    ``error``: the bins' mean |certificate - share right|, weighted by count (ECE). ``brier`` is the mean squared error
    of the certificates, beside those of the constant ``right`` (the base rate) and of the leader's share. ``null`` and
    ``null_questions`` are errors that a calibrated forecaster stays under 95 times in 100 (see the module).
    """

    count: int
    certificate: float
    right: float
    error: float
    brier: float
    brier_constant: float
    brier_share: float
    null: float
    null_questions: float
    bins: tuple[Bin, ...]


def calibrate(certified: Iterable[Certified], bins: int = 10) -> Calibration:
    """One reliability diagram of all that is given, ``bins`` of equal width."""
    groups = list(certified)
    if not groups or bins < 1:
        raise InputError("a reliability diagram needs at least one bin and one set of certificates.")
    p, share, right = (
        np.concatenate([np.asarray(getattr(group, name), dtype=np.float64) for group in groups])
        for name in ("certificate", "share", "right")
    )
    bin_of = np.minimum((p * bins).astype(np.int64), bins - 1)
    count, sums, hits = (np.bincount(bin_of, weights=w, minlength=bins) for w in (np.ones_like(p), p, right))
    base = float(right.mean())
    return Calibration(
        count=len(p),
        certificate=float(p.mean()),
        right=base,
        error=float(np.abs(sums - hits).sum() / len(p)),
        brier=float(np.mean((p - right) ** 2)),
        brier_constant=base * (1.0 - base),
        brier_share=float(np.mean((share - right) ** 2)),
        null=_null(groups, bin_of, sums, shared=False),
        null_questions=_null(groups, bin_of, sums, shared=True),
        bins=tuple(
            Bin(b / bins, (b + 1) / bins, int(n), s / n if n else None, h / n if n else None)
            for b, (n, s, h) in enumerate(zip(count.tolist(), sums.tolist(), hits.tolist(), strict=True))
        ),
    )


def _null(groups: Sequence[Certified], bin_of: Indices, sums: NDArray[Any], *, shared: bool) -> float:
    """The 95 % point of the error where certificates are what they say; ``shared`` coins or one each."""
    rng = np.random.default_rng(0)
    p = np.concatenate([group.certificate for group in groups])
    sets = [(group.pool, group.certificate.size) for group in groups]
    errors = []
    for _ in range(NULL_DRAWS):
        if shared:
            coins = {(pool, questions): rng.random(questions) for pool, questions in dict.fromkeys(sets)}
            u = np.concatenate([coins[key] for key in sets])
        else:
            u = rng.random(p.size)
        hits = np.bincount(bin_of, weights=u < p, minlength=sums.size)
        errors.append(np.abs(sums - hits).sum() / p.size)
    return float(np.percentile(errors, 95))


def certify(draw: Draw, sizes: Indices, config: ReplayConfig, policy: str, budget: float) -> Iterator[Certified]:
    """Certificates of all questions after so many traces each: plain ones, and with an indifference zone its own."""
    horizon = draw.size if config.reference == "whole" else None
    tallies = [tally_after(draw, row, size) for row, size in enumerate(sizes.tolist())]
    fit = BatchFit(Counter(tallies))
    shares = np.array([tally.counts[0] / tally.votes if tally.counts else 0.0 for tally in tallies])
    zones = {0.0: draw.outcomes.agree} | ({config.tolerance: draw.outcomes.good} if config.tolerance else {})
    for zone, right in zones.items():
        certificates = np.array([certificate(tally, fit.without(tally), horizon, zone=zone) for tally in tallies])
        yield Certified(draw.pool.name, policy, budget, certificates, shares, right[np.arange(len(sizes)), sizes], zone)


def tally_after(draw: Draw, row: int, size: int) -> Tally:
    """The first traces of a question, as the allocator would tell it."""
    traces = draw.traces[draw.pool.questions[row].id][:size]
    counts, nulls = count_votes(trace.answer for trace in traces)
    tokens = sum(trace.tokens for trace in traces) / size if size else 0.0
    return Tally(counts, nulls, options=draw.pool.options, mean_tokens=tokens)
