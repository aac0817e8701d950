"""The learned prior: how strongly a model agrees with itself, from the batch itself (empirical Bayes).

A question's theta is Dir_K(a), and a, the strength per option, differs: near 0 where the model always says the same,
large where its answers scatter. The batch's tallies have the Dirichlet-multinomial likelihood

    P(counts | a) = K! / (K - k)! · Gamma(Ka) / Gamma(Ka + n) · prod_i Gamma(a + n_i) / Gamma(a)

(k answers seen, labels unnamed), so the shares of a few strengths follow by EM, with no training data and no gold.
Strengths also go with trace length: questions are cut into classes by mean tokens, each with shares of its own,
shrunk towards the batch's.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from pets.core.lookahead import BATCHES, batch_gains
from pets.core.tally import Tally

__all__ = ["STRENGTHS", "LearnedPrior", "class_tokens", "fit_prior", "log_evidence"]

Array = NDArray[np.float64]

STRENGTHS = (0.005, 0.02, 0.06, 0.2, 0.6, 1.6)
OPEN_SLOTS = 8  # of an answer set whose size is not known; one more than was seen, at least
LENGTH_CLASSES = 5
SHRINK_BATCH, SHRINK_CLASS = 2.0, 3.0  # pseudo-questions towards equal shares, and towards the batch's
EM_STEPS = 60


@dataclass(frozen=True, slots=True)
class LearnedPrior:
    """``shares[c][s]``: how many questions of length class c have strength s; ``edges`` cut classes by mean tokens.

    >>> LearnedPrior().mark(812.0), LearnedPrior(edges=(100.0, 1000.0)).mark(812.0)
    (0, 1)
    """

    shares: tuple[tuple[float, ...], ...] = ((1 / len(STRENGTHS),) * len(STRENGTHS),)
    edges: tuple[float, ...] = ()

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

    def draw(self, tally: Tally, rng: np.random.Generator) -> Array:
        """A draw of theta from the posterior of one tally, shape (K,): Dir(a + counts) with a from the posterior.

        The answers seen come first, in the order of their counts. The length class is that of the mean tokens.
        """
        marked = replace(tally, mark=self.mark(tally.mean_tokens))
        strength = STRENGTHS[int(rng.choice(len(STRENGTHS), p=self.posterior(marked)))]
        alpha = np.full(slots(tally), strength)
        alpha[: len(tally.counts)] += tally.counts
        theta: Array = rng.dirichlet(alpha)
        return theta

    def gain(self, tally: Tally) -> float:
        """The best expected gain per trace over batches of traces, max_k gain(k) / k, less where traces are in flight.

        The gain of p pending traces is on its way: what is left for more is max_k (gain(p + k) - gain(p)) / k, and not
        more than without them. A trace that is launched beside p others cannot wait for what they say: of that it gets
        the share 1 / (1 + p), which keeps traces in flight apart (measured: `benchmarks.in_flight_quality`). Before
        anything has come back, and beyond the batches known, pending traces are dealt out as votes, the leader's first.
        """
        p = tally.pending
        on_way = int(min(p, BATCHES[-2])) if tally.counts else 0
        gains = self.posterior(tally) @ batch_gains(_dealt(tally, p - on_way), slots(tally), STRENGTHS)
        best = float((gains / BATCHES).max())
        if on_way:
            more = on_way < BATCHES
            left = gains[more] - float(np.interp(on_way, [0, *BATCHES], [0.0, *gains]))
            best = min(best, float((left / (BATCHES[more] - on_way)).max()))
        return best / (1 + p)


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
    prior = LearnedPrior((tuple(shares.tolist()),), edges)
    if not edges or not lengths:
        return prior
    marks = np.array([prior.mark(tally.mean_tokens) for tally in tallies])
    rows = [_em(evidence[marks == c], many[marks == c], shares, SHRINK_CLASS) for c in range(len(edges) + 1)]
    return LearnedPrior(tuple(tuple(row.tolist()) for row in rows), edges)


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
