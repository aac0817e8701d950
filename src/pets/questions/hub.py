"""The rows of a published data set: from the Hugging Face hub, or from a copy on this machine."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pets.errors import InputError
from pets.questions.rows import SUFFIXES, Record, read_rows

__all__ = ["hub_rows", "local_rows"]

NOTES = ("dataset_info.json", "dataset_infos.json", "state.json")  # what the hub's tools leave beside the data


def hub_rows(repository: str, config: str | None, split: str) -> Iterator[tuple[str, Record]]:
    """Every row of a split, downloaded once and kept by the ``datasets`` library."""
    datasets = _datasets()
    try:
        rows = datasets.load_dataset(repository, config, split=split)
    except _failures() as error:
        said = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise InputError(
            f'"{repository}" cannot be loaded from the hub ({said}). {_remedy(repository, said)}'
        ) from None
    return ((f"row {number}", dict(row)) for number, row in enumerate(rows, 1))


def local_rows(source: Path, config: str | None, split: str) -> Iterator[tuple[str, Record]]:
    """Every row of a file, or of the files of a folder that belong to the config and the split.

    In a folder as the hub lays it out, names tell: ``gpqa_diamond.csv``, ``main/test-00000-of-00001.parquet``. A name
    that is the word comes before one that holds it (``test.jsonl``, ``test_socratic.jsonl``). Where no name tells,
    every file belongs.
    """
    for path in _files(source, config, split) if source.is_dir() else [source]:
        for place, row in read_rows(path):
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
    return path.name not in NOTES and not any(part.startswith(".") for part in path.parts)


def _datasets() -> Any:
    try:
        return importlib.import_module("datasets")
    except ImportError:
        raise InputError(
            'sets of the hub need the datasets library, which is not here. Try: pip install "pets[datasets]"; '
            "or name a copy on this machine with --from."
        ) from None


def _failures() -> tuple[type[Exception], ...]:
    """What loading may raise: files and the network, and all that the hub's two libraries call an error.

    Theirs have no common root, and some of them are none of Python's own (an aborted download, a file that does not
    fit); which HTTP library they use, and so whose errors come through, depends on their version.
    """
    found: set[type[Exception]] = {OSError, ValueError, RuntimeError}
    for name in ("datasets.exceptions", "huggingface_hub.errors"):
        try:
            defined = vars(importlib.import_module(name)).values()
        except ImportError:
            continue
        found |= {one for one in defined if isinstance(one, type) and issubclass(one, Exception)}
    return tuple(found)


def _remedy(repository: str, said: str) -> str:
    copy = "or name a copy on this machine with --from."
    if "gated" in said.lower():
        page = f"https://huggingface.co/datasets/{repository}"
        return f"Accept its terms on {page}, then log in: hf auth login, or HF_TOKEN; {copy}"
    if "doesn't exist" in said:
        return f"It was moved or is not public: log in (hf auth login) if you may read it; {copy}"
    return f"Check the network; {copy}"
