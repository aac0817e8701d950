"""The seam between PETS and a model: a prompt goes in, independent traces come out."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

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

    stops: bool = False
    """Whether its server is known to stop writing a trace whose connection is closed."""

    source: str | None = None
    """What tells its model from any other, such as a file of weights; ``None`` where it does not know."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
