"""A cache of traces: what has come back for a prompt and a seed is not sampled twice."""

from itertools import groupby
from types import TracebackType

from pets.prompts import Completion, Prompt, Sampling
from pets.samplers.base import Sampler

__all__ = ["CachedSampler"]


class CachedSampler(Sampler):
    """Another sampler's traces, kept in memory: several policies can be compared on the same draws, each paid once.

    It leaves opening and closing to whoever made the other.
    """

    def __init__(self, other: Sampler) -> None:
        self._other = other
        self._cache: dict[tuple[Prompt, Sampling, int], Completion] = {}
        self.misses = 0
        """How many traces were really sampled."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The other stays open."""

    async def max_model_len(self) -> int | None:
        """The other's."""
        return await self._other.max_model_len()

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`; runs of seeds that are not known yet are asked for together."""
        cache, seeds = self._cache, range(seed, seed + n)
        missing = [own for own in seeds if (prompt, sampling, own) not in cache]
        for _, run in groupby(enumerate(missing), key=lambda pair: pair[1] - pair[0]):
            run_seeds = [own for _, own in run]
            traces = await self._other.sample(prompt, len(run_seeds), run_seeds[0], sampling)
            self.rate_limits = self._other.rate_limits
            self.misses += len(traces)
            cache |= {(prompt, sampling, own): trace for own, trace in zip(run_seeds, traces, strict=False)}
        # Up to the first gap, where fewer came than were asked for: those after it would stand at other seeds.
        gap = next((i for i, own in enumerate(seeds) if (prompt, sampling, own) not in cache), n)
        return [cache[prompt, sampling, own] for own in seeds[:gap]]
