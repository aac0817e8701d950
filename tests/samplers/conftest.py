"""A local model for the tests that need a real one; they are skipped, and say why, where there is none."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from pets.errors import LocalModelError
from pets.samplers.gguf import default_weights
from pets.samplers.local import LocalSampler


@pytest.fixture(scope="session")
def weights():
    """SmolLM2's file."""
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install 'pets[local]'")
    try:
        return default_weights()
    except LocalModelError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def run() -> Iterator:
    """Runs coroutines, all on one event loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@contextmanager
def started(run, **settings):
    sampler = LocalSampler(**settings)
    run(sampler.__aenter__())
    try:
        yield sampler
    finally:
        run(sampler.close())


@pytest.fixture(scope="session")
def local(run, weights) -> Iterator[LocalSampler]:
    """SmolLM2, running."""
    with started(run, slots=8, context=512) as sampler:
        yield sampler
