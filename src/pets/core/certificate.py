r"""Certificates: the probability that today's leader is the vote after B traces, or after infinitely many.

Under the learned prior theta is a mixture of Dirichlets (:meth:`pets.core.prior.LearnedPrior.mixture`). Given one of
them, alpha, the m votes to come are independent negative binomials X_k ~ NB(alpha_k, p) given that they add up to m,
for any p. With the leader's x votes to come, rival k may get c_k = n_1 + x - n_k without passing it, so for any number
of answers

    P(leader wins) = ∑_x P(X_1 = x) [z^{m-x}] ∏_{k≠1} (∑_{y<c_k} P(X_k = y) z^y + τ_k P(X_k = c_k) z^{c_k})
                     / P(∑ X = m).

The coefficients are Cauchy integrals: a sum over the roots of unity on a circle of radius r < 1. Exact to 1e-6 where
two or more rivals may tie with the leader, to 1e-10 elsewhere.

**The zone.** With an indifference zone of epsilon the leader is *good* when no answer's share exceeds its share by
more: after n + m votes rival k may have c_k = n_1 + x + floor(epsilon (n + m)) - n_k more, ties included. For
infinitely many votes, with x = theta_1 and the rivals' shares of the rest phi ~ Dir(alpha_2, ...), a rival is too far
ahead when phi_k > c = (x + epsilon) / (1 - x), so

    P(not good) = ∫ f(x) [∑_k P(phi_k > c) - ∑_{j<k} P(phi_j > c, phi_k > c)] dx,   x < (1 - epsilon) / 2,

exact where at most two shares can exceed c, that is for x >= (1 - 3 epsilon) / 4; for two options it is the closed form
I_{(1 - epsilon) / 2}(alpha_1, alpha_2). Where the leader may well have less, the sum above is taken at two m, from no
votes on, and extrapolated in 1 / m: within 0.005, on the timid side.

**The verdict.** A certificate is that of the answer given, under the vote that gave it (:class:`Decision`), whether or
not it leads the plain count. Where votes are weighted it is P(argmax_m theta_m mu_m = answer): theta from the same
mixture over the votes that count, mu from the Dirichlet-Normal belief (:mod:`pets.core.weighted`).

**Ties.** A final tie goes to the answer launched first. Traces are exchangeable given the counts: of the leader and the
answers T that it ends level with, the leader came first with chance V / (V + ∑_{k∈T} n_k), V = g n_1, given that it
came first of the g answers that lead now. An answer not seen yet loses every tie. One such rival enters as
τ_k = V / (V + n_k); several by V / (V + s) = ∫ e^{-y} e^{-y s / V} dy, Gauss-Laguerre.

**Traces without an answer** cast no vote: of the B - n traces to come v (B - n) are expected to, v the chance of a
vote; the two whole numbers about it are mixed. Where nobody voted the certificate is 0, as self-consistency counts it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, betaln, gammaln, roots_laguerre, roots_legendre

from pets.core.dirichlet import p_leader
from pets.core.policy import check_zone
from pets.core.prior import LearnedPrior, kind_posteriors, smooth_posterior
from pets.core.tally import Tally
from pets.core.weighted import ConfidenceSpread, p_wins
from pets.errors import InputError
from pets.types import Verdict

Array = NDArray[np.float64]
Unseen = tuple[tuple[float, int], ...]

EXACT_VOTES = 512  # votes to come that are summed exactly; beyond, the distance to infinity is taken to shrink as 1 / m
ALIAS_TOLERANCE = 1e-11  # r^F: what the coefficient F places on leaks into the one sought
LAGUERRE_NODES = 8
LEGENDRE_NODES, PAIR_NODES = 64, 24
SMALL_LEADER_CHANCE = 1e-3  # of a leader so small that several rivals can be too far ahead at once: left out below it
LEAST_VOTES, MOST_VOTES = 32, 200  # from which, and twice as many, the zone of a small leader is extrapolated
LEAST_MASS = 1e-200  # of the leader's share where rivals can be too far ahead: what is less is nothing
NORMAL_REACH = 1.959963984540054  # deviations of a normal that hold 95 %
USUAL_STATES = 200  # counts of a batch that the uncertainty of its prior is worked out from
EXACT_QUESTIONS = 1000  # questions up to which the batch's interval is the Poisson-binomial's own


def certificate(tally: Tally, prior: LearnedPrior, B: float | None = None, *, zone: float = 0.0) -> float:
    """P(the leader is the vote after B traces in all, those drawn included); ``None`` or inf: the population vote.

    With a ``zone`` it is P(no answer is then ahead of it by more than that share of the votes).

    >>> from pets.core.prior import fit_prior
    >>> prior = fit_prior({Tally((4,), options=4): 80, Tally((2, 1, 1), options=4): 20})
    >>> near_tie = Tally((11, 10), options=2)
    >>> certificate(near_tie, prior) < 0.6 < certificate(near_tie, prior, zone=0.1)
    True
    """
    if B is not None and not B >= 0:
        raise InputError(f"a certificate is for B >= 0 traces in all, or None for infinitely many; got {B}.")
    check_zone(zone)
    if not tally.counts:
        return 0.0
    expected = math.inf if B is None else max(0.0, B - tally.returned) * tally.voting_chance
    return _p_wins(_state(tally, prior), 0, prior, expected, zone)


@dataclass(frozen=True, slots=True)
class Decision:
    """The votes that decided a question: ``tally`` counts them, the answer's at ``index``; ``None``: no answer.

    ``weights`` are what each vote weighed, in the order of the counts; none where each counted one.
    """

    tally: Tally
    index: int | None = 0
    weights: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(cls, verdict: Verdict, options: int | None = None, mean_tokens: float = 0.0) -> "Decision":
        """The decision behind a verdict on a question with so many options."""
        weights = dict(verdict.weights or ())
        counted = weights.items() if verdict.weights is not None else verdict.votes
        counts = {name: len(votes) if isinstance(votes, tuple) else int(votes) for name, votes in counted}
        first = {verdict.answer: 0} if verdict.answer in counts else {}
        names = sorted({**first, **counts}, key=counts.__getitem__, reverse=True)
        if options is not None:
            options = max(options, len(counts))
        votes = tuple(map(counts.__getitem__, names))
        tally = Tally(votes, verdict.no_answer, 0, options, mean_tokens=mean_tokens)
        index = names.index(verdict.answer) if verdict.answer in counts else None
        return cls(tally, index, tuple(map(weights.__getitem__, names)) if weights else ())


def decision_certificate(
    decision: Decision, prior: LearnedPrior, spread: ConfidenceSpread | None = None, *, zone: float = 0.0
) -> float:
    """P(the answer is the vote over infinitely many traces), votes weighted as those that decided were.

    ``spread`` is that of weighted votes; by default, of the question's own. For them there is no ``zone``.

    >>> votes = Decision.of(Verdict("q1", "B", (("A", 3.0), ("B", 2.0)), 5, 0))
    >>> decision_certificate(votes, LearnedPrior()) < 0.5 < decision_certificate(Decision(votes.tally), LearnedPrior())
    True
    """
    check_zone(zone)
    if decision.index is None:
        return 0.0
    state = _state(decision.tally, prior)
    if not decision.weights:
        return _p_wins(state, decision.index, prior, math.inf, zone)
    return _p_wins_weighted(state, decision.index, prior, decision.weights, spread)


def _state(tally: Tally, prior: LearnedPrior) -> Tally:
    """What a certificate goes by: counts, options and the length class. Many questions share one."""
    mark = prior.mark(tally.mean_tokens) if tally.mean_tokens else tally.mark
    return Tally(tally.counts, options=tally.options, mark=mark)


@lru_cache(maxsize=1 << 14)
def _p_wins(state: Tally, i: int, prior: LearnedPrior, votes: float, zone: float) -> float:
    """P(answer i of the counts leads after so many further votes), each vote counting one."""
    wins = []
    for part in prior.mixture(state):
        alpha = (part.alpha[i], *part.alpha[:i], *part.alpha[i + 1 :]) if i else part.alpha
        if votes == math.inf:
            win = p_good(alpha, part.unseen, zone) if zone else p_leader(alpha, part.unseen)
        else:
            win = _after(state.counts, alpha, part.unseen, votes, zone)
        wins.append(part.weight * win)
    return min(1.0, math.fsum(wins))


@lru_cache(maxsize=1 << 14)
def _p_wins_weighted(
    state: Tally, i: int, prior: LearnedPrior, weights: tuple[tuple[float, ...], ...], spread: ConfidenceSpread | None
) -> float:
    """P(answer i of the counts is the weighted vote over infinitely many traces)."""
    spread = spread or ConfidenceSpread.learn(weights)
    means, wins = [spread.posterior(group) for group in weights], []
    for part in prior.mixture(state):
        unseen = [(alpha, many) for alpha, many in part.unseen if many]
        rows = [(alpha, *mean) for alpha, mean in zip(part.alpha, means, strict=True)]
        rows += [(alpha, spread.beta_0, spread.v_0) for alpha, _ in unseen]
        wins.append(part.weight * p_wins(rows, [*[1] * len(means), *(many for _, many in unseen)])[i])
    return min(1.0, math.fsum(wins))


def expected_consistency(
    tallies: Iterable[Tally], prior: LearnedPrior, B: float | None = None, *, zone: float = 0.0
) -> tuple[float, float, float]:
    """The batch's expected self-consistency (with a zone: share of good leaders) and its central 95 % interval.

    The prior's own uncertainty is not in it (:func:`prior_deviation`).
    """
    return expected_share(certificate(tally, prior, B, zone=zone) for tally in tallies)


def expected_share(chances: Iterable[float], deviation: float = 0.0) -> tuple[float, float, float]:
    """The expected share of answers that are right, each with its own chance, and its central 95 % interval.

    The number of right answers is Poisson-binomial: its own quantiles up to ``EXACT_QUESTIONS`` questions, the normal's
    beyond. ``deviation`` is the independent error of the mean itself, as far as the prior is not known.

    >>> expected_share([1.0, 0.5]), expected_share([0.99])
    ((0.75, 0.5, 1.0), (0.99, 0.99, 1.0))
    >>> expected_share([0.8] * 100)[1:], expected_share([0.8] * 100, 0.1)[1:]
    ((0.72, 0.88), (0.588..., 1.0))
    """
    p = np.array(list(chances))
    if not p.size:
        raise InputError("a batch without questions has no self-consistency; give at least one question.")
    mean = float(p.mean())
    if p.size > EXACT_QUESTIONS:
        below = above = NORMAL_REACH * math.sqrt(float((p * (1.0 - p)).sum())) / p.size
    else:
        pmf = np.ones(1)
        for chance in p.tolist():
            pmf = np.convolve(pmf, [1.0 - chance, chance])
        low, high = np.searchsorted(np.cumsum(pmf), (0.025, 0.975)).tolist()
        below, above = max(0.0, mean - low / p.size), max(0.0, min(high, p.size) / p.size - mean)
    reach = NORMAL_REACH * deviation
    return mean, max(0.0, mean - math.hypot(below, reach)), min(1.0, mean + math.hypot(above, reach))


def prior_deviation(batch: Mapping[Tally, int]) -> float:
    """The standard deviation of a batch's expected self-consistency over what it leaves open of the prior.

    With W the posterior of (mu, sigma) of :func:`pets.core.prior.smooth_posterior` and P(k | n) the shares of the kinds
    after counts n under one of them, it is that over W of

        (1 / N) sum_n sum_k P(k | n) P(the leader is the population vote | n, k),

    the last factor as the product over the rivals of P(the leader's share is larger): exact for two options, on the
    wide side for more. The mean is over the ``USUAL_STATES`` that most questions share.

    >>> once, often = ({Tally((n,)): 80, Tally((n, n - 1) if n > 1 else (n,)): 20} for n in (1, 8))
    >>> prior_deviation(once) > 0.1 > 0.01 > prior_deviation(often)
    True
    """
    weights, family = smooth_posterior(batch)
    usual = dict(Counter(batch).most_common(USUAL_STATES))
    total = sum(usual.values())
    expected = np.zeros(len(weights))
    for tally, questions in usual.items():
        if tally.counts:
            evidence, wins = _by_kind(tally.counts, tally.options)
            posterior = family * evidence
            expected += questions / total * (posterior @ wins) / posterior.sum(axis=1)
    return math.sqrt(float(weights @ (expected - weights @ expected) ** 2))


@lru_cache(maxsize=1 << 14)
def _by_kind(counts: tuple[int, ...], options: int | None) -> tuple[Array, Array]:
    """How likely the counts are under each kind of prior, and how likely the leader then is the population vote."""
    logs, wins = [], []
    for log, parts in kind_posteriors(counts, options):
        logs.append(log)
        kind = []
        for part in parts:  # each rival by itself
            rivals, number = [*part.alpha[1:]], [1.0] * (len(counts) - 1)
            for a, many in part.unseen:
                if many:
                    rivals.append(a)
                    number.append(many)
            log_win = float(np.array(number) @ np.log1p(-betainc(part.alpha[0], rivals, 0.5))) if rivals else 0.0
            kind.append(part.weight * math.exp(log_win))
        wins.append(math.fsum(kind))
    evidence = np.array(logs)
    return np.exp(evidence - evidence.max()), np.array(wins)


def _after(counts: tuple[int, ...], alpha: tuple[float, ...], unseen: Unseen, votes: float, zone: float) -> float:
    """P(leader wins) after an expected, finite number of further votes."""
    if votes > EXACT_VOTES:
        forever = p_good(alpha, unseen, zone) if zone else p_leader(alpha, unseen)
        return forever + (p_leader_after(counts, alpha, unseen, EXACT_VOTES, zone) - forever) * EXACT_VOTES / votes
    few = math.floor(votes)
    part = votes - few
    now = p_leader_after(counts, alpha, unseen, few, zone)
    return now if part < 1e-12 else (1.0 - part) * now + part * p_leader_after(counts, alpha, unseen, few + 1, zone)


@lru_cache(maxsize=1 << 17)
def p_leader_after(
    counts: tuple[int, ...], alpha: tuple[float, ...], unseen: Unseen, m: int, zone: float = 0.0
) -> float:
    """P(the leader of the counts leads after m more votes) under Dir(alpha); ``counts`` positive, descending.

    ``alpha`` are the answers' own, ``unseen`` (alpha, number) of those without a vote. With a ``zone``, P(nobody is
    then ahead of the leader by more than that share of all votes).

    >>> round(p_leader_after((1,), (2.0,), ((1.0, 1),), 2), 12)    # Beta(2, 1): both votes go to the rival 1 time in 6
    0.833333333333
    >>> round(p_leader_after((1,), (2.0,), ((1.0, 1),), 2, zone=0.4), 12)
    1.0
    """
    lead = counts[0]
    slack = math.floor(zone * (sum(counts) + m) + 1e-9)
    rivals = [*zip(counts[1:], alpha[1:], [1] * (len(counts) - 1), strict=True), *((0, a, many) for a, many in unseen)]
    rivals = [(votes, a, many) for votes, a, many in rivals if many]
    gap = lead + slack - max((votes for votes, _, _ in rivals), default=0)
    if m == 0 or not rivals or m < gap:
        return 1.0
    return _not_behind(lead, alpha[0], rivals, m, gap, slack if zone else None)


def _not_behind(
    lead: int, first: float, rivals: list[tuple[int, float, int]], m: int, gap: int, slack: int | None
) -> float:
    """P(no rival passes the leader in m votes to come); a rival needs ``gap`` of them to draw level with the bar."""
    A = first + math.fsum(a * many for _, a, many in rivals)
    p = m / (m + A)
    x = np.arange(m + 1)
    mine = _negative_binomial(first, p, x)
    total = float(_negative_binomial(A, p, np.array([m]))[0])
    open_x = x[: (m - gap) // 2 + 1]  # the leader's votes that leave a rival enough
    settled = x[len(open_x) :]
    sure = float(mine[settled] @ _negative_binomial(A - first, p, m - settled))
    doubtful = float(mine[open_x] @ _not_passed(rivals, lead, slack, p, m, open_x))
    return min(1.0, max(0.0, (sure + doubtful) / total))


def doubt_by_pairs(alpha: Sequence[float], zone: float) -> float:
    r"""The sum over rivals of P(its share exceeds the first one's by more than ``zone``), pair by pair; 1 at most.

    Under theta ~ Dir(alpha) the leader's share x of the pair that it makes with rival k is Beta(alpha_1, alpha_k),
    whatever the pair's share S of all. The rival is ahead by more than the zone where x < (1 - zone / S) / 2. With S at
    its mean, and the rivals added up,

        doubt = sum_k I_{(1 - zone / S_k) / 2}(alpha_1, alpha_k),     S_k = (alpha_1 + alpha_k) / sum alpha:

    exact for two answers, and hundreds of times as fast as :func:`p_good`, which is exact for any number.

    >>> round(doubt_by_pairs((3.0, 2.0), 0.1), 12) == round(float(betainc(3.0, 2.0, 0.45)), 12)
    True
    """
    first, rivals = alpha[0], np.array(alpha[1:])
    bars = np.maximum(0.0, (1.0 - zone * sum(alpha) / (first + rivals)) / 2.0)
    return min(1.0, float(betainc(first, rivals, bars).sum()))


@lru_cache(maxsize=1 << 17)
def p_good(alpha: tuple[float, ...], unseen: Unseen, zone: float) -> float:
    """P(no share exceeds the first one by more than ``zone``, > 0) under Dir(alpha and the unseen ones).

    >>> round(p_good((3.0, 2.0), (), 0.1), 12) == round(1 - float(betainc(3, 2, 0.45)), 12)
    True
    """
    rivals = Counter(alpha[1:])
    for a, many in unseen:
        if many:
            rivals[a] += many
    if not rivals:
        return 1.0
    rest = math.fsum(a * many for a, many in rivals.items())
    first, top = alpha[0], (1.0 - zone) / 2.0
    if rivals.total() == 1:
        return 1.0 - float(betainc(first, rest, top))
    if betainc(first, rest, max(0.0, (1.0 - 3.0 * zone) / 4.0)) > SMALL_LEADER_CHANCE:
        m = min(MOST_VOTES, max(LEAST_VOTES, math.ceil(4.0 * (first + rest))))
        return min(1.0, 2.0 * _good_after(rivals, first, zone, 2 * m) - _good_after(rivals, first, zone, m))
    third = max(0.0, (1.0 - 2.0 * zone) / 3.0)  # the leader's share under which two rivals can both be too far ahead
    x, weights = _nodes(first, rest, third, top, LEGENDRE_NODES)
    doubt = float(weights @ _one_ahead(rivals, rest, (x + zone) / (1.0 - x)))
    if third:
        x, weights = _nodes(first, rest, 0.0, third, PAIR_NODES)
        c = (x + zone) / (1.0 - x)
        doubt += float(weights @ (_one_ahead(rivals, rest, c) - _two_ahead(rivals, rest, c)))
    return min(1.0, max(0.0, 1.0 - doubt))


def _good_after(rivals: Mapping[float, int], first: float, zone: float, m: int) -> float:
    """P(of m votes no rival gets the zone's share more than the first), between the whole leads about its edge."""
    edge = max(0.0, zone * m - 0.5)
    below = math.floor(edge)
    unvoted = [(0, a, many) for a, many in rivals.items()]
    low, high = (_not_behind(0, first, unvoted, m, slack, slack) for slack in (below, below + 1))
    return low + (edge - below) * (high - low)


def _one_ahead(rivals: Mapping[float, int], rest: float, c: Array) -> Array:
    """E[rivals k with phi_k > c], at each c."""
    return np.asarray(sum(many * betainc(rest - a, a, 1.0 - c) for a, many in rivals.items()))


def _two_ahead(rivals: Mapping[float, int], rest: float, c: Array) -> Array:
    """E[pairs of rivals with phi_j > c and phi_k > c], at each c < 1/2."""
    t, w = roots_legendre(PAIR_NODES)
    c = c[:, None]
    u = c + (1.0 - 2.0 * c) * (t + 1.0) / 2.0  # phi_j, between c and 1 - c
    above = 1.0 - c / (1.0 - u)
    total = np.zeros(len(c))
    levels = sorted(rivals)
    for i, a in enumerate(levels):
        density = np.exp((a - 1.0) * np.log(u) + (rest - a - 1.0) * np.log1p(-u) - betaln(a, rest - a))
        for b in levels[i:]:
            pairs = rivals[a] * (rivals[a] - 1) / 2 if b == a else rivals[a] * rivals[b]
            others = rest - a - b
            if pairs:
                chance = betainc(others, b, above) if others > 1e-12 else 1.0
                total += pairs * (density * chance * w).sum(axis=1)
    return total * (1.0 - 2.0 * c[:, 0]) / 2.0


def _nodes(first: float, rest: float, low: float, top: float, count: int) -> tuple[Array, Array]:
    """Nodes and weights that integrate over x ~ Beta(first, rest) on [low, top]: Gauss-Legendre where its mass is."""
    mass = float(betainc(first, rest, top))
    if mass < LEAST_MASS:  # its place could no longer be told
        return np.full(1, (low + top) / 2.0), np.zeros(1)
    low = max(low, float(betaincinv(first, rest, 1e-16 * mass)))
    t, w = roots_legendre(count)
    x = low + (top - low) * (t + 1.0) / 2.0
    density = np.exp((first - 1.0) * np.log(x) + (rest - 1.0) * np.log1p(-x) - betaln(first, rest))
    return x, w * (top - low) / 2.0 * density


def _negative_binomial(alpha: float, p: float, x: NDArray[np.int64]) -> Array:
    """P(X = x), X ~ NB(alpha, p)."""
    log_pmf = gammaln(alpha + x) - gammaln(alpha) - gammaln(x + 1.0) + alpha * math.log1p(-p) + x * math.log(p)
    return np.asarray(np.exp(log_pmf))


def _not_passed(
    rivals: list[tuple[int, float, int]], lead: int, slack: int | None, p: float, m: int, x: NDArray[np.int64]
) -> Array:
    """P(the rivals' votes add up to m - x and none passes the leader's lead + x), for every x; shape (len(x),).

    ``rivals`` are (votes, alpha, number). With a ``slack`` they may have so many more than the leader.
    """
    F = 2 * (m + 1)
    r = ALIAS_TOLERANCE ** (1.0 / F)
    f = np.arange(F // 2 + 1)
    y = np.arange(m + 1)
    powers = r**y * np.exp(-2j * np.pi * (np.outer(f, y) % F) / F)
    voters = tuple(votes for votes, _, many in rivals for _ in range(many if votes else 1))
    weights, taus = (np.ones(1), dict.fromkeys(voters, np.ones(1))) if slack is not None else _ties(voters, lead)
    product = np.multiply.outer(weights, np.ones((len(f), len(x)), dtype=np.complex128))  # (nodes, f, x)
    groups = Counter[tuple[int, float]]()
    for votes, a, many in rivals:
        groups[votes, a] += many
    for (votes, a), many in groups.items():
        terms = powers * _negative_binomial(a, p, y)
        below = np.cumsum(terms, axis=1)
        cap = lead + x + (slack or 0) - votes
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
