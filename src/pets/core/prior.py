r"""The learned prior: how strongly a model agrees with itself, from the batch itself (empirical Bayes).

A question's theta is Dir_K(a), and a, the strength per option, differs: near 0 where the model always says the same,
large where its answers scatter. The batch's tallies have the Dirichlet-multinomial likelihood

    P(counts | a) = K! / (K - k)! · Gamma(Ka) / Gamma(Ka + n) · prod_i Gamma(a + n_i) / Gamma(a)

(k answers seen, labels unnamed), so the shares of a few strengths follow by EM, with no training data and no gold.
Strengths also go with trace length: questions are cut into classes by mean tokens, each with shares of its own,
shrunk towards the batch's.

**Open answer sets** have one answer that the model comes back to and a tail that scatters: no symmetric prior has both,
so its certificates are too timid. For them the belief that certifies is a mixture of Dirichlets with a *head*, one
answer of strength h among TAIL_SLOTS of a = t / TAIL_SLOTS each,

    P(counts | h, t) = Gamma(h + t) / Gamma(h + t + n) ·
                       (sum_j w_j + w_none),   w_j = (h)_{n_j} ∏_{i≠j} (a)_{n_i} TAIL_SLOTS! / (TAIL_SLOTS - k + 1)!,

(x)_n rising: any of the answers seen may be the head, or none of them. Its shares are learned beside the others, and
the posterior of one tally is again a mixture of Dirichlets (:meth:`LearnedPrior.mixture`).
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from pets.core.lookahead import BATCHES, batch_gains
from pets.core.races import race_gains
from pets.core.tally import Tally

__all__ = ["HEADS", "OPEN_SLOTS", "STRENGTHS", "Dirichlet", "LearnedPrior", "class_tokens", "fit_prior", "log_evidence"]

Array = NDArray[np.float64]

STRENGTHS = (0.005, 0.02, 0.06, 0.2, 0.6, 1.6)
OPEN_SLOTS = 8  # of an answer set whose size is not known; one more than was seen, at least
LENGTH_CLASSES = 5
SHRINK_BATCH, SHRINK_CLASS = 2.0, 3.0  # pseudo-questions towards equal shares, and towards the batch's
EM_STEPS = 60
TAIL_SLOTS = 512
HEADS = tuple((h, t) for h in (0.5, 2.0, 8.0) for t in (0.5, 2.0, 8.0, 40.0))  # of an open set, beside STRENGTHS
OPEN_COMPONENTS = len(STRENGTHS) + len(HEADS)
NEGLIGIBLE_WEIGHT = 2e-3  # posterior weight of a Dirichlet that is not worth its integral


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """One part of a posterior: its ``weight``, alpha of each answer seen, and of the unseen ones with their number."""

    weight: float
    alpha: tuple[float, ...]
    unseen: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class LearnedPrior:
    """``shares[c][s]``: how many questions of length class c have strength s; ``edges`` cut classes by mean tokens.

    ``open_shares`` are those of STRENGTHS and then HEADS among the questions with an open answer set.

    >>> LearnedPrior().mark(812.0), LearnedPrior(edges=(100.0, 1000.0)).mark(812.0)
    (0, 1)
    """

    shares: tuple[tuple[float, ...], ...] = ((1 / len(STRENGTHS),) * len(STRENGTHS),)
    edges: tuple[float, ...] = ()
    open_shares: tuple[float, ...] = (1 / OPEN_COMPONENTS,) * OPEN_COMPONENTS

    def mark(self, mean_tokens: float) -> int:
        """The length class of a question whose traces have this many tokens on average."""
        return bisect_left(self.edges, mean_tokens)

    def posterior(self, tally: Tally) -> Array:
        """Shares of the strengths given one tally; shape (len(STRENGTHS),)."""
        log_shares = _logs(self.shares[min(tally.mark, len(self.shares) - 1)])
        log_weights = log_shares + log_evidence(tally.counts, slots(tally))
        weights: Array = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        return weights

    def _open_posterior(self, tally: Tally) -> Array:
        """Shares of STRENGTHS and HEADS given one tally with an open answer set."""
        log_weights = _logs(self.open_shares) + _open_evidence(tally.counts)
        weights: Array = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        return weights

    def mixture(self, tally: Tally) -> list[Dirichlet]:
        """The posterior of one tally's theta, parts of negligible weight left out; weights add up to 1."""
        K, seen = slots(tally), len(tally.counts)
        headed = _headed(tally.counts) if tally.options is None else ()
        weights = self._open_posterior(tally) if headed else self.posterior(tally)
        parts = [
            Dirichlet(weight, tuple(n + a for n in tally.counts), ((a, K - seen),))
            for weight, a in zip(weights.tolist(), STRENGTHS, strict=False)
        ]
        for weight, (_, dirichlets) in zip(weights.tolist()[len(STRENGTHS) :], headed, strict=True):
            parts += [replace(part, weight=weight * part.weight) for part in dirichlets]
        kept = [part for part in parts if part.weight > NEGLIGIBLE_WEIGHT]
        total = math.fsum(part.weight for part in kept)
        return [replace(part, weight=part.weight / total) for part in kept]

    def draw(self, tally: Tally, rng: np.random.Generator) -> Array:
        """A draw of theta from the posterior of one tally, shape (K,).

        The answers seen come first, in the order of their counts. The length class is that of the mean tokens.
        """
        parts = self.mixture(replace(tally, mark=self.mark(tally.mean_tokens)))
        part = parts[int(rng.choice(len(parts), p=[part.weight for part in parts]))]
        theta: Array = rng.dirichlet([*part.alpha, *(a for a, many in part.unseen for _ in range(many))])
        return theta

    def log_gain(self, tally: Tally, zone: float = 0.0) -> float:
        """log max_k gain(k) / k, the best expected gain per trace over batches; less where traces are in flight.

        The gain of p pending traces is on its way: what is left for more is max_k (gain(p + k) - gain(p)) / k, and not
        more than without them. A trace that is launched beside p others cannot wait for what they say: of that it gets
        the share 1 / (1 + p), which keeps traces in flight apart. Before
        anything has come back, and beyond the batches known, pending traces are dealt out as votes, the leader's first.
        With a ``zone`` races count as well as batches (:mod:`pets.core.races`).
        """
        p = tally.pending
        on_way = int(min(p, BATCHES[-2])) if tally.counts else 0
        counts, K, weights = _dealt(tally, p - on_way), slots(tally), self.posterior(tally)
        by_strength, log_scale = batch_gains(counts, K, STRENGTHS, zone)
        gains = weights @ by_strength
        best = float((gains / BATCHES).max())
        if zone and not log_scale:
            race, traces = (weights @ table for table in race_gains(counts, K, STRENGTHS, zone))
            gains *= max(1.0, float((race / traces).max()) / best)
            best = float((gains / BATCHES).max())
        if on_way:
            more = on_way < BATCHES
            left = gains[more] - float(np.interp(on_way, [0, *BATCHES], [0.0, *gains]))
            best = min(best, float((left / (BATCHES[more] - on_way)).max()))
        return math.log(max(best, 1e-300)) + log_scale - math.log1p(p)


@lru_cache(maxsize=256)
def _logs(shares: tuple[float, ...]) -> Array:
    """Logs of one class's shares: every tally of the class asks for them."""
    return np.log(shares)


def slots(tally: Tally) -> int:
    """K: the declared options, or a few more than were seen."""
    seen = len(tally.counts)
    return max(tally.options, seen) if tally.options is not None else max(OPEN_SLOTS, seen + 1)


@lru_cache(maxsize=1 << 17)
def log_evidence(counts: tuple[int, ...], K: int) -> Array:
    """log P(counts | a) for every strength; shape (len(STRENGTHS),).

    >>> agree, scatter = log_evidence((6,), 8), log_evidence((1, 1, 1, 1, 1, 1), 8)
    >>> STRENGTHS[int(agree.argmax())], STRENGTHS[int(scatter.argmax())]
    (0.005, 1.6)
    """
    a = np.array(STRENGTHS)
    n, k = sum(counts), len(counts)
    each = np.array(counts, dtype=np.float64)[:, None]
    ways = gammaln(K + 1) - gammaln(K - k + 1)
    evidence: Array = ways + gammaln(K * a) - gammaln(K * a + n) + (gammaln(each + a) - gammaln(a)).sum(axis=0)
    return evidence


@lru_cache(maxsize=1 << 17)
def _headed(counts: tuple[int, ...]) -> tuple[tuple[float, tuple[Dirichlet, ...]], ...]:
    """For each of HEADS log P(counts | h, t), and the posterior: a Dirichlet for each answer that may be the head."""
    return tuple(_head(counts, h, t) for h, t in HEADS)


def _head(counts: tuple[int, ...], h: float, t: float) -> tuple[float, tuple[Dirichlet, ...]]:
    seen = len(counts)
    K = max(TAIL_SLOTS, seen)
    a = t / K
    rising = [math.lgamma(a + n) - math.lgamma(a) for n in counts]
    base = math.lgamma(h + t) - math.lgamma(h + t + sum(counts)) + math.fsum(rising) + math.lgamma(K + 1)
    logs = [
        base + math.lgamma(h + n) - math.lgamma(h) - tail - math.lgamma(K - seen + 2)
        for n, tail in zip(counts, rising, strict=True)
    ]
    logs.append(base - math.lgamma(K - seen + 1))
    most = max(logs)
    log_sum = most + math.log(math.fsum(math.exp(log - most) for log in logs))
    tail_alpha = tuple(n + a for n in counts)
    parts = [
        Dirichlet(math.exp(log - log_sum), (*tail_alpha[:j], counts[j] + h, *tail_alpha[j + 1 :]), ((a, K - seen + 1),))
        for j, log in enumerate(logs[:-1])
    ]
    parts.append(Dirichlet(math.exp(logs[-1] - log_sum), tail_alpha, ((a, K - seen), (h, 1))))
    return log_sum, tuple(parts)


def _open_evidence(counts: tuple[int, ...]) -> Array:
    """log P(counts | component) for STRENGTHS and then HEADS of an open answer set."""
    return np.append(log_evidence(counts, slots(Tally(counts))), [log for log, _ in _headed(counts)])


def fit_prior(batch: Mapping[Tally, int], lengths: bool = True) -> LearnedPrior:
    """Shares by EM from a batch (tally -> number of questions), in length classes where tokens were recorded.

    Without ``lengths`` every class has the batch's shares.

    >>> prior = fit_prior({Tally((4,)): 90, Tally((1, 1, 1, 1)): 10})
    >>> round(sum(prior.shares[0][:3]), 1)
    0.9
    """
    tallies = [tally for tally in batch if tally.votes]
    if not tallies:
        return LearnedPrior()
    many = np.array([batch[tally] for tally in tallies], dtype=np.float64)
    evidence = np.array([log_evidence(tally.counts, slots(tally)) for tally in tallies])
    flat = np.full(len(STRENGTHS), 1 / len(STRENGTHS))
    shares = _em(evidence, many, flat, SHRINK_BATCH)
    edges = _edges(np.array([tally.mean_tokens for tally in tallies]), many)
    prior = LearnedPrior((tuple(shares.tolist()),), edges, _open_shares(batch))
    if not edges or not lengths:
        return prior
    marks = np.array([prior.mark(tally.mean_tokens) for tally in tallies])
    rows = [_em(evidence[marks == c], many[marks == c], shares, SHRINK_CLASS) for c in range(len(edges) + 1)]
    return LearnedPrior(tuple(tuple(row.tolist()) for row in rows), edges, prior.open_shares)


def _open_shares(batch: Mapping[Tally, int]) -> tuple[float, ...]:
    """Shares of STRENGTHS and HEADS by EM from the open answer sets of the batch; equal ones where there are none."""
    states: Counter[tuple[int, ...]] = Counter()
    for tally, questions in batch.items():
        if tally.options is None and tally.votes:
            states[tally.counts] += questions
    flat = np.array(LearnedPrior().open_shares)
    if not states:
        return tuple(flat.tolist())
    evidence = np.array([_open_evidence(counts) for counts in states])
    many = np.array(list(states.values()), dtype=np.float64)
    return tuple(_em(evidence, many, flat, SHRINK_BATCH).tolist())


def class_tokens(batch: Mapping[Tally, int], prior: LearnedPrior) -> tuple[float, ...]:
    """Tokens that a trace of each length class takes on average; of an empty class, what the batch takes.

    >>> batch = {Tally((2,), mean_tokens=100.0): 3, Tally((1, 1), mean_tokens=900.0): 1}
    >>> class_tokens(batch, LearnedPrior(edges=(500.0,)))
    (100.0, 900.0)
    """
    seen = [(prior.mark(tally.mean_tokens), tally.mean_tokens, many) for tally, many in batch.items() if tally.returned]
    if not seen:
        return ()
    marks, tokens, many = (np.array(column, dtype=np.float64) for column in zip(*seen, strict=True))
    overall = float(tokens @ many / many.sum())
    classes = [marks == c for c in range(len(prior.edges) + 1)]
    means = [float(tokens[c] @ many[c] / many[c].sum()) if c.any() else overall for c in classes]
    return tuple(max(mean, 1.0) for mean in means)


def _em(evidence: Array, many: Array, start: Array, shrink: float) -> Array:
    """Shares that fit the evidence (n, strengths), shrunk towards ``start`` as by ``shrink`` more questions."""
    shares, pseudo, total = start, shrink * start, many.sum() + shrink
    for _ in range(EM_STEPS if len(evidence) else 0):
        weights = evidence + np.log(shares)
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        shares = (many @ weights + pseudo) / total
    return shares


def _edges(tokens: Array, many: Array) -> tuple[float, ...]:
    """Cuts into classes of equal size by mean tokens; none where no tokens were recorded."""
    if not tokens.any():
        return ()
    order = np.argsort(tokens, kind="stable")
    share = np.cumsum(many[order]) / many.sum()
    cuts = [float(tokens[order][int(np.searchsorted(share, c / LENGTH_CLASSES))]) for c in range(1, LENGTH_CLASSES)]
    return tuple(sorted(set(cuts)))


def _dealt(tally: Tally, pending: int) -> tuple[int, ...]:
    """Counts with ``pending`` traces dealt out in the counts' proportions, whole votes, the leader's first."""
    if not pending:
        return tally.counts
    votes = tally.votes
    dealt = [count + pending * count // votes for count in tally.counts] or [0]
    dealt[0] += votes + pending - sum(dealt)
    return tuple(sorted(dealt, reverse=True))
