"""Fitting a plan to a training pool of recorded answers."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence

from pets._version import __version__
from pets.core.grid import fit_grid, plan_for
from pets.core.patterns import K0, PATTERNS
from pets.core.policy import Training
from pets.core.price import PriceTable
from pets.core.prior import LearnedPrior, fit_prior
from pets.core.tally import Tally, count_votes
from pets.errors import InputError
from pets.lab.labelled import LabelledPool, read_answers
from pets.plans.plan import Provenance, StreamPlan
from pets.policies.price import Price
from pets.pools import Pool

__all__ = ["fit_plan"]

MAX_TRACES = 64  # of a question


def fit_plan(
    pool: Pool | LabelledPool,
    mean_budget: float,
    rounds: int = 3,
    *,
    cap: int = MAX_TRACES,
    zone: float = 0.0,
    answer: str | None = None,
    seed: int = 0,
) -> StreamPlan:
    """The plan for a stream of questions like those of ``pool``; no gold is needed.

    ``zone`` is the lead, as a share of all traces, that a rival needs to matter: the prices are fitted with it.
    ``answer`` is how the recorded answers are read: by default the pool's own kind, else as recorded. ``seed`` is of
    the orders in which recorded traces are played for the price table.

    >>> from pets.pools import PooledQuestion
    >>> pool = Pool("toy", (PooledQuestion("q1", ("A",) * 16), PooledQuestion("q2", ("A", "B", "B", "C") * 4)))
    >>> plan = fit_plan(pool, mean_budget=10, rounds=1)
    >>> [round(share, 2) for share in plan.grid.shares], plan.budget_of(0) < plan.budget_of(3)
    ([0.52, 0.15, 0.1, 0.23, 0.0], True)
    """
    read = pool if isinstance(pool, LabelledPool) else read_answers(pool, answer)
    if rounds < 0 or seed < 0:
        raise InputError(f"rounds and seed are 0 or more; got {rounds} and {seed}.")
    if not K0 <= mean_budget <= cap:
        raise InputError(
            f"a mean budget of {mean_budget:g} traces cannot be planned: the warm-up takes {K0} of each question, and "
            f"the cap is {cap}. Choose one between them, or raise the cap."
        )
    if read.shortest < K0:
        raise InputError(
            f'pool "{read.name}" has a question of {read.shortest} traces; a plan needs {K0} or more of each. '
            "Sample more or drop it."
        )
    grid = fit_grid([count_votes(question.labels) for question in read.questions], len(PATTERNS))
    rule = Price(rounds=rounds, zone=zone)
    if rounds == 1:
        prices, prior = None, _prior(read)
    else:
        labels = [question.labels for question in read.questions]
        rule = rule.fit(Training(labels, _tokens(read), read.options, seed=seed))
        prices, prior = PriceTable.from_rows(rule.table or ()), rule.belief
    budgets = plan_for(grid, mean_budget, K0, cap)
    return StreamPlan(float(mean_budget), rounds, cap, grid, budgets, prices, prior, _provenance(read, seed), zone)


def _prior(read: LabelledPool) -> LearnedPrior:
    """How strongly the model agrees with itself, for certificates where no price needs it."""
    tokens = _tokens(read)
    means = [0.0 if tokens is None else sum(tokens[q]) / len(tokens[q]) for q in range(len(read.questions))]
    tallies = (
        Tally(*count_votes(question.labels), options=read.options, mean_tokens=mean)
        for question, mean in zip(read.questions, means, strict=True)
    )
    return fit_prior(Counter(tallies))


def _tokens(read: LabelledPool) -> Sequence[Sequence[int]] | None:
    """The tokens of every trace; none unless every question has them."""
    recorded = [question.tokens for question in read.questions if question.tokens is not None]
    return recorded if len(recorded) == len(read.questions) else None


def _provenance(read: LabelledPool, seed: int) -> Provenance:
    content = json.dumps([[question.id, question.labels] for question in read.questions]).encode()
    return Provenance(
        pool=read.name,
        questions=len(read.questions),
        traces=sum(len(question.labels) for question in read.questions),
        answer=read.answer,
        options=read.options,
        digest="sha256:" + hashlib.sha256(content).hexdigest()[:16],
        pets=__version__,
        seed=seed,
    )
