"""Several models in one vote: a launch is one model's, and its trace knows which model gave it and at what price."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from pets.core.mixture import ModelMixture
from pets.core.money import Currency
from pets.errors import SamplerError
from pets.prompts import Completion, Prompt, Sampling, Written
from pets.samplers.base import Sampler


class MixtureSampler(Sampler):
    """One server of one of several models that vote together; it takes the launches of its model alone.

    ``model`` is the model's place among those of ``mixture``, ``name`` what it is called, ``currency`` what its traces
    cost where prices differ. Which model takes a launch depends on nothing but the launch and the attempt
    (:meth:`~pets.core.mixture.ModelMixture.model_at`), so a run that is resumed asks the same model.

    >>> from pets.samplers.function import FunctionSampler
    >>> mixture, server = ModelMixture((2, 1)), FunctionSampler(str)
    >>> a, b = (MixtureSampler(server, mixture, model) for model in (0, 1))
    >>> ["a" if a.takes(launch) else "b" for launch in range(6)]
    ['a', 'b', 'a', 'a', 'b', 'a']
    >>> b.takes(0), b.takes(0, attempt=1), b.takes(0, attempt=2)
    (False, True, False)
    """

    def __init__(
        self, sampler: Sampler, mixture: ModelMixture, model: int, name: str = "", currency: Currency | None = None
    ) -> None:
        self.sampler, self.model, self.name, self.currency = sampler, model, name, currency
        self.source, self.stops = sampler.source, sampler.stops
        self._mixture = mixture

    async def __aenter__(self) -> Self:
        await self.sampler.__aenter__()
        return self

    def takes(self, launch: int, attempt: int = 0) -> bool:
        return self._mixture.model_at(launch, attempt) == self.model

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`; a request in a client's own words names this model."""
        with self._named():
            traces = await self.sampler.sample(self._own(prompt), n, seed, sampling)
        return [replace(trace, model=self.model, currency=self.currency) for trace in traces]

    async def sample_streamed(self, prompt: Prompt, seed: int, sampling: Sampling, written: Written) -> Completion:
        with self._named():
            trace = await self.sampler.sample_streamed(self._own(prompt), seed, sampling, written)
        return replace(trace, model=self.model, currency=self.currency)

    async def requests_running(self) -> int | None:
        return await self.sampler.requests_running()

    def _own(self, prompt: Prompt) -> Prompt:
        return prompt if prompt.body is None else replace(prompt, body={**prompt.body, "model": self.name})

    @contextmanager
    def _named(self) -> Iterator[None]:
        """An error names this model; what the server says of its limits is this sampler's."""
        try:
            yield
        except SamplerError as error:
            error.model = self.model
            raise
        finally:
            self.rate_limits = self.sampler.rate_limits

    async def models(self) -> list[dict[str, Any]]:
        return await self.sampler.models()

    async def max_model_len(self) -> int | None:
        return await self.sampler.max_model_len()

    async def close(self) -> None:
        await self.sampler.close()
