"""What every test shares: settings of hypothesis, the real model, and which tests are slow by nature."""

from importlib.util import find_spec

import pytest
from hypothesis import settings

from pets.errors import LocalModelError
from pets.samplers.gguf import default_weights

settings.register_profile("pets", deadline=None)  # shared machines are slow at random
settings.load_profile("pets")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """A test that asks for the real model or for a browser is slow."""
    for item in items:
        if {"weights", "browser"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def weights():
    """SmolLM2's file, for llama.cpp to run; the test is skipped, and says why, where it cannot."""
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install 'pets[local]'")
    try:
        return default_weights()
    except LocalModelError as error:
        pytest.skip(str(error))
