"""The rows of a published data set: from the Hugging Face hub, or from a copy on this machine."""

import importlib
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
    except (OSError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise InputError(
            f'"{repository}" cannot be loaded from the hub ({said[:200]}). Check the network and, where a data set '
            "has terms to accept, your login (hf auth login); or name a copy on this machine with --from."
        ) from None
    return ((f"row {number}", dict(row)) for number, row in enumerate(rows, 1))


def local_rows(source: Path, config: str | None, split: str) -> Iterator[tuple[str, Record]]:
    """Every row of a file, or of the files of a folder that belong to the config and the split.

    In a folder as the hub lays it out, names tell: ``gpqa_diamond.csv``, ``main/test-00000-of-00001.parquet``. Where
    no name tells, every file belongs.
    """
    for path in _files(source, config, split) if source.is_dir() else [source]:
        for place, row in read_rows(path):
            yield f'"{path.name}" {place}', row


def _files(folder: Path, config: str | None, split: str) -> list[Path]:
    inside = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    files = [path for path in inside if path.name.lower().endswith(SUFFIXES) and _is_data(path)]
    for word in filter(None, (config, split)):
        files = [path for path in files if word in path.as_posix()] or files
    if not files:
        raise InputError(f'folder "{folder}" holds no data; files end in {", ".join(SUFFIXES)}. Name another.')
    return [folder / path for path in files]


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
