r"""The learned prior: how strongly a model agrees with itself, from the batch itself (empirical Bayes).

A question's theta is Dir_K(a), and a, the strength per option, differs: near 0 where the model always says the same,
large where its answers scatter. The batch's tallies have the Dirichlet-multinomial likelihood

    P(counts | a) = K! / (K - k)! · Gamma(Ka) / Gamma(Ka + n) · prod_i Gamma(a + n_i) / Gamma(a)

(k answers seen, labels unnamed), so the shares of a few strengths follow by EM, with no training data and no gold.
Questions are cut into classes by mean tokens, each with shares of its own, shrunk towards the batch's.

**The belief that certifies.** Models have one answer that they come back to and a tail that scatters: certificates of
symmetric priors are too timid. Beside these there are Dirichlets with a *head*, one answer of strength h among T others
of a = t / T each (T: the options but one; TAIL_SLOTS in an open answer set),

    P(counts | h, t) = Gamma(h + t) / Gamma(h + t + n) ·
                       (sum_j w_j + w_none),   w_j = (h)_{n_j} ∏_{i≠j} (a)_{n_i} T! / (T - k + 1)!,

(x)_n rising: any of the answers seen may be the head, or none of them. The posterior of one tally is again a mixture of
Dirichlets (:meth:`LearnedPrior.mixture`).

**Few traces** say little, so the shares of all these kinds are shrunk towards smooth ones, normal in a kind's
difficulty d = logit P(two traces disagree) among the batch's own number of options,

    share of kind i  ∝  base_i exp(-(d_i - mu)^2 / 2 sigma^2),

averaged over what the batch says of (mu, sigma): the posterior on a grid under a wide hyperprior, mu normal about
USUAL_MEAN and sigma flat (:func:`smooth_posterior`). A length class has (mu, sigma) of its own, for which the whole
batch counts as BATCH_VOICE questions; its shares are shrunk towards the batch's, tilted by the ratio of the smooth
ones.

**A question's own votes count once.** With w the shares, n_q one question's counts and D all counts, Bayes' rule is

    P(kind | D) = ∫ P(kind | n_q, w) P(w | D) dw  ∝  P(n_q | kind) E[w_kind | the other questions' counts].

Shares fitted to all questions and then updated by n_q would count n_q twice. So :meth:`BatchFit.without` takes a
question out, exactly of (mu, sigma), and of EM's sums at the shares fitted to all.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, softmax

from pets.core.dirichlet import BATCHES, batch_gains, race_gains
from pets.core.tally import Tally

Array = NDArray[np.float64]

STRENGTHS = (0.005, 0.02, 0.06, 0.2, 0.6, 1.6)
OPEN_SLOTS = 8  # of an answer set whose size is not known; one more than was seen, at least
LENGTH_CLASSES = 5
SHRINK_BATCH, SHRINK_CLASS = 2.0, 3.0  # pseudo-questions towards equal shares, and towards the batch's
SHRINK_KINDS = 8.0  # pseudo-questions towards smooth shares of the kinds
BATCH_VOICE = 10.0  # questions that the whole batch counts for when a length class is smoothed
EM_STEPS, KIND_STEPS = 60, 150  # of the strengths and of the kinds, which are more alike
TAIL_SLOTS = 512
HEADS = (
    *((h, t) for h in (0.5, 2.0, 8.0) for t in (0.5, 2.0, 8.0, 40.0)),
    *((8.0, t) for t in (0.02, 0.1)),  # of questions that are all but unanimous
    *((8.0, t) for t in (1.0, 4.0)),  # of questions that all have about the same head, as people's votes have
    *((20.0, t) for t in (5.0, 10.0, 20.0)),
)
FORMER_HEADS = 14  # that a prior of before has shares of
KINDS = len(STRENGTHS) + len(HEADS)
_BY_HEAD = [{0.5: 0.3, 2.0: 0.6, 8.0: 1.0}[h] for h, _ in HEADS[:FORMER_HEADS]]
_BY_HEAD += [0.3] * (len(HEADS) - FORMER_HEADS)
OPEN_BASE = np.array([0.3] * len(STRENGTHS) + _BY_HEAD)  # tails scatter
CLOSED_BASE = np.array([1.0] * len(STRENGTHS) + [0.05] * len(HEADS))  # rivals are few, one of them mostly strong
MEANS, DEVIATIONS = np.linspace(-7.0, 2.0, 19), np.array([0.5, 1.0, 1.7, 2.5, 4.0])  # mu and sigma of smooth shares
USUAL_MEAN, USUAL_SPREAD = -1.5, 2.5  # of mu over data sets: where a question alone is no surer than recorded ones are
_LOG_HYPERPRIOR = np.repeat(-0.5 * ((MEANS - USUAL_MEAN) / USUAL_SPREAD) ** 2, len(DEVIATIONS))
NO_LENGTH = -1  # the length class of a question of which nothing is back
NEGLIGIBLE_WEIGHT = 2e-4  # posterior weight of a Dirichlet that is not worth its integral: mostly of another leader


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """One part of a posterior: its ``weight``, alpha of each answer seen, and of the unseen ones with their number."""

    weight: float
    alpha: tuple[float, ...]
    unseen: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class LearnedPrior:
    """``shares[c][s]``: how many questions of length class c have strength s; ``edges`` cut classes by mean tokens.

    ``kind_shares`` are those of STRENGTHS and then HEADS, the belief that certifies; of before, of FORMER_HEADS alone.
    """

    shares: tuple[tuple[float, ...], ...] = ((1 / len(STRENGTHS),) * len(STRENGTHS),)
    edges: tuple[float, ...] = ()
    kind_shares: tuple[tuple[float, ...], ...] = ((1 / KINDS,) * KINDS,)

    def mark(self, mean_tokens: float) -> int:
        """The length class of a question whose traces have this many tokens on average."""
        return length_class(self.edges, mean_tokens)

    def posterior(self, tally: Tally) -> Array:
        """Shares of the strengths given one tally; shape (len(STRENGTHS),)."""
        return _updated(self.shares, tally.mark, log_evidence(tally.counts, slots(tally.counts, tally.options)))

    def mixture(self, tally: Tally) -> tuple[Dirichlet, ...]:
        """The posterior of one tally's theta, parts of negligible weight left out; weights add up to 1."""
        return _mixture(self.kind_shares[min(tally.mark, len(self.kind_shares) - 1)], tally.counts, tally.options)

    def draws(self, tally: Tally, size: int, rng: np.random.Generator) -> list[Array]:
        """Draws of theta from the posterior of one tally, shape (K,) each, K that of the kind drawn; by systematic
        sampling of the mixture. The answers seen come first, in the order of their counts."""
        mark = min(bisect_left(self.edges, tally.mean_tokens), len(self.kind_shares) - 1)
        chances, alphas = _draw_table(self.kind_shares[mark], tally.counts, tally.options)
        drawn = np.searchsorted(chances, (np.arange(size) + rng.random()) / size * chances[-1]).tolist()
        return list(map(rng.dirichlet, map(alphas.__getitem__, drawn)))

    def log_gain(self, tally: Tally, zone: float = 0.0) -> float:
        """log max_k gain(k) / k, the best expected gain per trace over batches; less where traces are in flight.

        Beside p pending traces it is max_k (gain(p + k) - gain(p)) / k, not more than without them, over 1 + p: a trace
        cannot wait for what the others say. Before anything has come back, and beyond the batches known, pending traces
        are dealt out as votes, the leader's first. With a ``zone`` races count as well as batches
        (:mod:`pets.core.dirichlet`).
        """
        p, counts, K = tally.pending, tally.counts, slots(tally.counts, tally.options)
        weights = self.posterior(tally)
        on_way = int(min(p, BATCHES[-2])) if counts else 0
        if p > on_way:
            votes, more = sum(counts), p - on_way
            dealt = [count + more * count // votes for count in counts] or [0]
            dealt[0] += votes + more - sum(dealt)
            counts = tuple(sorted(dealt, reverse=True))
        by_strength, log_scale = batch_gains(counts, K, STRENGTHS, zone)
        gains = weights @ by_strength
        best = float((gains / BATCHES).max())
        if zone and not log_scale:
            race, traces = (weights @ table for table in race_gains(counts, K, STRENGTHS, zone))
            gains *= max(1.0, float((race / traces).max()) / best)
            best = float((gains / BATCHES).max())
        if on_way:
            beyond = on_way < BATCHES
            left = gains[beyond] - float(np.interp(on_way, [0, *BATCHES], [0.0, *gains]))
            best = min(best, float((left / (BATCHES[beyond] - on_way)).max()))
        return math.log(max(best, 1e-300)) + log_scale - math.log1p(p)


def length_class(edges: tuple[float, ...], mean_tokens: float) -> int:
    """Where a question with so many tokens a trace belongs; NO_LENGTH as long as none are known.

    >>> [length_class((100.0, 1000.0), tokens) for tokens in (0.0, 50.0, 812.0)], length_class((), 0.0)
    ([-1, 0, 1], 0)
    """
    return bisect_left(edges, mean_tokens) if mean_tokens or not edges else NO_LENGTH


def shares_of(rows: tuple[tuple[float, ...], ...], mark: int) -> tuple[float, ...]:
    """The shares of a length class, all of about the same size: where the length is not known, the mean of all."""
    return rows[min(mark, len(rows) - 1)] if mark >= 0 else tuple(np.mean(rows, axis=0).tolist())


def _updated(rows: tuple[tuple[float, ...], ...], mark: int, evidence: Array) -> Array:
    """The shares of a length class after what one tally says."""
    logs = _log_shares(rows, mark)
    log_weights = logs + evidence[: len(logs)]
    weights: Array = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return weights


@lru_cache(maxsize=256)
def _log_shares(rows: tuple[tuple[float, ...], ...], mark: int) -> Array:
    return np.log(shares_of(rows, mark))


@lru_cache(maxsize=1 << 14)
def _mixture(shares: tuple[float, ...], counts: tuple[int, ...], options: int | None) -> tuple[Dirichlet, ...]:
    """The posterior of counts under these shares of the kinds."""
    weights = _updated((shares,), 0, _kind_evidence(counts, options)).tolist()
    parts: list[tuple[float, tuple[float, ...], tuple[tuple[float, int], ...]]] = []
    for share, (_, dirichlets) in zip(weights, kind_posteriors(counts, options), strict=False):
        for part in dirichlets:
            if (weight := share * part.weight) > NEGLIGIBLE_WEIGHT:
                parts += [(weight, part.alpha, part.unseen)]
    by_part, alphas, unseen = zip(*parts, strict=True)
    return tuple(map(Dirichlet, (np.array(by_part) / math.fsum(by_part)).tolist(), alphas, unseen))


@lru_cache(maxsize=64)  # of tails that have hundreds of answers
def _draw_table(shares: tuple[float, ...], counts: tuple[int, ...], options: int | None) -> tuple[Array, list[Array]]:
    """The parts of a posterior as they are drawn from: cumulative weights, and the alphas of each."""
    weights, alphas = [], []
    for part in _mixture(shares, counts, options):
        weights.append(part.weight)
        alpha = [*part.alpha]
        for a, many in part.unseen:
            alpha += [a] * many
        alphas.append(np.array(alpha))
    return np.cumsum(weights), alphas


def slots(counts: tuple[int, ...], options: int | None) -> int:
    """K: the declared options, or a few more than were seen."""
    seen = len(counts)
    return max(options, seen) if options is not None else max(OPEN_SLOTS, seen + 1)


@lru_cache(maxsize=1 << 12)
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
    return np.asarray(ways + gammaln(K * a) - gammaln(K * a + n) + (gammaln(each + a) - gammaln(a)).sum(axis=0))


@lru_cache(maxsize=1 << 17)
def kind_posteriors(counts: tuple[int, ...], options: int | None) -> tuple[tuple[float, tuple[Dirichlet, ...]], ...]:
    """log P(counts | kind) and the posterior for each of STRENGTHS, then of HEADS: a Dirichlet for each answer that may
    be the head."""
    K, votes = slots(counts, options), np.array(counts, dtype=np.float64)
    posteriors: list[tuple[float, tuple[Dirichlet, ...]]] = []
    for log, a in zip(log_evidence(counts, K).tolist(), STRENGTHS, strict=True):
        posteriors.append((log, (Dirichlet(1.0, tuple((votes + a).tolist()), ((a, K - len(counts)),)),)))
    T = max(TAIL_SLOTS, len(counts)) if options is None else max(options, len(counts)) - 1
    for h, t in HEADS:
        if T:
            posteriors.append(_head(counts, h, t, T))
        else:
            posteriors.append((0.0, (Dirichlet(1.0, tuple((votes + h).tolist()), ()),)))
    return tuple(posteriors)


def _head(counts: tuple[int, ...], h: float, t: float, T: int) -> tuple[float, tuple[Dirichlet, ...]]:
    """log P(counts | h, t), and a Dirichlet for each answer that may be the head, the unseen ones last."""
    seen, a = len(counts), t / T
    tail = (np.array(counts, dtype=np.float64) + a).tolist()
    rising = (np.array([*map(math.lgamma, tail)]) - math.lgamma(a)).tolist()
    base = math.lgamma(h + t) - math.lgamma(h + t + sum(counts)) + math.fsum(rising) + math.lgamma(T + 1)
    logs: list[float] = []
    alphas: list[tuple[tuple[float, ...], tuple[tuple[float, int], ...]]] = []
    for j, n in enumerate(counts):
        logs.append(base + math.lgamma(h + n) - math.lgamma(h) - rising[j] - math.lgamma(T - seen + 2))
        alphas.append(((*tail[:j], n + h, *tail[j + 1 :]), ((a, T - seen + 1),)))
    if seen <= T:
        logs.append(base - math.lgamma(T - seen + 1))
        alphas.append((tuple(tail), ((a, T - seen), (h, 1))))
    most, by_head = max(logs), np.array(logs)
    log_sum = most + math.log(math.fsum(map(math.exp, (by_head - most).tolist())))
    weights = map(math.exp, (by_head - log_sum).tolist())
    return log_sum, tuple(map(Dirichlet, weights, *zip(*alphas, strict=True)))


@lru_cache(maxsize=1 << 17)
def _kind_evidence(counts: tuple[int, ...], options: int | None) -> Array:
    """log P(counts | kind) for STRENGTHS and then HEADS."""
    evidence, _ = zip(*kind_posteriors(counts, options), strict=True)
    return np.array(evidence)


def fit_prior(batch: Mapping[Tally, int], lengths: bool = True) -> LearnedPrior:
    """Shares by EM from a batch (tally -> number of questions); with ``lengths`` for each length class.

    >>> prior = fit_prior({Tally((4,)): 90, Tally((1, 1, 1, 1)): 10})
    >>> round(sum(prior.shares[0][:3]), 1)
    0.9
    """
    return BatchFit(batch, lengths).prior


class BatchFit:
    """What a batch teaches: ``prior``, that of all its questions, and for each of them the one that the others teach.

    >>> from pets.core.certificate import certificate
    >>> pair = Tally((2,))
    >>> [round(certificate(pair, BatchFit({pair: many}).without(pair)), 3) for many in (1, 200)]
    [0.962, 1.0]
    """

    def __init__(self, batch: Mapping[Tally, int], lengths: bool = True) -> None:
        self.prior = LearnedPrior()
        self._states: dict[tuple[tuple[int, ...], int | None, int], int] = {}
        self._others: dict[int, LearnedPrior] = {}  # what the others teach a question of each state
        voted = list(filter(attrgetter("counts"), batch))
        if not voted:
            return
        tokens = np.array([*map(attrgetter("mean_tokens"), voted)])
        edges = _edges(tokens, np.array([*map(batch.__getitem__, voted)], dtype=np.float64))
        classes = len(edges) + 1 if lengths else 1
        questions: Counter[tuple[tuple[int, ...], int | None, int]] = Counter()
        for tally in voted:
            mark = length_class(edges, tally.mean_tokens) if lengths else 0
            questions[tally.counts, tally.options, mark] += batch[tally]
        self._states = dict(zip(questions, range(len(questions)), strict=True))
        total = np.array([*questions.values()], dtype=np.float64)
        counts, options, marks = zip(*questions, strict=True)
        kinds, family = np.array([*map(_kind_evidence, counts, options)]), _smooth_family(_usual_options(batch))
        strengths = kinds[:, : len(STRENGTHS)]
        shares, _ = _em(strengths, total, np.full(len(STRENGTHS), 1 / len(STRENGTHS)), SHRINK_BATCH)
        self._whole = _Shares(kinds, total, total, family)
        self._classes: list[_Shares] = []
        if classes == 1:
            self.prior = LearnedPrior((tuple(shares.tolist()),), edges, (tuple(self._whole.shares.tolist()),))
            return
        voice, tilt = min(1.0, BATCH_VOICE / total.sum()), self._whole.shares / self._whole.smooth
        rows, kind_rows = [], []
        for c in range(classes):
            inside = np.where(np.array(marks) == c, total, 0.0)
            heard = np.where(np.array(marks) == c, total, voice * total)
            rows.append(tuple(_em(strengths, inside, shares, SHRINK_CLASS)[0].tolist()))
            self._classes.append(_Shares(kinds, inside, heard, family, tilt))
            kind_rows.append(tuple(self._classes[c].shares.tolist()))
        self.prior = LearnedPrior(tuple(rows), edges, tuple(kind_rows))

    def without(self, tally: Tally) -> LearnedPrior:
        """The prior that a question with this tally is certified by, if it is one of the batch: the others'."""
        mark = self.prior.mark(tally.mean_tokens) if len(self.prior.kind_shares) > 1 else 0
        state = tally.counts, tally.options, mark
        if (place := self._states.get(state)) is None:
            return self.prior
        if place in self._others:
            return self._others[place]
        shares, smooth = self._whole.without(place)
        if mark == NO_LENGTH:
            return LearnedPrior(self.prior.shares, self.prior.edges, (tuple(shares.tolist()),))
        if self._classes:
            shares, _ = self._classes[mark].without(place, shares / smooth)
        rows = list(self.prior.kind_shares)
        rows[mark] = tuple(shares.tolist())
        self._others[place] = LearnedPrior(self.prior.shares, self.prior.edges, tuple(rows))
        return self._others[place]


class _Shares:
    """The shares of the kinds among some questions, shrunk towards smooth ones that are tilted by a factor."""

    def __init__(self, evidence: Array, many: Array, heard: Array, family: Array, tilt: Array | float = 1.0) -> None:
        self._family, self._many = family, many
        self._likelihoods = _likelihoods(evidence, family)
        self._log_weights = heard @ self._likelihoods
        self.smooth = _mean(self._log_weights, family)
        start = tilt * self.smooth
        self.shares, self._responsibilities = _em(evidence, many, start / start.sum(), SHRINK_KINDS, KIND_STEPS)

    def without(self, place: int, tilt: Array | float = 1.0) -> tuple[Array, Array]:
        """The shares and the smooth ones without one question of a state."""
        smooth = _mean(self._log_weights - self._likelihoods[place], self._family)
        others = self._many @ self._responsibilities - self._responsibilities[place]
        start = tilt * smooth
        shares = np.maximum(others, 0.0) + SHRINK_KINDS * (start / start.sum())
        return shares / shares.sum(), smooth


def smooth_posterior(batch: Mapping[Tally, int]) -> tuple[Array, Array]:
    """How likely each (mu, sigma) is after a batch, shape (G,), and its smooth shares of the kinds, (G, KINDS)."""
    family = _smooth_family(_usual_options(batch))
    evidence, many = [], []
    for tally, questions in batch.items():
        if tally.counts:
            evidence.append(_kind_evidence(tally.counts, tally.options))
            many.append(questions)
    return _weights(np.array(many) @ _likelihoods(np.array(evidence).reshape(-1, KINDS), family)), family


def _likelihoods(evidence: Array, family: Array) -> Array:
    """log P(counts) of every state under each member of a family of shares (G, KINDS), up to a constant; (n, G)."""
    most = evidence.max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(np.log(np.exp(evidence - most) @ family.T + 1e-300))


def _weights(log_likelihoods: Array) -> Array:
    """The posterior of each (mu, sigma) under the hyperprior; shape (G,)."""
    return np.asarray(softmax(log_likelihoods + _LOG_HYPERPRIOR))


def _mean(log_likelihoods: Array, family: Array) -> Array:
    """Shares of the kinds that are normal in their difficulty, averaged over the posterior of (mu, sigma)."""
    shares: Array = np.maximum(_weights(log_likelihoods) @ family, 1e-12)
    shares /= shares.sum()
    return shares


@lru_cache(maxsize=64)
def _smooth_family(options: int | None) -> Array:
    """Shares that are normal in the kinds' difficulty, for every (mu, sigma) of the grid; shape (G, KINDS)."""
    agree = np.minimum(np.exp(_kind_evidence((2,), options)), 1.0 - 1e-12)  # a set of one answer always agrees
    difficulties = np.log((1.0 - agree) / agree)
    base = OPEN_BASE if options is None else CLOSED_BASE
    mu, sigma = np.repeat(MEANS, len(DEVIATIONS))[:, None], np.tile(DEVIATIONS, len(MEANS))[:, None]
    shares: Array = base * np.exp(-0.5 * ((difficulties - mu) / sigma) ** 2) + 1e-300
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _usual_options(batch: Mapping[Tally, int]) -> int | None:
    """The number of options that most questions have; ``None`` where most are open."""
    numbers: Counter[int | None] = Counter()
    for tally, questions in batch.items():
        numbers[tally.options] += questions
    return max(numbers, key=numbers.__getitem__, default=None)


def class_tokens(batch: Mapping[Tally, int], prior: LearnedPrior) -> tuple[float, ...]:
    """Tokens that a trace of each length class takes on average; of an empty class, what the batch takes."""
    seen = [(prior.mark(tally.mean_tokens), tally.mean_tokens, many) for tally, many in batch.items() if tally.returned]
    if not seen:
        return ()
    marks, tokens, many = (np.array(column, dtype=np.float64) for column in zip(*seen, strict=True))
    overall = float(tokens @ many / many.sum())
    classes = [marks == c for c in range(len(prior.edges) + 1)]
    means = [float(tokens[c] @ many[c] / many[c].sum()) if c.any() else overall for c in classes]
    return tuple(max(mean, 1.0) for mean in means)


def _em(evidence: Array, many: Array, start: Array, shrink: float, steps: int = EM_STEPS) -> tuple[Array, Array]:
    """Shares that fit the evidence (n, kinds), shrunk towards ``start`` as by ``shrink`` more questions; and under them
    P(kind | counts) of every state, shape (n, kinds)."""
    shares, pseudo, total = start, shrink * start, many.sum() + shrink
    for step in range(steps + 1):
        weights: Array = evidence + np.log(shares)
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        if step < steps:
            shares = (many @ weights + pseudo) / total
    return shares, weights


def _edges(tokens: Array, many: Array) -> tuple[float, ...]:
    """Cuts into classes of equal size by mean tokens; none where no tokens were recorded."""
    if not tokens.any():
        return ()
    order = np.argsort(tokens, kind="stable")
    share = np.cumsum(many[order]) / many.sum()
    cuts = tokens[order][np.searchsorted(share, np.arange(1, LENGTH_CLASSES) / LENGTH_CLASSES)]
    return tuple(np.unique(cuts).tolist())
