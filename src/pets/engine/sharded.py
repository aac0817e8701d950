"""One server through several HTTP clients: a client's bookkeeping grows with the square of what it has in flight."""

from collections.abc import Sequence

from pets.samplers import Completion, Prompt, Sampler, Sampling

__all__ = ["PER_CLIENT", "Sharded"]

PER_CLIENT = 32  # requests in flight; 256 through one client cost several times the processor time


class Sharded(Sampler):
    """Samplers of the same server; a request goes through the one with the least in flight."""

    def __init__(self, samplers: Sequence[Sampler]) -> None:
        self._samplers = list(samplers)
        self._in_flight = [0] * len(self._samplers)

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        # The first of equals, so that few connections are opened where few are needed.
        at = min(range(len(self._samplers)), key=self._in_flight.__getitem__)
        self._in_flight[at] += 1
        try:
            return await self._samplers[at].sample(prompt, n, seed, sampling)
        finally:
            self._in_flight[at] -= 1

    async def close(self) -> None:
        for sampler in self._samplers:
            await sampler.close()
