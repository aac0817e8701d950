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
from contextvars import Context, copy_context
from dataclasses import dataclass
from itertools import count
from typing import Any

from pets import AnswerType, Completion, InputError, Problem, Prompt, Sampler, Sampling, Voter

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
    """Samples ``module`` under one budget for all calls, and votes on ``field`` of its predictions.

    ``budget`` is "8x" (samples per call on average, over windows of 100 calls) or a number of samples per window;
    ``options`` are those of :class:`pets.Voter`, such as ``policy``, ``max_traces`` and ``horizon``. The prediction is
    the first sample with the winning answer; its ``vote`` is the :class:`pets.Answer`. Language models get a rollout id
    with every sample, so that no cache answers twice.
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
        return asyncio.run_coroutine_threadsafe(self._vote(inputs, copy_context()), loop).result()

    async def aforward(self, **inputs: Any) -> Any:
        """As :meth:`forward`, for a program with an event loop."""
        _, _, loop = self._started()
        voted = asyncio.run_coroutine_threadsafe(self._vote(inputs, copy_context()), loop)
        return await asyncio.wrap_future(voted)

    async def _vote(self, inputs: dict[str, Any], context: Context) -> Any:
        """The prediction with the winning answer, its samples drawn under the settings of the caller's context."""
        voter, sampler, _ = self._started()
        rollouts, predictions = count(1), dict[str, Any]()  # of each answer the first

        def draw() -> str:
            """The answer of one more prediction; threads draw beside each other."""
            with self._lock:
                rollout, own = next(rollouts), context.copy()
            prediction = own.run(self._sample, inputs, rollout)
            text = str(getattr(prediction, self.field))
            predictions.setdefault(text, prediction)
            return text

        id = f"call {next(self._numbers)}"
        sampler.draws[id] = draw
        try:
            answer = await voter.ask(Problem(id, Prompt(id)))
        finally:
            del sampler.draws[id]
        # As most of them wrote it; any, where no answer could be read.
        prediction = predictions.get(answer.text or "", next(iter(predictions.values())))
        prediction.vote = answer
        return prediction

    def _sample(self, inputs: dict[str, Any], rollout: int) -> Any:
        """As ``dspy.BestOfN`` samples: a copy of the module, its language model with a rollout of its own."""
        lm, module = self.module.get_lm() or dspy.settings.lm, self.module.deepcopy()
        module.set_lm(lm.copy(rollout_id=rollout, temperature=lm.kwargs.get("temperature") or 1.0))
        return module(**inputs)

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


class _ModuleSampler(Sampler):
    """Runs the module once for every trace, in threads; ``draws`` are the calls under way, by id."""

    def __init__(self) -> None:
        self.draws: dict[str, Callable[[], str]] = {}
        self._threads = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="pets-dspy")

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`; what the module raises ends the call."""
        draw, loop = self.draws[str(prompt.content)], asyncio.get_running_loop()
        draws: list[Awaitable[str]] = [loop.run_in_executor(self._threads, draw) for _ in range(n)]
        return [Completion(text, "stop", None) for text in await asyncio.gather(*draws)]
