"""A function of your own: ``python:my_answers:read`` calls ``read(text)``, which gives the answer as a text, or None.

``my_answers.py`` may lie in the current folder. A second function says which answers are the same:
``python:my_answers:read:same`` calls ``same(first, second)`` for two that differ.
"""

import importlib
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pets.answers.base import AnswerType
from pets.errors import InputError

CALL_SECONDS = 10.0
MAX_TIMEOUTS = 3  # after which a function is not called any more: every one of them leaves a thread that computes
SAMPLE = "The answer is 42."
LOGGER = logging.getLogger("pets.answers.python")
_TROUBLE: Counter[tuple[str, str]] = Counter()  # by function and what went wrong


@dataclass(frozen=True, slots=True)
class Python(AnswerType):
    """Answers read by the user's function. It is tried on one text at once; a later error is no vote, and told once."""

    spec_option = "path"
    files_may_name = False
    runs_code = True

    path: str

    def __post_init__(self) -> None:
        function, same = _loaded(self.path)
        for call, arguments in ((function, (SAMPLE,)), (same, ("42", "43"))):
            try:
                value = None if call is None else call(*arguments)
            except Exception as error:  # noqa: BLE001 (the user's code may fail in any way)
                raise InputError(
                    f"{_name(call)}({', '.join(map(repr, arguments))}) raised "
                    f"{type(error).__name__}: {error}. Mend it, or return None where there is no answer."
                ) from None
            if call is function and not isinstance(value, str | None):
                raise InputError(f"{_name(call)}({SAMPLE!r}) gave {value!r}; an answer is a text, or None.")

    def canonical(self, answer: str) -> str | None:
        return answer or None

    def extract(self, text: str) -> str | None:
        """The function's answer; None where it fails or takes longer than 10 seconds."""
        answer = _called(self.path, _loaded(self.path)[0], text)
        return answer if isinstance(answer, str) and answer else None

    def same(self, first: str, second: str) -> bool:
        """Equal, or the same by the second function, asked both ways; a failure leaves two answers apart."""
        compare = _loaded(self.path)[1]
        if first == second or compare is None:
            return first == second
        return all(_called(self.path, compare, *pair) is True for pair in ((first, second), (second, first)))

    def same_at_once(self, first: str, second: str) -> bool | None:
        compared = first != second and _loaded(self.path)[1] is not None
        return None if compared else first == second


@lru_cache(maxsize=64)
def _loaded(path: str) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """The functions of a path."""
    module_name, *names = path.split(":")
    if not module_name or not 1 <= len(names) <= 2 or not all(names):
        raise InputError(f"a function is named module:function, such as my_answers:read; got {path!r}.")
    functions = [named_in(module_name, name) for name in names]
    return functions[0], functions[1] if len(functions) > 1 else None


def named_in(module_name: str, name: str) -> Callable[..., Any]:
    """Import a function of the user's module; the current folder comes last, so that it hides no library."""
    if (folder := os.getcwd()) not in sys.path:  # noqa: PTH109 (as sys.path has it)
        sys.path.append(folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # noqa: BLE001 (a module may fail in any way)
        raise InputError(f"the module {module_name!r} cannot be imported ({type(error).__name__}: {error}).") from None
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None or not callable(function):
        raise InputError(f"the module {module_name!r} has no function or class {name!r}.")
    return function


def _called(path: str, function: Callable[..., Any], *arguments: str) -> object:
    """Call the function in a thread; None where it fails, or does not come back in time."""
    late = f"took more than {CALL_SECONDS:.0f} seconds"
    if _TROUBLE[path, late] >= MAX_TIMEOUTS:
        return None
    value: object = None
    trouble = late

    def call() -> None:
        nonlocal value, trouble
        try:
            value, trouble = function(*arguments), ""
        except Exception as error:  # noqa: BLE001 (the user's code may fail in any way)
            trouble = f"raised {type(error).__name__}: {error}"

    thread = threading.Thread(target=call, name="pets-python-answer", daemon=True)
    thread.start()
    thread.join(CALL_SECONDS)
    if trouble:
        _TROUBLE[path, trouble] += 1
        if _TROUBLE[path, trouble] == 1:  # a trace casts no vote each time; it is told once
            LOGGER.warning("python:%s: %s %s; such traces cast no vote.", path, _name(function), trouble)
    return value


def _name(function: Callable[..., Any] | None) -> str:
    return getattr(function, "__name__", "the function")
