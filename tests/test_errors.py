"""One tree, PetsError at its root."""

import contextlib
import copy
import importlib
import inspect
import pickle
import pkgutil

import pytest

import pets.errors
from pets.errors import PetsError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what modules of extras import
VALUES = {"status": 400, "orphan": True, "names": ["n"]}  # of what constructors need; else a text


def test_every_error_is_a_pets_error_and_is_drawn():
    for name, cls in inspect.getmembers(pets.errors, inspect.isclass):
        if cls.__module__ == pets.errors.__name__:
            assert issubclass(cls, pets.errors.PetsError)
            assert name in pets.errors.__doc__


def below(cls):
    return {cls}.union(*map(below, cls.__subclasses__()))


def every_error():
    for module in pkgutil.walk_packages(pets.__path__, "pets."):
        with contextlib.suppress(ImportError, PetsError):  # what needs an extra that is not installed
            importlib.import_module(module.name)
    return sorted((cls for cls in below(PetsError) if cls.__module__.split(".")[0] == "pets"), key=str)


def made(cls):
    """One of them, whatever its constructor needs."""
    if not inspect.isfunction(cls.__init__):
        return cls("words")
    needed = [p.name for p in inspect.signature(cls).parameters.values() if p.default is p.empty]
    return cls(**{name: VALUES.get(name, "words") for name in needed})


def test_the_tree_has_errors_with_constructors_of_their_own():
    names = {cls.__name__ for cls in every_error()}
    assert names >= {"FieldsRefusedError", "NotExecutedError", "RowError", "ApiError"}


def test_every_error_takes_a_sentence_more_and_survives_being_copied_and_pickled():
    for cls in every_error():
        error = made(cls)
        words, carried = str(error), dict(vars(error))
        assert error.say_more("Run 3 is kept.") is error
        for other in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert type(other) is cls
            assert (str(other), vars(other)) == (f"{words} Run 3 is kept.", carried), cls
