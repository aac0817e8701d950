"""Pools of several models on the same questions as one pool of their mixture.

The traces of a question stand in the order in which a live mixture would launch them (:mod:`pets.core.mixture`), the
sequence beginning at the question's place in the pool; each model's come in their recorded order. As many are taken as
the model allows whose traces run out first, so that every question holds the shares that the weights say.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from pets.core.mixture import ModelMixture
from pets.errors import InputError, PoolError
from pets.pools.question import Pool, PooledQuestion

WEIGHT = re.compile(r"(.+)=(\d+(?:\.\d+)?)")


def split_mixture(text: str) -> list[tuple[str, float]]:
    """The files of ``a.jsonl=2+b.jsonl`` and their weights; a file that has this very name is itself.

    >>> split_mixture("a.jsonl=2+b.jsonl"), split_mixture("a.jsonl")
    ([('a.jsonl', 2.0), ('b.jsonl', 1.0)], [('a.jsonl', 1.0)])
    """
    if "+" not in text or Path(text).exists():
        return [(text, 1.0)]
    files = []
    for part in text.split("+"):
        weighted = WEIGHT.fullmatch(part)
        files.append((weighted[1], float(weighted[2])) if weighted else (part, 1.0))
    if len({name for name, _ in files}) < len(files) or not all(name for name, _ in files):
        raise InputError(f'"{text}" mixes a pool with itself, or with nothing; name each once: a.jsonl=2+b.jsonl.')
    return files


def mix_pools(pools: Sequence[Pool], weights: Sequence[float] = ()) -> Pool:
    """One pool of the questions that all pools have, their traces by turns; weights are equal if none are given.

    Its name is the data set's, then the models with their weights: ``gpqa.a=2+b=1``.

    >>> ask = lambda model, *answers: Pool(f"set.{model}", (PooledQuestion("q", answers, "A"),))
    >>> mixed = mix_pools([ask("one", "A", "B"), ask("two", "C", "D", "E")])
    >>> mixed.name, mixed.questions[0].answers, mixed.questions[0].models
    ('set.one+two', ('A', 'C', 'B', 'D'), (0, 1, 0, 1))
    """
    mixture = ModelMixture(tuple(weights) or (1,) * len(pools))
    dataset = f"{pools[0].name.partition('.')[0]}."
    names = [pools[0].name, *(pool.name.removeprefix(dataset) for pool in pools[1:])]
    shares = ["" if len(set(mixture.weights)) == 1 else f"={weight:g}" for weight in mixture.weights]
    name = "+".join(map("".join, zip(names, shares, strict=True)))
    kinds = sorted({str(pool.kind) for pool in pools})
    if len(kinds) > 1:
        raise PoolError(f"{name}: the pools have answers of different kinds ({', '.join(kinds)}).")
    by_id = [{question.id: question for question in pool.questions} for pool in pools]
    shared = [q.id for q in pools[0].questions if all(q.id in own for own in by_id)]
    if not shared:
        raise PoolError(f"{name}: the pools share no question; a mixture needs the same ids.")
    questions = tuple(_mixed([own[id] for own in by_id], mixture, index) for index, id in enumerate(shared))
    return Pool(name, questions, pools[0].kind, sum((pool.skipped for pool in pools), ()))


def _mixed(own: Sequence[PooledQuestion], mixture: ModelMixture, index: int) -> PooledQuestion:
    first = own[0]
    golds = sorted({question.gold for question in own if question.gold is not None})
    if len(golds) > 1:
        told = f"question {first.id!r} has the gold answers {', '.join(golds)}"
        raise PoolError(f"{told}: the pools did not ask the same question.")
    turns = list[int]()
    for model in map(mixture.model_of, count(index)):
        if turns.count(model) == len(own[model].answers):
            break
        turns.append(model)
    if not turns:
        raise PoolError(f"question {first.id!r} has no trace of the model whose turn comes first.")
    kinds = set.intersection(*(set(question.confidences) for question in own))
    names = ("answers", "tokens", "confidence", "texts", "cut")
    columns = {name: _by_turns([getattr(question, name) for question in own], turns) for name in names}
    confidences = {kind: _by_turns([question.confidences[kind] for question in own], turns) for kind in kinds}
    return replace(first, gold=golds[0] if golds else None, **columns, confidences=confidences, models=tuple(turns))


def _by_turns(columns: Sequence[Sequence[Any] | None], turns: Sequence[int]) -> Any:
    """The values of the traces in the order of the turns; ``None`` where a model has none recorded."""
    rest = [iter(column) for column in columns if column is not None]
    return tuple(next(rest[model]) for model in turns) if len(rest) == len(columns) else None
