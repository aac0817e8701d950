"""A recorded pool of four options whose difficulty is known, and the plans fitted to it."""

from types import SimpleNamespace

import numpy as np
import pytest

from pets.plans import fit_plan
from pets.pools import Pool, PooledQuestion
from pets.questions import Problem
from pets.samplers import Prompt
from pets.types import Trace


def drawn(questions, strength=0.3, seed=0, traces=64):
    """Answers of questions whose theta is Dir(strength) over four options."""
    rng = np.random.default_rng(seed)
    thetas = rng.dirichlet([strength] * 4, questions)
    return {f"q{i}": rng.choice(list("ABCD"), size=traces, p=theta).tolist() for i, theta in enumerate(thetas)}


def pool_of(answers, name="toy"):
    questions = tuple(PooledQuestion(id, tuple(path)) for id, path in answers.items())
    return Pool(name, questions, kind="choice")


def traces_of(answers):
    return {id: [Trace(id, n, answer) for n, answer in enumerate(path)] for id, path in answers.items()}


async def arriving(ids):
    for id in ids:
        yield Problem(id, Prompt(id))


@pytest.fixture(scope="session")
def toys():
    """The functions above, for tests."""
    return SimpleNamespace(drawn=drawn, pool_of=pool_of, traces_of=traces_of, arriving=arriving)


@pytest.fixture(scope="session")
def pool():
    return pool_of(drawn(40))


@pytest.fixture(scope="session")
def plan(pool):
    return fit_plan(pool, mean_budget=12, rounds=3)


@pytest.fixture(scope="session")
def one_shot(pool):
    return fit_plan(pool, mean_budget=12, rounds=1)
