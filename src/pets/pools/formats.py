"""The files of recorded pools: which suffixes there are, and how a path is named in messages."""

import importlib
from pathlib import Path
from typing import Any

from pets.errors import PoolError

__all__ = ["SHIPPED", "SUFFIXES", "named", "pyarrow", "suffix_of"]

SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".parquet")
SHIPPED = {"starter": Path(__file__).with_name("data") / "starter.jsonl.gz"}
"""The pools that come with PETS, by name."""


def named(path: Path) -> str:
    """The pool as messages call it."""
    return f'pool "{path.name}"'


def suffix_of(path: Path) -> str:
    """Which of SUFFIXES the file has."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise PoolError(f"{named(path)}: its format is unknown; pools end in {', '.join(SUFFIXES)}. Rename or convert it.")


def pyarrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet half, or a line that says how to get them."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise PoolError('Parquet needs pyarrow, which is not here. Try: pip install "pets[parquet]"') from None
