"""A sampler that draws no trace twice: what has come back for a prompt and a seed is given again."""

from itertools import groupby
from types import TracebackType

from pets.samplers.base import Completion, Prompt, Sampler, Sampling

__all__ = ["RememberedSampler"]


class RememberedSampler(Sampler):
    """Another sampler's traces, kept in memory: several policies can be compared on the same draws, each paid once.

    It leaves opening and closing to whoever made the other. ``drawn`` counts the traces that were really sampled.
    """

    def __init__(self, other: Sampler) -> None:
        self._other = other
        self._kept: dict[tuple[Prompt, Sampling, int], Completion] = {}
        self.drawn = 0

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The other stays open."""

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`; runs of seeds that are not known yet are asked for together."""
        kept, wanted = self._kept, range(seed, seed + n)
        missing = [at for at in wanted if (prompt, sampling, at) not in kept]
        for _, run in groupby(enumerate(missing), key=lambda pair: pair[1] - pair[0]):
            places = [at for _, at in run]
            found = await self._other.sample(prompt, len(places), places[0], sampling)
            self.drawn += len(found)
            kept |= {(prompt, sampling, at): trace for at, trace in zip(places, found, strict=False)}
        traces = []
        for at in wanted:
            if (prompt, sampling, at) not in kept:
                break  # fewer than asked: those after the gap would stand at other seeds
            traces.append(kept[prompt, sampling, at])
        return traces
