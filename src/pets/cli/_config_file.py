"""``pets.toml``: options that need not be typed each time, by the names that they have on the command line.

endpoint = "http://localhost:8000/v1"       # of every verb that has the option; SHARED lists which
model = "Qwen/Qwen3-8B"

[solve]                                     # of one verb
budget = "16x"
max-traces = 64

[keys.add]                                  # of a command of a verb
store = "gateway.db"

A file that was merely found may set what is in HARMLESS alone. One that sets more is refused as a whole, until its user
names it (``--config``) or trusts it as it is (``pets doctor --trust``, which keeps its path and SHA-256).
"""

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from pets.errors import InputError
from pets.tabular import atomic_write

FILE_NAME, TRUSTED = "pets.toml", "trusted.json"
# fmt: off
SHARED = frozenset({
    "answer", "concurrency", "confidence", "confidence-window", "endpoint", "extra-body", "header", "instruct",
    "key-env", "local", "max-tokens", "min-p", "model", "price", "reasoning-effort", "rpm", "seed", "stop", "system",
    "temperature", "timeout", "top-k", "top-p", "tpm", "tries",
})
"""The options that may stand above all tables: how a model is asked, for every verb that has ``--endpoint``."""

HARMLESS = frozenset({
    "budget", "certificates", "concurrency", "confidence", "confidence-window", "first", "format",
    "hurry", "instruct", "max-tokens", "min-p", "min-traces", "pool-size", "repetitions",
    "rpm", "seed", "soft", "target-consistency", "temperature", "timeout", "top-k",
    "top-p", "tpm", "train", "tries", "verbose", "weighted",
})
# fmt: on
"""What a file may set that the user neither named nor trusted; an option that is not listed, as a new one, is refused.

They are numbers, switches and words of a closed list, which name no server, key, file or code and open no door. A
budget is said before anything is asked, and a question's share of it ends at --max-traces, which is not among them.
"""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of options and its content; ``digest`` is its SHA-256, ``trusted`` whether all of its options apply."""

    path: Path
    content: Mapping[str, Any]
    digest: str
    trusted: bool = True

    @classmethod
    def read(cls, path: Path, verbs: Iterable[str]) -> "ConfigFile":
        """Read a file that the user named; check the names of its tables and of the keys above them."""
        try:
            data = path.read_bytes()
            content = tomllib.loads(data.decode())
        except OSError as error:
            raise InputError(f'"{path}" cannot be read ({error.strerror}). Name another: --config.') from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f'"{path}" is not TOML: {error}. Repair it.') from None
        file = cls(path, content, hashlib.sha256(data).hexdigest())
        for key, value in content.items():
            if isinstance(value, dict):
                file._check(key, verbs, f"[{key}] is no verb")
            else:
                remedy = f" Put it under its verb: [solve], then {key} = ..."
                file._check(key, SHARED, f'"{key}" is no option of several verbs', remedy)
        return file

    @property
    def risky(self) -> dict[str, Any]:
        """The options that only a trusted file may set, by dotted names."""
        return {name: value for name, value in _settings(self.content) if name.rpartition(".")[2] not in HARMLESS}

    def check_trusted(self) -> None:
        """Refuse a file that was merely found and sets more than harmless defaults."""
        if self.risky and not self.trusted:
            raise InputError(
                f'"{self.path}" was found here and sets {", ".join(self.risky)}, which may name servers, keys, files '
                "or code. Read it; then `pets doctor --trust` allows it as it is now. To go without it: "
                f"pets --config {os.devnull}."
            )

    def trust(self) -> Path:
        """Trust the file as it is now, wherever it is found; return the path of the list of trusted files."""
        path = Path(click.get_app_dir("pets"), TRUSTED)
        files = trusted_files() | {str(self.path.absolute()): self.digest}
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f'"{path.parent}" cannot be made ({error.strerror}). Name the file: --config.') from None
        with atomic_write(path, mode=0o600) as file:
            file.write(json.dumps(files, indent=1).encode())
        return path

    def defaults(
        self, words: Sequence[str], options: Mapping[str, click.Option], commands: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Map parameter names to values for the command of these words; ``options`` are its options by long names."""
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
        values: dict[str, Any] = {}
        for key, value in {**shared, **own}.items():
            alone = options[key].multiple and not isinstance(value, list)  # of an option that takes several
            values[str(options[key].name)] = [value] if alone else value
        return values

    def _check(self, key: str, known: Iterable[str], mistake: str, remedy: str = "") -> None:
        names = list(known)
        if key not in names:
            close = get_close_matches(key, names, 1)
            raise InputError(f'"{self.path}": {mistake}.{f" Did you mean {close[0]}?" if close else remedy}')


def _settings(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every option of a table and its subtables, by dotted names."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def trusted_files() -> dict[str, str]:
    """The digests of files that the user trusts, by their paths; none where that cannot be read."""
    try:
        files = json.loads(Path(click.get_app_dir("pets"), TRUSTED).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return files if isinstance(files, dict) else {}
