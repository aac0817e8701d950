"""The starter set: short questions that a model of 135 million parameters can try, made here.

Sums and differences of one and two digits, products to 12 and general knowledge with one-word answers, in few-shot
completion form: a chat or a letter-only form is near chance for so small a model. A worked example takes 30 to 40
tokens, so that the four trace confidences differ over windows of 8. The order is fixed and mixes the levels, so that
any first part of the set is a fair sample of it; what was added later stands behind, so that no question's place, and
with it the seeds of its traces, ever moves.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice

import numpy as np

from pets.prompts import Prompt, Sampling
from pets.questions.problem import Problem, QuestionSet

__all__ = ["starter"]

SAMPLING = Sampling(max_tokens=56, temperature=0.7, stop=("\n",), top_logprobs=20, window=8)
SIGNS = {"sum": "+", "difference": "-", "product": "x"}
WORKED_EXAMPLE = {
    "sum": "We work out {a} + {b} = {c}, so together {a} and {b} make {c}.",
    "difference": "We work out {a} - {b} = {c}, so taking {b} from {a} leaves {c}.",
    "product": "We work out {a} x {b} = {c}, so {a} times {b} makes {c} in all.",
}
SHOTS = {
    "sum": ((6, 3), (24, 13), (57, 26)),
    "difference": ((9, 4), (38, 15), (64, 27)),
    "product": ((3, 4), (9, 6), (12, 3)),
}
FACT_EXAMPLE = (
    "{c} is the word that fits here. Anyone who has learned this at school would also say {c}, "
    "and every book agrees on {c}."
)
FACT_SHOTS = (
    ("What is the capital of Italy?", "Rome"),
    ("Which animal says moo?", "cow"),
    ("What is the opposite of up?", "down"),
    ("Which gas do we breathe to stay alive?", "oxygen"),
)
RANGES = {  # level -> the least and the largest operand
    "sum of one digit": (1, 9),
    "sum of two digits": (11, 99),
    "difference of one digit": (1, 9),
    "difference of two digits": (11, 99),
    "product to 12": (2, 12),
}
# the seed of the operands and of the mixed order, how many of each level, how many facts
BATCHES = ((2026, (20, 36, 16, 30, 40), 114), (2027, (3, 6, 3, 5, 5), 22))


@cache
def starter() -> QuestionSet:
    """The starter set: 300 questions and how their traces are drawn.

    >>> problems = starter().problems
    >>> sorted({problem.level for problem in problems})[:2]
    ['difference of one digit', 'difference of two digits']
    """
    used = {kind: set(shots) for kind, shots in SHOTS.items()}
    facts = _knowledge()
    problems: list[Problem] = []
    for seed, counts, fact_count in BATCHES:
        batch = [*_arithmetic(seed, counts, used), *islice(facts, fact_count)]
        problems += (batch[index] for index in np.random.default_rng(seed).permutation(len(batch)))
    return QuestionSet("starter", tuple(problems), SAMPLING)


def _arithmetic(seed: int, counts: Sequence[int], used: dict[str, set[tuple[int, int]]]) -> Iterator[Problem]:
    """``counts`` questions of each level, with operands that are not in ``used`` yet."""
    rng = np.random.default_rng(seed)
    for (level, (low, high)), remaining in zip(RANGES.items(), counts, strict=True):
        kind = level.split()[0]
        while remaining:
            a, b = (int(x) for x in rng.integers(low, high, size=2, endpoint=True))
            if kind == "difference":
                a, b = max(a, b), min(a, b)
            if (a, b) in used[kind]:
                continue
            used[kind].add((a, b))
            remaining -= 1
            prompt = _shots(kind) + _question(f"What is {a} {SIGNS[kind]} {b}?")
            yield Problem(f"{kind}-{a}-{b}", Prompt(prompt), "number", str(_result(kind, a, b)), level)


def _knowledge() -> Iterator[Problem]:
    shots = "".join(_question(question) + _answer(FACT_EXAMPLE, c=gold) for question, gold in FACT_SHOTS)
    for line in files(__package__).joinpath("knowledge.tsv").read_text("utf-8").splitlines():
        id, question, gold = line.split("\t")
        yield Problem(f"fact-{id}", Prompt(shots + _question(question)), "text", gold, "general knowledge")


def _shots(kind: str) -> str:
    return "".join(
        _question(f"What is {a} {SIGNS[kind]} {b}?") + _answer(WORKED_EXAMPLE[kind], a=a, b=b, c=_result(kind, a, b))
        for a, b in SHOTS[kind]
    )


def _result(kind: str, a: int, b: int) -> int:
    return a + b if kind == "sum" else a - b if kind == "difference" else a * b


def _question(question: str) -> str:
    return f"Question: {question}\nAnswer:"


def _answer(form: str, **values: object) -> str:
    return f" {form.format(**values)} The answer is {values['c']}.\n\n"
