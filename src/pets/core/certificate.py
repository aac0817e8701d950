r"""Certificates: the probability that today's leader is the vote after B traces, or after infinitely many.

Under the learned prior theta is Dir_K(a) with posterior weights over the strengths a. Given a, alpha_k = a + n_k, the
m votes to come are Dirichlet-multinomial: independent negative binomials X_k ~ NB(alpha_k, p) given that they add up
to m, for any p. So, with the leader's x votes to come and c_k = n_1 + x - n_k what rival k may get without passing it,

    P(leader wins) = ∑_x P(X_1 = x) [z^{m-x}] ∏_{k≠1} (∑_{y<c_k} P(X_k = y) z^y + τ_k P(X_k = c_k) z^{c_k})
                     / P(∑ X = m),

exact for any K. The coefficients are Cauchy integrals: one sum over the roots of unity on a circle of radius r < 1.

**Ties.** A final tie goes to the answer launched first. Of the leader and the answers T that it ends level with, the
leader came first with chance V / (V + ∑_{k∈T} n_k), V = g n_1, given that it came first of the g answers that now
lead together, which cast no term: traces are exchangeable given the counts. An answer not seen yet always loses a tie.
One such rival enters as τ_k = V / (V + n_k); several by V / (V + s) = ∫ e^{-y} e^{-y s / V} dy, Gauss-Laguerre.

**Traces without an answer** cast no vote: of the B - n traces to come the chance v of a vote gives v (B - n) votes in
expectation; the two whole numbers about it are mixed so that the mean is met. Where nobody voted there is no leader,
and the certificate is 0, as self-consistency counts it.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, roots_laguerre

from pets.core.dirichlet import p_leader_counts
from pets.core.okg import voting_chance
from pets.core.prior import STRENGTHS, LearnedPrior, slots
from pets.core.tally import Tally
from pets.errors import InputError

__all__ = ["certificate", "expected_consistency", "p_leader_after"]

Array = NDArray[np.float64]

EXACT_VOTES = 512  # votes to come that are summed exactly; beyond, the distance to infinity is taken to shrink as 1 / m
ALIAS_TOLERANCE = 1e-11  # r^F: what the coefficient F places on leaks into the one sought
LAGUERRE_NODES = 8
NEGLIGIBLE_WEIGHT = 1e-9  # posterior weight of a strength that is not worth its sum
EXACT_QUESTIONS = 1000  # questions up to which the batch's interval is the Poisson-binomial's own


def certificate(tally: Tally, prior: LearnedPrior, B: float | None = None) -> float:
    """P(the leader is the vote after B traces in all, those drawn included); ``None`` or inf: the population vote.

    >>> from pets.core.prior import fit_prior
    >>> prior = fit_prior({Tally((4,), options=4): 80, Tally((2, 1, 1), options=4): 20})
    >>> round(certificate(Tally((4,), options=4), prior, 64), 2), certificate(Tally((2, 2)), prior, 4)
    (1.0, 1.0)
    """
    if B is not None and not B >= 0:
        raise InputError(f"a certificate is for B >= 0 traces in all, or None for infinitely many; got {B}.")
    if not tally.counts:
        return 0.0
    if tally.mean_tokens:
        tally = replace(tally, mark=prior.mark(tally.mean_tokens))
    weights, K = prior.posterior(tally), slots(tally)
    expected = math.inf if B is None else max(0.0, B - tally.returned) * voting_chance(tally)
    kept = [(w, a) for w, a in zip(weights.tolist(), STRENGTHS, strict=True) if w > NEGLIGIBLE_WEIGHT]
    wins = math.fsum(w * _after(tally.counts, K, a, expected) for w, a in kept)
    return min(1.0, wins / math.fsum(w for w, _ in kept))


def expected_consistency(
    tallies: Iterable[Tally], prior: LearnedPrior, B: float | None = None
) -> tuple[float, float, float]:
    """The batch's expected self-consistency and the ends of its central 95 % interval.

    Given the prior, questions are independent, so the number of right leaders is Poisson-binomial: its own quantiles
    up to ``EXACT_BATCH`` questions, the normal's beyond. The prior's own uncertainty is not in it.

    >>> expected_consistency([Tally((3,)), Tally((2, 1))], LearnedPrior(), 3)
    (1.0, 1.0, 1.0)
    """
    p = np.array([certificate(tally, prior, B) for tally in tallies])
    if not p.size:
        raise InputError("a batch without questions has no self-consistency; give at least one tally.")
    mean = float(p.mean())
    if p.size > EXACT_QUESTIONS:
        reach = 1.959963984540054 * math.sqrt(float((p * (1.0 - p)).sum())) / p.size
        return mean, max(0.0, mean - reach), min(1.0, mean + reach)
    pmf = np.ones(1)
    for chance in p.tolist():
        pmf = np.convolve(pmf, [1.0 - chance, chance])
    below = np.cumsum(pmf)
    low, high = (int(np.searchsorted(below, q)) for q in (0.025, 0.975))
    return mean, low / p.size, min(high, p.size) / p.size


def _after(counts: tuple[int, ...], K: int, a: float, votes: float) -> float:
    """P(leader wins) after an expected number of further votes."""
    if votes == math.inf:
        return p_leader_counts(counts, a, K)
    if votes > EXACT_VOTES:
        forever = p_leader_counts(counts, a, K)
        return forever + (p_leader_after(counts, K, a, EXACT_VOTES) - forever) * EXACT_VOTES / votes
    few = math.floor(votes)
    part = votes - few
    now = p_leader_after(counts, K, a, few)
    return now if part < 1e-12 else (1.0 - part) * now + part * p_leader_after(counts, K, a, few + 1)


@lru_cache(maxsize=1 << 17)
def p_leader_after(counts: tuple[int, ...], K: int, a: float, m: int) -> float:
    """P(the leader of the counts leads after m more votes) under Dir_K(a); ``counts`` positive, descending.

    >>> round(p_leader_after((1,), 2, 1.0, 2), 12)        # 2 of Beta(2, 1)'s votes: both go to the rival 1 time in 6
    0.833333333333
    """
    lead = counts[0]
    rivals = [*counts[1:], *[0] * (K - len(counts))]
    if m == 0 or not rivals or m < lead - rivals[0]:
        return 1.0
    A, p = sum(counts) + K * a, m / (m + sum(counts) + K * a)
    x = np.arange(m + 1)
    mine = _negative_binomial(lead + a, p, x)
    total = float(_negative_binomial(A, p, np.array([m]))[0])
    open_x = x[: (m - (lead - rivals[0])) // 2 + 1]  # the leader's votes that leave a rival enough to draw level
    settled = x[len(open_x) :]
    sure = float(mine[settled] @ _negative_binomial(A - lead - a, p, m - settled))
    doubtful = float(mine[open_x] @ _not_passed(rivals, lead, a, p, m, open_x))
    return min(1.0, max(0.0, (sure + doubtful) / total))


def _negative_binomial(alpha: float, p: float, x: NDArray[np.int64]) -> Array:
    """P(X = x), X ~ NB(alpha, p)."""
    log_pmf = gammaln(alpha + x) - gammaln(alpha) - gammaln(x + 1.0) + alpha * math.log1p(-p) + x * math.log(p)
    pmf: Array = np.exp(log_pmf)
    return pmf


def _not_passed(rivals: list[int], lead: int, a: float, p: float, m: int, x: NDArray[np.int64]) -> Array:
    """P(the rivals' votes add up to m - x and none passes the leader's lead + x), for every x; shape (len(x),)."""
    F = 2 * (m + 1)
    r = ALIAS_TOLERANCE ** (1.0 / F)
    f = np.arange(F // 2 + 1)
    y = np.arange(m + 1)
    powers = r**y * np.exp(-2j * np.pi * (np.outer(f, y) % F) / F)
    weights, taus = _ties(tuple(rivals), lead)
    product = np.multiply.outer(weights, np.ones((len(f), len(x)), dtype=np.complex128))  # (nodes, f, x)
    for votes, many in {n: rivals.count(n) for n in rivals}.items():
        terms = powers * _negative_binomial(votes + a, p, y)
        below = np.cumsum(terms, axis=1)
        cap = lead + x - votes
        level = np.where(cap <= m, terms[:, np.minimum(cap, m)], 0.0)
        inside = np.where(cap > 0, below[:, np.clip(cap - 1, 0, m)], 0.0)
        product *= (inside + taus[votes][:, None, None] * level) ** many
    back = np.exp(2j * np.pi * (np.outer(f, m - x) % F) / F)
    half = np.where((f == 0) | (f == F // 2), 1.0, 2.0)[:, None]
    coefficients = (half * (product.sum(axis=0) * back).real).sum(axis=0) / F
    return np.asarray(coefficients * r ** (x - m).astype(np.float64))


@lru_cache(maxsize=1 << 12)
def _ties(rivals: tuple[int, ...], lead: int) -> tuple[Array, dict[int, Array]]:
    """The weights of the nodes, and for each rival's votes the τ at each node; one node where that is exact."""
    behind = [n for n in rivals if 0 < n < lead]
    V = lead * (1 + rivals.count(lead))
    if len(behind) < 2:
        return np.ones(1), {n: np.array([V / (V + n) if n < lead else 1.0]) for n in rivals}
    y, weights = roots_laguerre(LAGUERRE_NODES)
    return weights, {n: np.exp(-y * (n / V if n < lead else 0.0)) for n in rivals}
