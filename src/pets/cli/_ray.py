"""``--ray``: the cluster that a verb runs on, and models in its actors."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from pets.cli._groups import named_options, option, option_group
from pets.cli._output import count
from pets.cli._terminal import say
from pets.cli.options import LOCAL_CONCURRENCY, SERVER_CONCURRENCY, LocalModelOptions, ModelOptions, parse_json_option
from pets.cluster import RayCluster
from pets.engine.resume import spec_of_run
from pets.errors import InputError
from pets.samplers import Sampler
from pets.samplers.gguf import default_weights
from pets.samplers.local import LocalSampler
from pets.samplers.ray import ActorSize, RaySampler, start_actors
from pets.samplers.vllm_engine import OWN_SETTINGS, VllmSampler
from pets.store import RunRecord

CLUSTER_HELP = (
    "The head node's HOST:PORT; without one, the cluster of RAY_ADDRESS or of this machine, else one that is started "
    "here for as long as it takes."
)
VLLM_EXAMPLE = '{"gpu_memory_utilization": 0.8}'
REFUSED = {"endpoint", "key_env", "header", "rpm", "tpm", "timeout", "batch_api"}


def connect(address: str) -> RayCluster:
    """The cluster of that address, until the verb ends."""
    return click.get_current_context().with_resource(RayCluster(address or os.environ.get("RAY_ADDRESS", "")))


@option_group("Ray")
class RayOptions:
    """Models in the actors of a Ray cluster."""

    ray: str | None = option(f"Run the model in actors of a Ray cluster. {CLUSTER_HELP}", metavar="[ADDRESS]", alone="")
    ray_actors: int | None = option(
        "How many actors; as many as the cluster has room for if not given.", at_least=1, needs="ray"
    )
    ray_gpus: int | None = option(
        "How many GPUs each actor takes; if not given, one for vLLM where the cluster has any.",
        at_least=0,
        needs="ray",
    )
    vllm_args: str | None = option(
        f"More arguments of vLLM's engine, as JSON: '{VLLM_EXAMPLE}'.", metavar="JSON", needs="ray"
    )

    def check(self, model: ModelOptions) -> None:
        """Refuse what a model in an actor has no use for."""
        named = named_options()
        if self.ray is None:
            return
        if flags := [flag for name, flag in named.items() if name in REFUSED] or ["--endpoint"] * bool(model.endpoint):
            raise InputError(f"--ray hosts the model itself: leave out {', '.join(flags)}.")
        if "dry_run" in named:
            raise InputError("--dry-run starts no model: leave --ray out.")
        if model.shares:
            raise InputError(f"--ray hosts one model; got {', '.join(model.model)}.")

    def samplers_of_run(self, settings: RunRecord, local: LocalModelOptions) -> list[RaySampler]:
        """As :meth:`samplers`, for the model of a run that goes on."""
        spec = spec_of_run(settings)
        if settings.endpoints or spec.serving.models:
            raise InputError("this run asks servers or several models; --ray goes on with one model without a server.")
        return self.samplers(settings.model or None, local, soft=spec.reading.soft)

    def in_flight(self, model: str | None, actors: int) -> int:
        """The traces in flight where --concurrency is not given."""
        return actors * (LOCAL_CONCURRENCY if _is_local(model) else SERVER_CONCURRENCY)

    def samplers(self, name: str | None, local: LocalModelOptions, *, soft: bool) -> list[RaySampler]:
        """A sampler per actor, each with the model of that name; ``soft`` votes need what traces might have said."""
        settings = {} if self.vllm_args is None else parse_json_option("--vllm-args", self.vllm_args, VLLM_EXAMPLE)
        if settings and _is_local(name):
            raise InputError("--vllm-args are vLLM's, and this model is run by llama.cpp: leave them out.")
        if own := sorted(OWN_SETTINGS & settings.keys()):
            raise InputError(
                f"--vllm-args cannot have {', '.join(own)}: --model, --slots, --context and --ray-gpus say the like."
            )
        source = name or str(default_weights())
        cluster = connect(self.ray or "")
        gpus = self.ray_gpus
        if gpus is None:
            gpus = 0 if _is_local(name) else int(any(node.get("GPU") for node in cluster.nodes))
        size = ActorSize.fitting(cluster, local.threads, gpus)
        make = sampler_maker(name, local, size, settings)
        samplers = start_actors(cluster, make, size, self.ray_actors, source=source, alternatives=soft)
        kind = "llama.cpp" if _is_local(name) else "vLLM"
        say(f"Ray: {count(len(samplers), 'actor')} with {kind}, {size} each.")
        return samplers


def _is_local(name: str | None) -> bool:
    """Whether llama.cpp runs the model: a GGUF file, or the one that comes as a package."""
    return name is None or name.endswith(".gguf")


def sampler_maker(
    name: str | None, local: LocalModelOptions, size: ActorSize, settings: Mapping[str, Any]
) -> Callable[[], Sampler]:
    """What makes the sampler in an actor."""
    if name is None or _is_local(name):
        path = None if name is None else Path(name).absolute()  # an actor has a working directory of its own
        return partial(LocalSampler, path, slots=local.slots, context=local.context, threads=size.cpus)
    return partial(VllmSampler, name, slots=local.slots, context=local.context, gpus=size.gpus, settings=settings)
