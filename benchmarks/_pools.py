"""The recorded pools that a benchmark is given: a folder on its command line, or the environment's PETS_POOLS."""

import os
from pathlib import Path

from pets.pools import pool_files

__all__ = ["recorded"]


def recorded(given: str | None) -> list[Path]:
    """The pool files of that folder; none where no folder is named, or it is not there."""
    folder = Path(given or os.environ.get("PETS_POOLS") or "")
    return pool_files([folder]) if folder.name and folder.is_dir() else []
