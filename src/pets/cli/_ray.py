"""``--ray``: the cluster that a verb runs on, and models in its actors."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from pets.cli._groups import named_options, option, option_group, refuse_named
from pets.cli._output import count
from pets.cli._terminal import say
from pets.cli.options import LOCAL_CONCURRENCY, SERVER_CONCURRENCY, ModelOptions, local_settings, parse_json_option
from pets.cluster import RayCluster
from pets.errors import InputError
from pets.samplers import Sampler
from pets.samplers.gguf import default_weights
from pets.samplers.local import LocalSampler
from pets.samplers.ray import ActorSize, RaySampler, start_actors
from pets.samplers.vllm_engine import OWN_SETTINGS, VllmSampler

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
    ray: str | None = option(
        f"Run the model in actors of a Ray cluster. {CLUSTER_HELP} As many actors as it has room for, or actors=N, "
        "each with gpus=N: ADDRESS,actors=4,gpus=1; if not said, one GPU for vLLM where the cluster has any.",
        metavar="[ADDRESS][,actors=N][,gpus=N]",
        alone="",
        rare=True,
    )
    vllm_args: str | None = option(
        f"More arguments of vLLM's engine, as JSON: '{VLLM_EXAMPLE}'.", metavar="JSON", needs="ray", rare=True
    )

    @property
    def cluster(self) -> tuple[str, int | None, int | None]:
        """The address, the number of actors, and the GPUs of each.

        >>> RayOptions("head:6379,actors=4").cluster
        ('head:6379', 4, None)
        """
        address, numbers = "", dict[str, int]()
        for part in filter(None, (self.ray or "").split(",")):
            name, equals, number = part.partition("=")
            if not equals:
                address = part
            elif name in ("actors", "gpus") and number.isdecimal() and (int(number) or name == "gpus"):
                numbers[name] = int(number)
            else:
                raise InputError(f"--ray is an address, actors=N and gpus=N, joined by commas; got {part!r}.")
        return address, numbers.get("actors"), numbers.get("gpus")

    def check(self, model: ModelOptions) -> None:
        """Refuse options that a model in an actor does not read."""
        refuse_named("--ray hosts the model itself", *REFUSED)
        if model.endpoint:
            raise InputError("--ray hosts the model itself: leave out --endpoint.")
        if "dry_run" in named_options():
            raise InputError("--dry-run starts no model: leave --ray out.")
        if model.names:
            raise InputError(f"--ray hosts one model; got {', '.join(model.model)}.")

    def in_flight(self, model: str | None, actors: int) -> int:
        """Traces in flight where --concurrency is not given."""
        return actors * (LOCAL_CONCURRENCY if _is_local(model) else SERVER_CONCURRENCY)

    def samplers(self, name: str | None, local: Sequence[str], *, soft: bool) -> list[RaySampler]:
        """A sampler per actor, each with the model of that name; ``soft`` votes need what traces might have said."""
        settings = {} if self.vllm_args is None else parse_json_option("--vllm-args", self.vllm_args, VLLM_EXAMPLE)
        if settings and _is_local(name):
            raise InputError("--vllm-args are vLLM's, and this model is run by llama.cpp: leave them out.")
        if own := sorted(OWN_SETTINGS & settings.keys()):
            raise InputError(
                f"--vllm-args cannot have {', '.join(own)}: --model, --local and gpus=N of --ray say the like."
            )
        source = name or str(default_weights())
        address, actors, gpus = self.cluster
        cluster = connect(address)
        if gpus is None:
            gpus = 0 if _is_local(name) else int(any(node.get("GPU") for node in cluster.nodes))
        size = ActorSize.fitting(cluster, local_settings(local)["threads"], gpus)
        make = sampler_maker(name, local, size, settings)
        samplers = start_actors(cluster, make, size, actors, source=source, alternatives=soft)
        kind = "llama.cpp" if _is_local(name) else "vLLM"
        say(f"Ray: {count(len(samplers), 'actor')} with {kind}, {size} each.")
        return samplers


def _is_local(name: str | None) -> bool:
    """Whether llama.cpp runs the model: a GGUF file, or the one that comes as a package."""
    return name is None or name.endswith(".gguf")


def sampler_maker(
    name: str | None, local: Sequence[str], size: ActorSize, settings: Mapping[str, Any]
) -> Callable[[], Sampler]:
    shared = local_settings(local)
    del shared["threads"]  # an actor has its own
    if name is None or _is_local(name):
        path = None if name is None else Path(name).absolute()  # an actor has a working directory of its own
        return partial(LocalSampler, path, threads=size.cpus, **shared)
    return partial(VllmSampler, name, gpus=size.gpus, settings=settings, **shared)
