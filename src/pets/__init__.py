"""PETS: spend a self-consistency sampling budget where it changes the vote.

>>> import pets
>>> answer = pets.ask("What is 17 x 23?", sampler=lambda question: "17 x 23 = 391. The answer is 391.")
>>> answer.answer, answer.traces <= 16
('391', True)

Names are imported when they are used: `import pets` alone brings neither numpy nor an HTTP client.
"""

import importlib
import pkgutil

from pets._version import __version__ as __version__

STUB = pkgutil.get_data(__name__, "__init__.pyi") or b""  # each name is declared there, once
HOME_OF = {line.split()[-1]: line.split()[1] for line in STUB.decode().splitlines() if line.startswith("from ")}
__all__ = sorted(HOME_OF)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in HOME_OF:
        raise AttributeError(f"module 'pets' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(HOME_OF[name]), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
