"""A DSPy module that samples any other under a budget and answers by vote.

    vote = Vote(dspy.ChainOfThought("question -> answer"), field="answer", budget="8x")
    vote(question="What is 17 x 23?").answer
    dspy.Evaluate(devset=devset, metric=metric, num_threads=16)(vote)

All calls of one module share its budget: a question gets more samples where its answers disagree, and 8 on average.
Answers vote together as in ``dspy.majority``, by its own normalization.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from itertools import count
from typing import Any

from pets import Answer, AnswerType, Completion, InputError, Problem, Prompt, Sampler, Sampling, Voter

try:
    import dspy
    from dspy.predict.aggregation import default_normalize
except ModuleNotFoundError:
    raise InputError('dspy is not installed. Try: pip install "pets-llm[dspy]"') from None

IN_FLIGHT = 64  # samples, where nobody says


@dataclass(frozen=True, slots=True)
class Normalized(AnswerType):
    """Answers that ``dspy.majority`` holds for the same: its normalization, or the caller's."""

    normalize: Callable[[str], str | None] = default_normalize

    def canonical(self, answer: str) -> str | None:
        """The answer as it is compared; ``None`` where nothing is left of it."""
        return self.normalize(answer) or None

    def extract(self, text: str) -> str | None:
        """As :meth:`canonical`: a field is the answer alone."""
        return self.canonical(text)


class Vote(dspy.Module):  # type: ignore[misc]
    """Samples ``module`` under one budget for all calls; ``field`` of its predictions is what is voted on.

    ``budget`` is "8x" (samples per call on average, over windows of 100 calls) or a number of samples per window;
    ``options`` are those of :class:`pets.Voter`, such as ``policy``, ``max_traces`` and ``horizon``. The prediction is
    the first sample with the winning answer; its ``vote`` is the :class:`pets.Answer` with votes and certificate.
    Language models get a rollout id with every sample, so that no cache answers twice.
    """

    def __init__(
        self,
        module: Any,
        field: str = "answer",
        budget: str | int = "8x",
        *,
        normalize: Callable[[str], str | None] = default_normalize,
        **options: Any,
    ) -> None:
        super().__init__()
        self.module, self.field = module, field
        self._settings = {"concurrency": IN_FLIGHT, **options, "budget": str(budget), "answer": Normalized(normalize)}
        self._lock, self._numbers = threading.Lock(), count()
        self._running: tuple[Voter, _ModuleSampler, asyncio.AbstractEventLoop] | None = None

    @property
    def budget(self) -> Any:
        """What all calls may spend together, and have spent: a :class:`pets.Budget`."""
        return self._started()[0].budget

    def forward(self, **inputs: Any) -> Any:
        """The prediction with the winning answer."""
        _, _, loop = self._started()
        return asyncio.run_coroutine_threadsafe(self._vote(self._sampled(inputs)), loop).result()

    async def aforward(self, **inputs: Any) -> Any:
        """As :meth:`forward`, for a program with an event loop."""
        _, _, loop = self._started()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._vote(self._sampled(inputs)), loop))

    def _sampled(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """One sample of these inputs, under the settings of the caller's context."""
        context, rollouts, lock = copy_context(), count(1), threading.Lock()

        def sample() -> Any:
            with lock:
                rollout, own = next(rollouts), context.copy()
            return own.run(self._sample, inputs, rollout)

        return sample

    def _sample(self, inputs: dict[str, Any], rollout: int) -> Any:
        """As ``dspy.BestOfN`` samples: a copy of the module, its language model with a rollout of its own."""
        lm, module = self.module.get_lm() or dspy.settings.lm, self.module.deepcopy()
        module.set_lm(lm.copy(rollout_id=rollout, temperature=lm.kwargs.get("temperature") or 1.0))
        return module(**inputs)

    async def _vote(self, sample: Callable[[], Any]) -> Any:
        voter, sampler, _ = self._started()
        id = f"call {next(self._numbers)}"
        samples = sampler.samples[id] = _Samples(sample, self.field)
        try:
            answer = await voter.ask(Problem(id, Prompt(id)))
        finally:
            del sampler.samples[id]
        prediction = samples.by_answer(answer)
        prediction.vote = answer
        return prediction

    def _started(self) -> tuple[Voter, "_ModuleSampler", asyncio.AbstractEventLoop]:
        """The voter, in an event loop of its own thread: calls come from many."""
        with self._lock:
            if self._running is None:
                sampler, loop = _ModuleSampler(), asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="pets-vote", daemon=True).start()
                voter = asyncio.run_coroutine_threadsafe(_made(sampler, self._settings), loop).result()
                self._running = voter, sampler, loop
            return self._running


async def _made(sampler: Sampler, settings: dict[str, Any]) -> Voter:
    return await Voter(sampler=sampler, **settings).__aenter__()


class _Samples:
    """The predictions of one call."""

    def __init__(self, sample: Callable[[], Any], field: str) -> None:
        self._sample, self._field = sample, field
        self._predictions: dict[str, Any] = {}

    def draw(self) -> str:
        """The answer of one more prediction."""
        prediction = self._sample()
        text = str(getattr(prediction, self._field))
        self._predictions.setdefault(text, prediction)
        return text

    def by_answer(self, answer: Answer) -> Any:
        """A prediction with the winning answer, as most of them wrote it; any, where no answer could be read."""
        return self._predictions.get(answer.text or "", next(iter(self._predictions.values())))


class _ModuleSampler(Sampler):
    """Runs the module once for every trace, in threads; ``samples`` are the calls under way, by id."""

    def __init__(self) -> None:
        self.samples: dict[str, _Samples] = {}
        self._threads = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="pets-dspy")

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`; what the module raises ends the call."""
        draw, loop = self.samples[str(prompt.content)].draw, asyncio.get_running_loop()
        draws: list[Awaitable[str]] = [loop.run_in_executor(self._threads, draw) for _ in range(n)]
        return [Completion(text, "stop", None) for text in await asyncio.gather(*draws)]
