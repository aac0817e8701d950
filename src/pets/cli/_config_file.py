"""``pets.toml``: options that need not be typed each time, by the names that they have on the command line.

endpoint = "http://localhost:8000/v1"       # of every verb that has the option; SHARED lists which
model = "Qwen/Qwen3-8B"

[solve]                                     # of one verb
budget = "16x"
max-traces = 64

[keys.add]                                  # of a command of a verb
store = "gateway.db"
"""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from pets.errors import InputError

__all__ = ["FILE_NAME", "SHARED", "ConfigFile"]

FILE_NAME = "pets.toml"
# fmt: off
SHARED = frozenset({
    "answer", "concurrency", "confidence", "confidence-window", "context", "endpoint", "extra-body", "header",
    "instruct", "key-env", "max-tokens", "min-p", "model", "price", "reasoning-effort", "rpm", "seed", "slots", "stop",
    "system", "temperature", "threads", "timeout", "top-k", "top-p", "tpm", "tries",
})
# fmt: on
"""The options that may stand above all tables: how a model is asked, for every verb that has ``--endpoint``."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of options and what it holds."""

    path: Path
    content: Mapping[str, Any]

    @classmethod
    def find(cls, verbs: Iterable[str]) -> "ConfigFile | None":
        """The file in the current folder or the nearest one above it, read; another user's is refused."""
        with suppress(OSError):  # the folder is gone, or one above it is closed to us
            folder = Path.cwd()
            paths = (place / FILE_NAME for place in (folder, *folder.parents))
            path = next(filter(Path.is_file, paths), None)
            if path is None:
                return None
            if not hasattr(os, "getuid") or path.stat().st_uid in (0, os.getuid()):
                return cls.read(path, verbs)
            raise InputError(f'"{path}" belongs to another user. To use it all the same: --config "{path}".')
        return None

    @classmethod
    def read(cls, path: Path, verbs: Iterable[str]) -> "ConfigFile":
        """The file, its tables and the keys above them checked."""
        try:
            content = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise InputError(f'"{path}" cannot be read ({error.strerror}). Name another: --config.') from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f'"{path}" is not TOML: {error}. Repair it.') from None
        file = cls(path, content)
        for key, value in content.items():
            if isinstance(value, dict):
                file._check(key, verbs, f"[{key}] is no verb")
            else:
                remedy = f" Put it under its verb: [solve], then {key} = ..."
                file._check(key, SHARED, f'"{key}" is no option of several verbs', remedy)
        return file

    def defaults(
        self, words: Sequence[str], options: Mapping[str, click.Option], commands: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Parameter name -> value for the command of these words: its ``options`` by their long names."""
        table: Any = self.content
        for word in words:
            table = table.get(word, {})
        name = ".".join(words)
        own = {key: value for key, value in table.items() if not isinstance(value, dict)}
        for key in table:
            if key in own:
                self._check(key, options, f'[{name}] has no option "{key}"')
            else:
                self._check(key, commands, f"[{name}.{key}] is no command")
        asks = "endpoint" in options
        shared = {key: value for key, value in self.content.items() if asks and key in SHARED and key in options}
        return {str(options[key].name): _value(options[key], value) for key, value in {**shared, **own}.items()}

    def _check(self, key: str, known: Iterable[str], mistake: str, remedy: str = "") -> None:
        names = list(known)
        if key not in names:
            close = get_close_matches(key, names, 1)
            raise InputError(f'"{self.path}": {mistake}.{f" Did you mean {close[0]}?" if close else remedy}')


def _value(option: click.Option, value: Any) -> Any:
    """As click takes it: several values for an option that takes several."""
    return [value] if option.multiple and not isinstance(value, list) else value
