"""Recorded traces as a sampler: what a pool holds, drawn again by seed."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from pets.errors import RefusedError
from pets.prompts import Completion, Prompt, Sampling
from pets.samplers.base import Sampler


class RecordedSampler(Sampler):
    """Answers from recorded ``traces``: consecutive seeds give consecutive ones of an order that ``shuffle`` decides.

    Of t recorded traces any t consecutive seeds give each once, so that draws are without replacement until all were
    seen. ``sampling`` has been decided when they were recorded.

    >>> sampler = RecordedSampler({Prompt("2 + 2 ="): [Completion("4", "stop", 1), Completion("5", "stop", 1)]})
    >>> traces = asyncio.run(sampler.sample(Prompt("2 + 2 ="), n=4, seed=7, sampling=Sampling()))
    >>> sorted(trace.text for trace in traces)
    ['4', '4', '5', '5']
    """

    def __init__(self, traces: Mapping[Prompt, Sequence[Completion]], shuffle: int = 0) -> None:
        rng = np.random.default_rng(shuffle)
        self._traces = {prompt: [own[i] for i in rng.permutation(len(own))] for prompt, own in traces.items()}

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`."""
        await asyncio.sleep(0)  # as any other sampler, it lets others go on
        traces = self._traces.get(prompt)
        if not traces:
            raise RefusedError("nothing was recorded for this prompt.")
        return [traces[own % len(traces)] for own in range(seed, seed + n)]
