"""Does a mixture of models vote better than one of them? Recorded answers to the same questions say.

Every *candidate* (a model alone, or some of them with weights) votes on random draws of its traces, by turns as a live
run would take them: ``correct`` is the chance that the vote after k traces is gold, ``tokens`` what they cost.

The best of many candidates is chosen on one half of the questions and scored on the other, both ways round, over many
random halves; so is the single model. The interval is over questions: each resample weighs them Poisson(1) and chooses
anew, its halves disjoint sets of questions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pets.core.mixture import ModelMixture
from pets.errors import InputError
from pets.lab.draws import NO_VOTE, Floats, Indices, coded, running_votes
from pets.lab.labelled import LabelledQuestion, read_answers
from pets.pools import Pool, mix_pools

SIZES = (1, 2, 4, 8, 16, 32, 64)
"""Traces per question at which votes are looked at."""
MAX_MODELS = 3  # of a candidate, but for the mixture of all
SPLITS = 200  # random halves
RESAMPLES = 300  # of the questions
SPLITS_PER_RESAMPLE = 4


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One model, or several with weights; ``correct`` and ``tokens`` (N, K) after each number of traces."""

    name: str
    models: tuple[int, ...]
    weights: tuple[float, ...]
    correct: Floats
    tokens: Floats | None

    @property
    def is_single(self) -> bool:
        """Whether it is one model alone."""
        return len(self.models) == 1


@dataclass(frozen=True, slots=True, eq=False)
class MixtureLab:
    """The candidates of some pools on the questions that all have and whose gold is known; K ``sizes``."""

    name: str
    questions: int
    sizes: tuple[int, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class ChosenModels:
    """The accuracies, at one number of traces, of what was chosen on halves of the questions and scored on the others.

    ``difference`` is that of ``mixture`` and ``single`` with its 95 % interval over questions; ``either`` is the better
    of both on the choosing half. ``favourite`` is the mixture that was chosen most often, ``share`` how often.
    """

    size: int
    single: float
    mixture: float
    either: float
    difference: float
    low: float
    high: float
    single_tokens: float | None
    mixture_tokens: float | None
    favourite: str
    share: float


def mixture_lab(
    pools: Sequence[Pool],
    *,
    answer: str | None = None,
    mixtures: Sequence[Sequence[float]] | None = None,
    sizes: Sequence[int] = SIZES,
    repetitions: int = 30,
    seed: int = 0,
) -> MixtureLab:
    """Every model alone and mixtures of them; ``mixtures`` are weights over all pools, 0 for those that are left out.

    Without any, those of two and three models with equal weights, of two with 2 to 1, and of all.
    """
    joint = read_answers(mix_pools(pools), answer)
    judged = [question for question in joint.questions if question.gold is not None]
    if not judged:
        raise InputError(f'"{joint.name}": no gold answer is known; there is no accuracy to compare.')
    most = min(len(_of_model(question, model)) for question in judged for model in range(len(pools)))
    within = tuple(size for size in sizes if size <= most)
    weights = list(mixtures) if mixtures is not None else list(usual_mixtures(len(pools)))
    alone = [tuple(float(model == own) for model in range(len(pools))) for own in range(len(pools))]
    names = [pool.name.partition(".")[2] or pool.name for pool in pools]
    candidates = []
    for row in [*alone, *weights]:
        models = tuple(model for model, weight in enumerate(row) if weight)
        own, rng = tuple(row[model] for model in models), np.random.default_rng([seed, *models])
        correct, tokens = _measured(judged, models, ModelMixture(own), within, rng, repetitions)
        parts = [names[model] + (f"={w:g}" if len(set(own)) > 1 else "") for model, w in zip(models, own, strict=True)]
        candidates.append(Candidate("+".join(parts), models, own, correct, tokens))
    return MixtureLab(joint.name, len(judged), within, tuple(candidates))


def usual_mixtures(models: int) -> Iterator[tuple[float, ...]]:
    """Weights of the mixtures of that many models that are tried, 0 for models that are left out.

    >>> list(usual_mixtures(2))
    [(1.0, 1.0), (2.0, 1.0), (1.0, 2.0)]
    """
    indices = range(models)
    for size in range(2, min(MAX_MODELS, models) + 1):
        for members in combinations(indices, size):
            yield tuple(float(model in members) for model in indices)
            for double in members if size == 2 else ():
                yield tuple(float((model in members) + (model == double)) for model in indices)
    if models > MAX_MODELS:
        yield (1.0,) * models


def shares_of(weights: Sequence[float]) -> tuple[float, ...]:
    """The weights as shares of 1."""
    return tuple(weight / sum(weights) for weight in weights)


def choose_and_score(lab: MixtureLab, size: int, seed: int = 0) -> ChosenModels:
    """The best single model and the best mixture, chosen on halves of the questions and scored on the others."""
    k = lab.sizes.index(size)
    singles = [candidate for candidate in lab.candidates if candidate.is_single]
    mixtures = [candidate for candidate in lab.candidates if not candidate.is_single]
    if not mixtures:
        raise InputError(f"{lab.name}: there is no mixture to choose; give at least two pools.")
    tables = [np.array([c.correct[:, k] for c in group]) for group in (singles, mixtures, [*singles, *mixtures])]
    rng = np.random.default_rng([seed, size])
    even = np.ones(lab.questions)
    scored = [_both_ways(tables, even, rng) for _ in range(SPLITS)]
    means = np.mean([score for score, _ in scored], axis=0)
    resampled = []
    for _ in range(RESAMPLES):
        weights = rng.poisson(1.0, lab.questions).astype(np.float64)
        several = [_both_ways(tables, weights, rng)[0] for _ in range(SPLITS_PER_RESAMPLE)]
        resampled.append(np.mean(several, axis=0))
    low, high = np.percentile(np.array(resampled) @ np.array([-1.0, 1.0, 0.0]), [2.5, 97.5]).tolist()
    picks = [[pick for _, rows in scored for pick in rows[group]] for group in (0, 1)]
    rows, times = np.unique(picks[1], return_counts=True)
    favourite = mixtures[int(rows[times.argmax()])]
    return ChosenModels(
        size=size,
        single=float(means[0]),
        mixture=float(means[1]),
        either=float(means[2]),
        difference=float(means[1] - means[0]),
        low=low,
        high=high,
        single_tokens=_mean_tokens(singles, picks[0], k),
        mixture_tokens=_mean_tokens(mixtures, picks[1], k),
        favourite=favourite.name,
        share=float(times.max() / times.sum()),
    )


def _both_ways(tables: Sequence[Floats], weights: Floats, rng: np.random.Generator) -> tuple[Floats, list[list[int]]]:
    """Accuracy of what each table's best row on one half has on the other, both halves; and the rows."""
    first = np.zeros(weights.size, dtype=np.bool_)
    first[rng.permutation(weights.size)[: weights.size // 2]] = True
    scores, picks = np.zeros(len(tables)), []
    for index, table in enumerate(tables):
        rows = [int(np.argmax(table[:, half] @ weights[half])) for half in (first, ~first)]
        right = table[rows[0], ~first] @ weights[~first] + table[rows[1], first] @ weights[first]
        scores[index] = right / max(1.0, weights.sum())
        picks.append(rows)
    return scores, picks


def _mean_tokens(group: Sequence[Candidate], picks: Sequence[int], k: int) -> float | None:
    means = [float(candidate.tokens[:, k].mean()) for candidate in group if candidate.tokens is not None]
    return float(np.mean([means[pick] for pick in picks])) if means else None  # all candidates have tokens, or none


def _of_model(question: LabelledQuestion, model: int) -> list[int]:
    return [index for index, own in enumerate(question.models or ()) if own == model]


def _measured(
    questions: Sequence[LabelledQuestion],
    models: Sequence[int],
    mixture: ModelMixture,
    sizes: Sequence[int],
    rng: np.random.Generator,
    repetitions: int,
) -> tuple[Floats, Floats | None]:
    """Mean correctness and tokens (N, K) of the vote after each number of traces, over random draws."""
    N, most = len(questions), max(sizes)
    own = [[np.array(_of_model(question, model)) for model in models] for question in questions]
    turns = [[mixture.model_of(row + n) for n in range(most)] for row in range(N)]
    counted = all(question.tokens is not None for question in questions)
    correct, tokens = np.zeros((N, len(sizes))), np.zeros((N, len(sizes)))
    for _ in range(repetitions):
        paths = [_path([rng.permutation(traces) for traces in own[row]], turns[row]) for row in range(N)]
        labels = [[question.labels[j] for j in path] for question, path in zip(questions, paths, strict=True)]
        codes, ranks = coded(labels)
        votes = running_votes(codes)[:, sizes]
        gold = np.array([names.get(q.gold or "", NO_VOTE - 1) for q, names in zip(questions, ranks, strict=True)])
        correct += votes == gold[:, None]
        if counted:
            spent = [np.cumsum([(q.tokens or ())[j] for j in path]) for q, path in zip(questions, paths, strict=True)]
            tokens += np.array(spent)[:, np.array(sizes) - 1]
    return correct / repetitions, tokens / repetitions if counted else None


def _path(shuffled: Sequence[Indices], turns: Sequence[int]) -> list[int]:
    rest = [iter(traces.tolist()) for traces in shuffled]
    return [next(rest[model]) for model in turns]
