"""What this machine can carry: its cores, its memory, and the settings of a local model that fit them."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pets.errors import InputError, LocalModelError
from pets.samplers.gguf import Weights

MAX_SLOTS = 256  # sequences that llama.cpp decodes together
DEFAULT_CONTEXT = 2048
PROMPT_CACHE_BYTES = 256 << 20  # of prompts that have left their slots: some fifty of 200 tokens with SmolLM2
WORK_BYTES = PROMPT_CACHE_BYTES + (512 << 20)  # compute buffers, the process itself
GB = 1 << 30
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class LocalModelConfig:
    """``slots`` traces decoded together, each of at most ``context`` tokens with its prompt, on ``threads`` threads."""

    slots: int
    context: int
    threads: int


def cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> int:
    """Bytes that may be taken without swapping: what the system has available, within the container's limit."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        limit = int((CGROUP / "memory.max").read_text())
        free = min(free, limit - int((CGROUP / "memory.current").read_text()) + cached_files())
    return free


def cached_files() -> int:
    """Bytes of files that the container's memory holds for as long as nobody needs it: they count as taken there."""
    with suppress(OSError, ValueError):
        lines = (CGROUP / "memory.stat").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("inactive_file ", "active_file ")))
    return 0


def fit_config(
    weights: Weights, *, slots: int | None = None, context: int | None = None, threads: int | None = None, free: int
) -> LocalModelConfig:
    """The settings that are given, the rest chosen; one clear line if they cannot fit into ``free`` bytes.

    >>> fit_config(Weights(Path("m.gguf"), 100 << 20, context=8192, cache=23040), threads=2, free=8 * GB)
    LocalModelConfig(slots=16, context=2048, threads=2)
    """
    if (slots is not None and not 1 <= slots <= MAX_SLOTS) or min(context or 1, threads or 1) < 1:
        raise InputError(
            f"slots lie in 1..{MAX_SLOTS}, context and threads are at least 1; got {slots=}, {context=}, {threads=}."
        )
    if context and weights.context and context > weights.context:  # llama.cpp would cut traces at its own, in silence
        raise InputError(
            f'"{weights.path.name}" was made for {weights.context} tokens; a context of {context} is too long for it.'
        )
    threads = threads or cores()
    context = context or min(DEFAULT_CONTEXT, weights.context or DEFAULT_CONTEXT)
    room = free - weights.size - WORK_BYTES
    slot_bytes = max(1, context * weights.cache)
    most = slots or 16 * max(1, min(4, threads // 4))
    fitting = min(most, room // slot_bytes) if slots is None else most
    if fitting < 1 or fitting * slot_bytes > room:
        need = (weights.size + WORK_BYTES + max(1, fitting) * slot_bytes) / GB
        raise LocalModelError(
            f'"{weights.path.name}" with {max(1, fitting)} slots of {context} tokens needs about {need:.1f} GB of '
            f"memory; {free / GB:.1f} GB are free. Take fewer slots, a shorter context or a smaller model."
        )
    return LocalModelConfig(int(fitting), context, threads)
