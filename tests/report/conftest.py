"""Small synthetic pools, replayed once."""

import numpy as np
import pytest

from pets.pools import Pool, PooledQuestion
from pets.replay import ReplayConfig, replay

POLICIES = ("uniform", "okg:prior=1", "asc", "dsc", "online_grid")


def make_pool(name="toy", questions=14, traces=24, gold=True):
    rng = np.random.default_rng(0)
    made = []
    for q in range(questions):
        theta = rng.dirichlet([0.5] * 3)
        answers = tuple("ABC"[rng.choice(3, p=theta)] for _ in range(traces))
        made.append(PooledQuestion(f"q{q}", answers, gold="ABC"[int(theta.argmax())] if gold else None))
    return Pool(name, tuple(made))


@pytest.fixture(scope="session")
def pool():
    return make_pool()


@pytest.fixture(scope="session")
def pool_result(pool):
    (result,) = replay([pool], POLICIES, config=ReplayConfig(2, 16, budgets=(4.0, 8.0, 16.0)))
    return result


@pytest.fixture(scope="session")
def without_gold():
    (result,) = replay([make_pool("bare", gold=False)], ["uniform"], config=ReplayConfig(1, 8, "disjoint"))
    return result
