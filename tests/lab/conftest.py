"""Synthetic pools, small enough for brute force."""

import numpy as np
import pytest

from pets.pools import Pool, PooledQuestion


def make_pool(name="toy", questions=12, traces=24, *, kind=None, nulls=0.1, confidence=False, tokens=True, seed=0):
    """Questions from Dir(1/2) over three answers; some traces give none."""
    rng = np.random.default_rng(seed)
    made = []
    for q in range(questions):
        theta = rng.dirichlet([0.5] * 3)
        answers = [None if rng.random() < nulls else "ABC"[rng.choice(3, p=theta)] for _ in range(traces)]
        answers[0] = answers[0] or "A"
        made.append(
            PooledQuestion(
                f"q{q}",
                tuple(answers),
                gold="ABC"[int(theta.argmax())] if q % 4 else None,
                tokens=tuple(rng.integers(10, 99, traces).tolist()) if tokens else None,
                confidence=tuple(rng.uniform(5, 20, traces).tolist()) if confidence else None,
            )
        )
    return Pool(name, tuple(made), kind)


@pytest.fixture
def pool():
    return make_pool()


@pytest.fixture(scope="session")
def build():
    return make_pool
