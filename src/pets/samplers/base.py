"""The seam between PETS and a model: a prompt goes in, independent traces come out, each with a seed of its own.

Choice i of a request is drawn with ``seed + i`` by llama.cpp and by vLLM alike, so two requests whose seeds lie closer
than their ``n`` share draws. Here every question owns a block of ``cap`` seeds and its launch i the i-th of them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from pets.core.money import Currency
from pets.errors import InputError
from pets.openai.headers import RateLimits
from pets.prompts import Completion, Prompt, Sampling, Written


class Sampler(ABC):
    """A source of traces; use it as ``async with sampler:``.

    The law of :meth:`sample`: trace i is drawn with ``seed + i``, independently of all others, from the model's
    distribution as ``sampling`` says; the list is in that order. It holds ``n`` traces, or fewer where the server
    gave fewer: never more, never none; that raises a ``SamplerError``, and so does everything that goes wrong.
    Nothing is tried twice. Calls may overlap.
    """

    rate_limits: RateLimits | None = None
    """What the server last said of its rate limits; ``None`` where it says nothing."""

    name: str = ""
    """What its model is called among several; empty where there is one."""

    model: int = 0
    """The place of its model among several."""

    currency: Currency | None = None
    """What its traces cost, where prices of several models differ."""

    stops: bool = False
    """Whether its server is known to stop writing a trace whose connection is closed."""

    source: str | None = None
    """What tells its model from any other, such as a file of weights; ``None`` where it does not know."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def takes(self, launch: int, attempt: int = 0) -> bool:
        """Whether it is asked for a launch, after ``attempt`` other models would not take it; one model takes all."""
        return attempt == 0

    @abstractmethod
    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """``n`` traces of one prompt, or fewer."""

    async def sample_streamed(self, prompt: Prompt, seed: int, sampling: Sampling, written: Written) -> Completion:
        """One trace, as :meth:`sample`; where the server streams, ``written`` says on the way how much of it there is.

        Cancelled, it closes the connection.
        """
        return (await self.sample(prompt, 1, seed, sampling))[0]

    async def requests_running(self) -> int | None:
        """How many requests the server is at work on, by its own counters; ``None`` where it does not tell."""
        return None

    async def models(self) -> list[dict[str, Any]]:
        """The server's models, as it lists them; none where there is no such list."""
        return []

    async def max_model_len(self) -> int | None:
        """The most tokens of prompt and trace together, by the server's own word; ``None`` where it does not say."""
        return None

    async def close(self) -> None:  # noqa: B027 (most samplers hold nothing)
        """Give back what the sampler holds; twice does no harm."""


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
