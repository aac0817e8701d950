"""Recorded questions and pools, checked for shape: whatever is in memory can be written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pets.errors import PoolError
from pets.tabular.reading import as_json

RESAMPLE = "Drop the line or sample it again."


@dataclass(frozen=True, slots=True)
class PooledQuestion:
    """One question and its traces in recorded order; ``None`` among the answers is a trace that gave none.

    ``confidence`` is the kind that votes are weighted by, ``confidences`` every kind that was recorded, by name.
    ``texts`` are what traces said, from which answers can be read (anew); a trace that was ``cut`` at its token limit
    gives none. A question that has texts alone has ``None`` for every answer. In a mixture ``models`` says which model
    gave each trace: they took turns, and draws keep the turns.

    >>> PooledQuestion("q1", ("A", None, "A"), gold="A", tokens=(310, 900))
    Traceback (most recent call last):
    pets.errors.PoolError: "tokens" has 2 entries for 3 answers; give one per trace. Correct it or leave "tokens" out.
    """

    id: str
    answers: tuple[str | None, ...]
    gold: str | None = None
    tokens: tuple[int, ...] | None = None
    confidence: tuple[float | None, ...] | None = None
    confidences: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict, hash=False)
    texts: tuple[str | None, ...] | None = None
    cut: tuple[bool, ...] | None = None
    models: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.id or self.gold == "":
            raise PoolError(f'"{"gold" if self.id else "id"}" is an empty string. Fill it in or drop the line.')
        if not self.answers:
            raise PoolError(f'"answers" is empty; every question needs at least one trace. {RESAMPLE}')
        if "" in self.answers:
            at = self.answers.index("")
            raise PoolError(f"answers[{at}] is an empty string; a trace without an answer is null. Write null.")
        kinds = {f"confidences.{kind}": values for kind, values in self.confidences.items()}
        lists = {"tokens": self.tokens, **kinds, "confidence": self.confidence, "texts": self.texts, "cut": self.cut,
                 "models": self.models}  # fmt: skip
        for key, values in lists.items():
            if values is not None and len(values) != len(self.answers):
                mismatch = f'"{key}" has {len(values)} entries for {len(self.answers)} answers'
                raise PoolError(f'{mismatch}; give one per trace. Correct it or leave "{key}" out.')
        for at, count in enumerate(self.tokens or ()):
            if type(count) is not int or not 0 <= count < 2**63:
                raise PoolError(f"tokens[{at}] is {as_json(count)}; tokens are whole numbers, 0 or more. Correct it.")
        for key, values in {**kinds, "confidence": self.confidence}.items():
            for at, value in enumerate(values or ()):
                if value is not None and not (type(value) is float and 0.0 <= value < math.inf):
                    law = "a confidence is finite and not negative, null where there is none"
                    raise PoolError(f"{key}[{at}] is {as_json(value)}; {law}. Correct it.")


@dataclass(frozen=True, slots=True)
class Pool:
    """Recorded questions. ``kind`` is the answer type that the folder's manifest names, if it names one.

    ``skipped`` holds one message for each bad line that was passed over.
    """

    name: str
    questions: tuple[PooledQuestion, ...]
    kind: str | None = None
    skipped: tuple[str, ...] = ()
