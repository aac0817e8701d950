"""Models in Ray actors: each holds a sampler where it runs, and finished, compact traces travel (``pets-llm[ray]``).

An actor that is lost with its node or process is started again by Ray, where there is room. What it was asked has cost
nobody anything: it counts as never sent, so that its reservation is given back and another actor is asked.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from pets._version import __version__
from pets.cluster import RayCluster, first_line
from pets.errors import InputError, LocalModelError, PetsError, UnreachableError
from pets.prompts import Completion, Prompt, Sampling
from pets.samplers.base import Sampler

PLACEMENT_TIMEOUT_S = 60.0  # until an actor has a process; the model is loaded after that
MAX_CALLS = 1000  # of one actor at a time: the model's own queue decides


@dataclass(frozen=True, slots=True)
class ActorSize:
    """The cores and graphics cards that each actor takes."""

    cpus: int
    gpus: int = 0

    @classmethod
    def fitting(cls, cluster: RayCluster, cpus: int | None, gpus: int) -> Self:
        """As many cores as asked for; else all of the smallest node's, or one core where graphics cards are taken."""
        if cpus is None:
            cores = [int(node["CPU"]) for node in cluster.nodes if node.get("CPU", 0) >= 1]
            cpus = 1 if gpus else min(cores, default=1)
        return cls(cpus, gpus)

    def count(self, cluster: RayCluster) -> int:
        """How many such actors the cluster's nodes have room for."""
        wanted = {name: amount for name, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}
        return sum(int(min(node.get(name, 0) // amount for name, amount in wanted.items())) for node in cluster.nodes)

    def __str__(self) -> str:
        amounts = ((self.cpus, "CPU"), (self.gpus, "GPU"))
        parts = [f"{amount} {name}{'s' * (amount > 1)}" for amount, name in amounts if amount]
        return " and ".join(parts)


class SamplerActor:
    """The actor: makes a sampler with ``make`` when it is first needed, and serves it.

    Log-probabilities stay here: confidences are computed, alternatives are left out unless ``alternatives``. Errors of
    the sampler are returned, not raised. A model that dies ends the actor, so that Ray starts another.
    """

    def __init__(self, make: Callable[[], Sampler], alternatives: bool = False) -> None:
        self._make, self._alternatives = make, alternatives
        self._sampler: Sampler | None = None
        self._starting = asyncio.Lock()

    async def version(self) -> str:
        """The version of pets on this node, as soon as the actor has a process."""
        return __version__

    async def start(self) -> int | PetsError | None:
        """Load the model; the most tokens that it holds, or why it cannot be loaded."""
        try:
            return await (await self._running()).max_model_len()
        except PetsError as error:
            return error

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion] | PetsError:
        try:
            traces = await (await self._running()).sample(prompt, n, seed, sampling)
        except LocalModelError:
            os._exit(1)  # as a crash: an actor that ends in order is not started again
        except PetsError as error:
            return error
        if self._alternatives:
            return traces
        return [replace(trace, raw=None, alternatives=()) for trace in traces]

    async def _running(self) -> Sampler:
        async with self._starting:
            if self._sampler is None:
                self._sampler = await self._make().__aenter__()
            return self._sampler


class RaySampler(Sampler):
    """Traces of the model in one actor; ``source`` names the model."""

    def __init__(self, cluster: RayCluster, actor: Any, source: str) -> None:
        self.source = source
        self._ray, self._actor = cluster.ray, actor
        self._started = actor.start.remote()  # all actors load at the same time

    async def __aenter__(self) -> Self:
        await self.max_model_len()
        return self

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        traces: list[Completion] = await self._result(self._actor.sample.remote(prompt, n, seed, sampling))
        return traces

    async def max_model_len(self) -> int | None:
        """As :meth:`Sampler.max_model_len`; waits until the model is loaded."""
        length: int | None = None
        with suppress(UnreachableError):  # lost while it loaded; others may be well
            length = await self._result(self._started)
        return length

    async def close(self) -> None:
        """End the actor and its model."""
        self._ray.kill(self._actor)

    async def _result(self, reference: Any) -> Any:
        """What an actor returns; one that is lost has sampled nothing that anybody pays for."""
        try:
            result = await reference
        except self._ray.exceptions.RayActorError as error:
            raise UnreachableError(f"a Ray actor was lost: {first_line(error)}") from None
        except self._ray.exceptions.RayError as error:
            raise LocalModelError(f"a Ray actor failed: {first_line(error)}") from None
        if isinstance(result, PetsError):
            raise result
        return result


def start_actors(
    cluster: RayCluster,
    make: Callable[[], Sampler],
    size: ActorSize,
    count: int | None = None,
    *,
    source: str,
    alternatives: bool = False,
) -> list[RaySampler]:
    """A sampler for each of ``count`` actors, as many as there is room for if not given; ``make`` runs in the actor."""
    ray, room = cluster.ray, size.count(cluster)
    count = room if count is None else count
    if not room or count > room:
        raise InputError(f"the Ray cluster has room for {room} actors of {size} each; wanted: {count or 1}.")
    actor_class = ray.remote(SamplerActor).options(
        num_cpus=size.cpus,
        num_gpus=size.gpus,
        max_restarts=-1,
        max_task_retries=0,  # the fetcher asks another actor, and the ledger knows
        max_concurrency=MAX_CALLS,
        scheduling_strategy="SPREAD",
    )
    actors = [actor_class.remote(make, alternatives) for _ in range(count)]
    versions = {actor.version.remote(): actor for actor in actors}
    placed, late = ray.wait(list(versions), num_returns=count, timeout=PLACEMENT_TIMEOUT_S)
    for reference in late:  # others have the room
        ray.kill(versions[reference])
    if not placed:
        raise InputError(f"no Ray actor had a place within {PLACEMENT_TIMEOUT_S:.0f} s: others use the cluster.")
    try:
        others = set(ray.get(placed)) - {__version__}
    except ray.exceptions.RayError as error:
        raise InputError(f"a Ray actor cannot start: {first_line(error)}") from None
    if others:
        raise InputError(f"a node of the Ray cluster has pets {others.pop()}, this is {__version__}: install one.")
    return [RaySampler(cluster, versions[reference], source) for reference in placed]
