"""One tree, PetsError at its root."""

import inspect

import pets.errors


def test_every_error_is_a_pets_error_and_is_drawn():
    for name, cls in inspect.getmembers(pets.errors, inspect.isclass):
        assert issubclass(cls, pets.errors.PetsError)
        assert name in pets.errors.__doc__
