"""The answers that the mock can give: for each question, the traces that a seed can draw.

Everything here is a pure function of (question, seed), so the same seed gives the same trace on every run, machine
and number of clients.
"""

import hashlib
import math
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from pets.errors import InputError
from pets.mock.traces import TraceSpec
from pets.pools import Pool, PooledQuestion

STRETCH_SEEDS = 1 << 16  # seeds in a row that walk through one permutation of a question's recorded traces
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class AnswerSource(ABC):
    """Questions with the traces that can be drawn for each; one whose length is not recorded has about ``tokens``."""

    def __init__(self, questions: Mapping[str, Any], tokens: int, seed: int) -> None:
        if tokens < 1:
            raise InputError(f"a trace has at least 1 token on average; got {tokens}.")
        self._questions, self._tokens, self._seed = questions, tokens, seed

    def ids(self) -> Iterator[str]:
        """Every question, in the order given."""
        return iter(self._questions)

    @abstractmethod
    def draw(self, question: str, seed: int) -> TraceSpec:
        """The trace that this seed stands for."""

    @abstractmethod
    def greedy(self, question: str) -> TraceSpec:
        """The trace at temperature 0: the population's vote."""

    def gold(self, question: str) -> str | None:
        """The right answer, where it is known."""
        return None


class PoolAnswers(AnswerSource):
    """The traces of a recorded pool.

    Seeds that count up walk through a question's traces in a shuffled order, each trace once before any comes again;
    far-off seeds (another stretch of 65,536) walk in another order.

    >>> answers = PoolAnswers(Pool("p", (PooledQuestion("q", ("A", "B", "A", None), tokens=(30, 40, 50, 60)),)))
    >>> sorted(answers.draw("q", seed).tokens for seed in range(7, 11))
    [30, 40, 50, 60]
    >>> answers.greedy("q").answer
    'A'
    """

    def __init__(self, pool: Pool, *, tokens: int = 64, seed: int = 0) -> None:
        super().__init__({question.id: question for question in pool.questions}, tokens, seed)
        self._order = lru_cache(maxsize=4096)(self._shuffled)

    def draw(self, question: str, seed: int) -> TraceSpec:
        """The recorded trace at the seed's place in the walk."""
        order = self._order(question, seed // STRETCH_SEEDS)
        return self._trace(self._questions[question], order[seed % STRETCH_SEEDS % len(order)])

    def greedy(self, question: str) -> TraceSpec:
        """The first trace that gave the leading answer; of tied answers, the one recorded first."""
        pooled = self._questions[question]
        votes = Counter(answer for answer in pooled.answers if answer is not None)
        return self._trace(pooled, pooled.answers.index(votes.most_common(1)[0][0]) if votes else 0)

    def gold(self, question: str) -> str | None:
        gold: str | None = self._questions[question].gold
        return gold

    def _shuffled(self, question: str, stretch: int) -> list[int]:
        order = list(range(len(self._questions[question].answers)))
        random.Random(f"{self._seed} {stretch} {question}").shuffle(order)
        return order

    def _trace(self, question: PooledQuestion, index: int) -> TraceSpec:
        drawn_length = self._tokens * (0.5 + _uniform(question.id, index, 1))
        length = question.tokens[index] if question.tokens else round(drawn_length)
        confidence = question.confidence[index] if question.confidence else None
        return TraceSpec(question.answers[index], max(1, length), confidence, _uniform(question.id, index, 2))


class DistributionAnswers(AnswerSource):
    """Known answer distributions; what they leave of 1 is the chance of no answer. Seeds are independent draws.

    >>> answers = DistributionAnswers({"q": {"yes": 0.75, "no": 0.2}})
    >>> drawn = [answers.draw("q", seed).answer for seed in range(1000)]
    >>> drawn.count("yes"), drawn.count("no"), drawn.count(None)
    (756, 191, 53)
    """

    def __init__(self, answers: Mapping[str, Mapping[str, float]], *, tokens: int = 64, seed: int = 0) -> None:
        if not answers:
            raise InputError("there are no questions; give at least one, with its answers and their probabilities.")
        chances = {question: _check_chances(question, chances) for question, chances in answers.items()}
        super().__init__(chances, tokens, seed)

    def draw(self, question: str, seed: int) -> TraceSpec:
        left = _uniform(question, seed, self._seed)
        for answer, chance in self._questions[question].items():
            left -= chance
            if left < 0:
                return self._trace(question, answer, seed)
        return self._trace(question, None, seed)

    def greedy(self, question: str) -> TraceSpec:
        """The likeliest answer, the first of equals; none where none has any probability."""
        chances = {answer: chance for answer, chance in self._questions[question].items() if chance > 0}
        return self._trace(question, max(chances, key=chances.__getitem__, default=None), 0)

    def _trace(self, question: str, answer: str | None, seed: int) -> TraceSpec:
        length = round(self._tokens * (0.5 + _uniform(question, seed, f"{self._seed} tokens")))
        mood = _uniform(question, seed, f"{self._seed} confidence")
        shares = tuple(self._questions[question].items()) if length <= 1 else ()
        return TraceSpec(answer, max(1, length), None, mood, shares)


def synthetic(
    questions: int, options: int = 4, strength: float = 0.5, *, tokens: int = 64, seed: int = 0
) -> DistributionAnswers:
    """Questions ``q0``, ``q1``, ... whose answers A, B, ... have probabilities from a symmetric Dirichlet.

    ``strength`` is its parameter: near 0 the model is of one mind, at 1 anything goes, above it is torn.

    >>> list(synthetic(2).ids())
    ['q0', 'q1']
    """
    if questions < 1 or not 2 <= options <= len(LETTERS):
        raise InputError(f"give at least 1 question and 2 to 26 options; got {questions} and {options}.")
    if not 1e-3 <= strength <= 1e6:
        raise InputError(f"the strength lies between 0.001 and 1000000; got {strength}.")
    theta = np.random.default_rng(seed).dirichlet([strength] * options, questions)
    chances = {f"q{i}": dict(zip(LETTERS, row, strict=False)) for i, row in enumerate(theta.tolist())}
    return DistributionAnswers(chances, tokens=tokens, seed=seed)


def _check_chances(question: str, chances: Mapping[str, float]) -> dict[str, float]:
    if not question or "" in chances:
        raise InputError(f"question {question!r}: a question and an answer are not empty strings. Fill them in.")
    for answer, chance in chances.items():
        if type(chance) not in (int, float) or not 0 <= chance <= 1:
            raise InputError(f"question {question!r}: the probability of {answer!r} is {chance!r}; give 0 to 1.")
    if (total := math.fsum(chances.values())) > 1 + 1e-6:
        raise InputError(f"question {question!r}: the probabilities add up to {total:g}; give at most 1.")
    return dict(chances)


def _uniform(*key: object) -> float:
    """A number in [0, 1) that depends on the key alone; ``hash()`` would differ from process to process."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53
