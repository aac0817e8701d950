"""The phrases around an answer: how people and models announce, choose, correct and close, by language.

They are data: ``phrases.toml`` beside this file holds them, the names of units and magnitudes, and how
characters and LaTeX are rewritten.

>>> words("unable"), TABLES["units"]["ft"]
("can(?:not|['’]t| not) do ", 'foot feet')
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

TABLES: Mapping[str, Any] = tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))


def words(name: str) -> str:
    """The alternatives of a table, as a fragment of a pattern."""
    return str(TABLES[name]).replace("\n", "")


def characters(table: Mapping[str, str]) -> dict[int, str]:
    """A table of characters for ``str.translate``: each one of a key stands for its value."""
    return {ord(character): value for key, value in table.items() for character in key}
