"""Self-consistency and accuracy against the budget: of a run as it was spent, and of equal shares, estimated.

**The run.** A store does not keep in which order the traces of different questions were launched. A policy with an
index would have bought them in the order of their worth: a trace is launched when the price of a trace has fallen to
the least index that its question has had so far. So the run's own traces are dealt out in that order.

**Equal shares.** They are estimated. The first traces of a question are what uniform would have got
too; beyond them further traces are drawn from theta.

**Which votes are right.** All votes of a question give a posterior of theta under the learned prior. Theta is drawn,
and a vote is compared with argmax theta: for both curves with the same draws. O(draws questions traces).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from pets.core.policy import IndexPolicy, Policy, View
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally, count_votes
from pets.lab.draws import NO_VOTE, Flags, Floats, Indices, running_votes
from pets.report.charts import Series

Z_95 = 1.96  # of a 95 % interval
DRAWS = 24
POINTS = 32  # of the run's curve

Votes = tuple[Flags, Flags]
"""Whether the votes of one question are good, and whether they are right."""
SELF_CONSISTENCY, ACCURACY = "self-consistency", "accuracy"
Curves = dict[str, Series]
"""Self-consistency, and accuracy where gold is known, against mean traces per question."""


@dataclass(frozen=True, slots=True)
class RunQuestion:
    """A question's traces in launch order: the class of each one's answer, and its tokens.

    ``right`` are the classes that are gold, ``None`` where that is not known. ``tally`` is what the run believes of it.
    """

    tally: Tally
    answers: tuple[str | None, ...]
    tokens: tuple[int, ...]
    right: frozenset[str] | None = None

    def after(self, traces: int) -> Tally:
        """The tally of its first traces."""
        counts, nulls = count_votes(self.answers[:traces])
        mean = sum(self.tokens[:traces]) / max(1, traces)
        return Tally(counts, nulls, options=self.tally.options, mean_tokens=mean)

    @property
    def ranks(self) -> dict[str, int] | None:
        """The rank of each class among the tally's counts; ``None`` where votes are soft, and counted otherwise."""
        ranked = Counter(answer for answer in self.answers if answer is not None).most_common()
        if tuple(count for _, count in ranked) != self.tally.counts:
            return None
        return {answer: rank for rank, (answer, _) in enumerate(ranked)}


def budget_curves(
    questions: Sequence[RunQuestion], prior: LearnedPrior, policy: Policy, *, most: int, zone: float = 0.0
) -> tuple[Curves, Curves]:
    """Uniform's curves up to ``most`` traces per question, and the run's own from one trace per question on.

    The run has none where its policy gives traces no order. With a zone, near-ties of theta are good votes too.
    """
    order, sizes = launch_order(questions, policy), np.zeros((0, len(questions)), dtype=np.int64)
    if order is not None and len(order) > len(questions):  # traces of each at points from one per question on, (V, N)
        ends = np.unique(np.geomspace(len(questions), len(order), POINTS).round().astype(int)).tolist()
        sizes = np.array([np.bincount(order[:end], minlength=len(questions)) for end in ends])
    rng = np.random.default_rng(0)
    played = [_play(question, prior, most, zone, sizes[:, index], rng) for index, question in enumerate(questions)]
    judged = [question.right is not None and question.ranks is not None for question in questions]
    uniform = _curves(np.arange(1.0, most + 1), [equal for equal, _ in played], judged)
    traces = sizes.sum(axis=1) / len(questions)
    return uniform, _curves(traces, [spent for _, spent in played], judged) if len(sizes) else {}


def _curves(traces: Floats, rows: Sequence[Votes], judged: Sequence[bool]) -> Curves:
    """Means over questions, with 95 % intervals from their deviation over draws."""
    tables = {SELF_CONSISTENCY: [good for good, _ in rows]}
    if any(judged):
        tables[ACCURACY] = [right for (_, right), known in zip(rows, judged, strict=True) if known]
    curves = {}
    for metric, votes in tables.items():
        shares = np.array(votes).mean(axis=0)  # (draws, V)
        curves[metric] = Series.about("", False, traces, shares.mean(axis=0), Z_95 * shares.std(axis=0))
    return curves


def launch_order(questions: Sequence[RunQuestion], policy: Policy) -> list[int] | None:
    """The indices of the questions, one for each trace, in the order in which the policy would have bought them."""
    if policy.blind:
        worth = [[-float(number) for number in range(len(question.answers))] for question in questions]
    elif isinstance(policy, IndexPolicy) and policy.sees == "counts":
        score = cache(partial(policy.index, view=View()))
        worth = []
        for question in questions:  # for each trace the least index before it; those of the warm-up come first
            row, least = list[float](), np.inf
            for number in range(len(question.answers)):
                if number >= max(1, policy.warmup):
                    seen = question.after(number)
                    mark = policy.belief.mark(seen.mean_tokens) if policy.marks else 0
                    least = min(least, score(replace(seen, mean_tokens=0.0, mark=mark)))
                row.append(least)
            worth.append(row)
    else:
        return None
    traces = [(-value, number, index) for index, row in enumerate(worth) for number, value in enumerate(row)]
    return [index for _, _, index in sorted(traces)]


def _play(
    question: RunQuestion,
    prior: LearnedPrior,
    most: int,
    zone: float,
    sizes: Indices,
    rng: np.random.Generator,
) -> tuple[Votes, Votes]:
    """One question's votes in every draw, (draws, most) and (draws, V) as spent; ``sizes`` are its traces at the points
    of the run."""
    ranks = question.ranks or {}
    gold = [rank for answer, rank in ranks.items() if answer in (question.right or ())]
    known = [NO_VOTE if answer is None else ranks.get(answer, NO_VOTE) for answer in question.answers]
    votes = running_votes(np.array([[*known, NO_VOTE]]))[0, sizes]
    parts = prior.mixture(replace(question.tally, mark=prior.mark(question.tally.mean_tokens)))
    # Of the posterior; the answers seen come first, in the order of their counts.
    alphas = [[*part.alpha, *(a for a, many in part.unseen for _ in range(many))] for part in parts]
    chosen = rng.choice(len(parts), size=DRAWS, p=[part.weight for part in parts]).tolist()
    thetas = [rng.dirichlet(alphas[part]) for part in chosen]
    paths = np.empty((DRAWS, most), dtype=np.int64)
    for answers, theta in zip(paths, thetas, strict=True):
        answers[:] = rng.choice(len(theta), size=most, p=theta / theta.sum())
        answers[rng.random(most) >= question.tally.voting_chance] = NO_VOTE
        if ranks:
            answers[: len(known)] = known[:most]
    leaders = running_votes(paths)[:, 1:]
    good = [(own >= 0) & (theta[own] >= theta.max() - zone) for own, theta in zip(leaders, thetas, strict=True)]
    good_as_spent = [(votes >= 0) & (theta[votes] >= theta.max() - zone) for theta in thetas]
    right_as_spent = np.tile(np.isin(votes, gold), (DRAWS, 1))
    return (np.array(good), np.isin(leaders, gold)), (np.array(good_as_spent), right_as_spent)
