"""The recorded pools that a benchmark is given: a folder on its command line, or the environment's PETS_POOLS."""

import os
from pathlib import Path

from pets.errors import PoolError
from pets.pools import pool_files


def recorded(given: str | None) -> list[Path]:
    """The pool files of that folder (or that file); none where nothing is named, or nothing is there."""
    place = given or os.environ.get("PETS_POOLS")
    if not place or not Path(place).exists():
        return []
    try:
        return pool_files([Path(place)])
    except PoolError as why:
        print(why)
        return []
