"""A local model, running, for the tests that need a real one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pets.samplers.local import LocalSampler


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
