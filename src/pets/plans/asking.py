"""A model asked live: tried again while that may help, its texts read as votes."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pets.engine.dispatch import FATAL, LONGEST_WAIT, MOST_CHOICES, name_of, prompt_of
from pets.engine.endpoints import Endpoint, Fleet, unreachable
from pets.engine.reading import Reader, options_of
from pets.errors import BusyError, RefusedError, ReplyError, SamplerError
from pets.plans.traces import Drawn
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler, Sampling, Seeds

__all__ = ["SampledTraces"]

CAP = 4096  # seeds of a question


class SampledTraces:
    """Traces of one or several servers of a model, or of a local one; whoever made the samplers opens and closes them.

    ``answer`` and ``system`` replace what questions say; ``options`` is the number of possible answers by answer type,
    for questions that do not say. A trace is given up after ``tries``, the second of which waits about ``backoff``
    seconds, every further one twice as long.
    """

    def __init__(
        self,
        samplers: Sequence[Sampler],
        sampling: Sampling,
        *,
        answer: str | None = None,
        system: str | None = None,
        options: Mapping[str, int | None] | None = None,
        tries: int = 6,
        backoff: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.fleet, self.sampling = Fleet(samplers, MOST_CHOICES), sampling
        self.answer, self.system, self.options = answer, system, options or {}
        self.tries, self.backoff = tries, backoff
        self.faults = Counter[str]()
        self._seeds = Seeds(seed, cap=CAP)
        self._random = random.Random(seed)

    def open(self, problem: Problem, place: int) -> "_Sampled":
        """As :meth:`~pets.plans.traces.Source.open`."""
        return _Sampled(self, problem, place)

    async def sample(self, prompt: Prompt, place: int, first: int, n: int) -> list[Completion | SamplerError]:
        """``n`` traces in order, at most so many requests as it takes; a wrong key or model raises."""
        most = self.fleet.most
        async with asyncio.TaskGroup() as group:
            parts = [
                group.create_task(self._part(prompt, place, first + at, min(most, n - at))) for at in range(0, n, most)
            ]
        return [one for part in parts for one in part.result()]

    async def _part(self, prompt: Prompt, place: int, first: int, n: int) -> list[Completion | SamplerError]:
        found: list[Completion | SamplerError] = []
        failures, last = 0, None
        while len(found) < n:
            endpoint = await self.fleet.pick(last)
            many = min(n - len(found), endpoint.most)
            seed = self._seeds.at(place % self._seeds.questions, first + len(found))
            outcome = await self._once(endpoint, prompt, many, seed)
            if not isinstance(outcome, SamplerError):
                found += outcome
                failures, last = 0, None
            elif isinstance(outcome, RefusedError):
                found += self._refused(endpoint, outcome, many)
            else:
                failures, last = failures + 1, endpoint
                if failures >= self.tries:
                    found += self._given_up(outcome, n - len(found))
                else:
                    await asyncio.sleep(self._wait(failures, outcome))
        return found

    async def _once(self, endpoint: Endpoint, prompt: Prompt, many: int, seed: int) -> list[Completion] | SamplerError:
        """One request: what came, or what went wrong in a way that may pass or concerns this request alone."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        endpoint.in_flight += many
        try:
            came = await endpoint.sampler.sample(prompt, many, seed, self.sampling)
        except (RefusedError, BusyError, ReplyError) as error:
            self.faults[name_of(error)] += 1
            if not isinstance(error, RefusedError):
                endpoint.failed(clock(), unreachable(error))
            return error
        finally:
            endpoint.in_flight -= many
        endpoint.came(many, len(came), clock() - begun)
        return [came[0], *(replace(one, prompt_tokens=0) for one in came[1:])]  # a prompt is read once for all choices

    def _refused(self, endpoint: Endpoint, error: RefusedError, many: int) -> list[SamplerError]:
        """Fewer at a time, where several were asked for; else this question's own fault."""
        endpoint.answered = True
        if error.status in FATAL:
            raise error
        if many > 1:
            endpoint.most = -(-many // 2)
            return []
        return [error]

    def _given_up(self, error: SamplerError, many: int) -> list[SamplerError]:
        """The rest of a request that failed too often; where nobody ever answered, the address is wrong."""
        if self.fleet.never_answered:
            raise error
        return [error] * many

    def _wait(self, failures: int, error: SamplerError) -> float:
        """Seconds until the next try: doubling, with jitter, and never before the server's own word."""
        jitter = 0.5 + self._random.random()
        wait = min(LONGEST_WAIT, self.backoff * 2.0 ** (failures - 1)) * jitter
        return max(wait, (error.retry_after or 0.0) * (1.0 + 0.1 * jitter))


class _Sampled:
    """One open question; its reader ends with it."""

    def __init__(self, source: SampledTraces, problem: Problem, place: int) -> None:
        self._source, self._place = source, place
        self._prompt = prompt_of(problem, source.system)
        self._reader = Reader([problem], source.answer)
        spec = source.answer or problem.answer
        self._options = options_of(problem, spec) or source.options.get(spec)

    @property
    def options(self) -> int | None:
        return self._options

    async def draw(self, first: int, n: int) -> list[Drawn]:
        found = await self._source.sample(self._prompt, self._place, first, n)
        came = [one for one in found if isinstance(one, Completion)]
        read = iter(await self._reader.read(0, came))
        return [_drawn(one, *next(read)) if isinstance(one, Completion) else Drawn(error=str(one)) for one in found]

    def names(self, forms: Iterable[str]) -> Mapping[str, str]:
        return self._reader.names(0, forms)

    def close(self) -> None:
        self._reader.close()


def _drawn(one: Completion, form: str | None, label: str | None) -> Drawn:
    return Drawn(form, label, one.text, one.tokens or 0, one.prompt_tokens or 0)
