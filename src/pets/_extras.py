"""Optional dependencies: imported where they are needed, with an error that names the extra that brings them."""

import importlib
from importlib.util import find_spec
from typing import Any

from pets.errors import InputError


def require(module: str, extra: str) -> Any:
    """The module, imported; where it is not installed, an error that says how to get it.

    >>> require("no_such_module", "parquet")
    Traceback (most recent call last):
    pets.errors.InputError: no_such_module is not installed. Try: pip install "pets-llm[parquet]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(error.name or module, extra) from None


def check_installed(module: str, extra: str, name: str) -> None:
    """Refuse to begin what needs a module that is not installed; ``name`` is what people call it. Imports nothing."""
    if find_spec(module) is None:
        raise missing(name, extra)


def missing(module: str, extra: str) -> InputError:
    """The error for a module that is not installed."""
    return InputError(f'{module} is not installed. Try: pip install "pets-llm[{extra}]"')
