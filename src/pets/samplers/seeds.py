"""A seed of its own for every trace of a run.

Choice i of a request is drawn with ``seed + i`` by llama.cpp and by vLLM alike, so two requests whose seeds lie closer
than their ``n`` share draws. Here every question owns a block of ``cap`` seeds and its launch i the i-th of them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class Seeds:
    """Seeds of the run ``run``: ``at(question, launch)`` never gives the same seed twice.

    Guaranteed for the first :attr:`questions` questions of a run and ``cap`` launches of each; beyond, it raises. With
    32 bits (all that llama.cpp takes; its 2**32 - 1 means "random" and is never given) that is 1,048,575 questions of
    4,096 launches. ``bits=63`` is for servers that take more, such as vLLM. Blocks are dealt out in an order that
    depends on the run, so that runs differ; two runs may meet in a seed, for different questions.

    >>> seeds = Seeds(run=7)
    >>> seeds.at(3, 5) - seeds.at(3, 0), seeds.questions
    (5, 1048575)
    """

    run: int = 0
    cap: int = 4096
    bits: int = 32
    questions: int = field(init=False, repr=False, compare=False)
    """For how many questions the promise holds."""
    _step: int = field(init=False, repr=False, compare=False)
    _start: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.run < 0 or not 1 <= self.bits <= 63 or not 1 <= self.cap < 2**self.bits:
            raise InputError(f"no seeds for run={self.run}, cap={self.cap}, bits={self.bits}: run >= 0, bits <= 63.")
        object.__setattr__(self, "questions", (2**self.bits - 1) // self.cap)
        draw = np.random.Generator(np.random.PCG64([self.run, self.cap, self.bits]))
        step = int(draw.integers(1, self.questions + 1))
        while math.gcd(step, self.questions) != 1:  # coprime: the walk over the blocks visits each of them once
            step = step % self.questions + 1
        object.__setattr__(self, "_step", step)
        object.__setattr__(self, "_start", int(draw.integers(self.questions)))

    def blocks(self, keys: Mapping[str, str], *, apart: bool = False) -> dict[str, int]:
        """The block of each question by the key of its prompt, whatever stands around it in its file.

        Prompts may meet in a block, which does no harm: their draws differ. ``apart`` gives the later one the next
        block that is free, where seeds tell questions from each other.

        >>> Seeds().blocks({"a": "7f00", "b": "7f00"}, apart=True)
        {'a': 32512, 'b': 32513}
        """
        blocks, taken = {}, set[int]()
        for id, key in keys.items():
            block = int(key, 16) % self.questions
            while apart and block in taken:
                block = (block + 1) % self.questions
            taken.add(block)
            blocks[id] = block
        return blocks

    def at(self, question: int, launch: int) -> int:
        """The seed of a launch; the launches of a question have consecutive ones."""
        if not (0 <= question < self.questions and 0 <= launch < self.cap):
            raise InputError(
                f"question {question}, launch {launch} has no seed of its own: {self.bits}-bit seeds are enough for "
                f"{self.questions:,} questions of {self.cap:,} traces. Lower the cap, or use 63 bits if the server can."
            )
        return (self._start + self._step * question) % self.questions * self.cap + launch
