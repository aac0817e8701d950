"""The rows of a published data set: from the Hugging Face hub, or from a copy on this machine."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from pets._extras import require
from pets.errors import InputError
from pets.questions.files import read_records
from pets.tabular import SUFFIXES, Record

HUB_PREFIX = "hf:"
HUB_NAME = re.compile(r"hf:(?P<repository>[\w.-]+/[\w.-]+)(/(?P<config>[\w.-]+))?(:(?P<split>[\w.\[\]:%-]+))?")
USUAL_SPLITS = ("test", "validation", "train")

METADATA_FILES = ("dataset_info.json", "dataset_infos.json", "state.json")  # what the hub's tools leave beside the data


def hub_rows(
    repository: str, config: str | None, split: str | None, copy_hint: str = ""
) -> Iterator[tuple[str, Record]]:
    """Every row of a split and its place, downloaded once and kept by the ``datasets`` library.

    Without a split, the one that questions are asked from: test, else validation, else whatever there is.
    ``copy_hint`` says how a copy on this machine is read instead.
    """
    try:
        datasets = require("datasets", "datasets")
    except InputError as error:
        raise InputError(f"{error}; {copy_hint}" if copy_hint else str(error)) from None
    try:
        if split is None:
            splits = datasets.get_dataset_split_names(repository, config)
            split = next((name for name in USUAL_SPLITS if name in splits), splits[0])
        rows = datasets.load_dataset(repository, config, split=split)
    except _failures() as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        remedy = f"{_remedy(repository, reason)} {copy_hint[:1].upper()}{copy_hint[1:]}".strip()
        raise InputError(f'"{repository}" cannot be loaded from the hub ({reason}). {remedy}') from None
    return ((f"row {number}", dict(row)) for number, row in enumerate(rows, 1))


def parse_hub_name(name: str) -> tuple[str, str | None, str | None]:
    """Repository, config and split of ``hf:org/name[/config][:split]``.

    >>> parse_hub_name("hf:openai/gsm8k/main:test"), parse_hub_name("hf:MathArena/aime_2025")
    (('openai/gsm8k', 'main', 'test'), ('MathArena/aime_2025', None, None))
    """
    match = HUB_NAME.fullmatch(name)
    if match is None:
        raise InputError(f"a data set of the hub is named hf:ORG/NAME[/CONFIG][:SPLIT]; got {name!r}.")
    return match["repository"], match["config"], match["split"]


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
    if "gated" in reason.lower():
        page = f"https://huggingface.co/datasets/{repository}"
        return f"Accept its terms on {page}, then log in: hf auth login, or HF_TOKEN."
    if "doesn't exist" in reason:
        return "It was moved or is not public: log in (hf auth login) if you may read it."
    if "config name is missing" in reason.lower():
        return f"Name one: hf:{repository}/CONFIG."
    return "Check the name and the network."
