"""The rows of a published data set: from the Hugging Face hub, or from a copy on this machine."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from pets._extras import require
from pets.errors import InputError
from pets.questions.files import SUFFIXES, Record, read_records

__all__ = ["hub_rows", "local_rows"]

METADATA_FILES = ("dataset_info.json", "dataset_infos.json", "state.json")  # what the hub's tools leave beside the data


def hub_rows(repository: str, config: str | None, split: str) -> Iterator[tuple[str, Record]]:
    """Every row of a split and its place, downloaded once and kept by the ``datasets`` library."""
    try:
        datasets = require("datasets", "datasets")
    except InputError as error:
        raise InputError(f"{error}; or name a copy on this machine with --from.") from None
    try:
        rows = datasets.load_dataset(repository, config, split=split)
    except _failures() as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise InputError(
            f'"{repository}" cannot be loaded from the hub ({reason}). {_remedy(repository, reason)}'
        ) from None
    return ((f"row {number}", dict(row)) for number, row in enumerate(rows, 1))


def local_rows(source: Path, config: str | None, split: str) -> Iterator[tuple[str, Record]]:
    """Every row and its place, of a file or of the files of a folder that belong to the config and the split.

    In a folder as the hub lays it out, names tell: ``gpqa_diamond.csv``, ``main/test-00000-of-00001.parquet``. A name
    that is the word comes before one that holds it (``test.jsonl``, ``test_socratic.jsonl``). Where no name tells,
    every file belongs.
    """
    for path in _files(source, config, split) if source.is_dir() else [source]:
        for place, row in read_records(path):
            yield f'"{path.name}" {place}', row


def _files(folder: Path, config: str | None, split: str) -> list[Path]:
    inside = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    files = [path for path in inside if path.name.lower().endswith(SUFFIXES) and _is_data(path)]
    for word in filter(None, (config, split)):
        named = [path for path in files if _is_named(path, word)]
        files = named or [path for path in files if word in path.as_posix()] or files
    if not files:
        raise InputError(f'folder "{folder}" holds no data; files end in {", ".join(SUFFIXES)}. Name another.')
    return [folder / path for path in files]


def _is_named(path: Path, word: str) -> bool:
    """Whether a folder of the path, or the file but for its number among others, is called so."""
    file = path.name.split(".")[0]
    return word in path.parts[:-1] or re.fullmatch(rf"{re.escape(word)}(-\d+-of-\d+(-\w+)?)?", file) is not None


def _is_data(path: Path) -> bool:
    return path.name not in METADATA_FILES and not any(part.startswith(".") for part in path.parts)


def _failures() -> tuple[type[Exception], ...]:
    """What loading may raise: files and the network, and all that the hub's two libraries call an error.

    Theirs have no common root, and some of them are none of Python's own (an aborted download, a file that does not
    fit); which HTTP library they use, and so whose errors come through, depends on their version.
    """
    classes: set[type[Exception]] = {OSError, ValueError, RuntimeError}
    for name in ("datasets.exceptions", "huggingface_hub.errors"):
        try:
            names = vars(importlib.import_module(name)).values()
        except ImportError:
            continue
        classes |= {value for value in names if isinstance(value, type) and issubclass(value, Exception)}
    return tuple(classes)


def _remedy(repository: str, reason: str) -> str:
    copy = "or name a copy on this machine with --from."
    if "gated" in reason.lower():
        page = f"https://huggingface.co/datasets/{repository}"
        return f"Accept its terms on {page}, then log in: hf auth login, or HF_TOKEN; {copy}"
    if "doesn't exist" in reason:
        return f"It was moved or is not public: log in (hf auth login) if you may read it; {copy}"
    return f"Check the network; {copy}"
