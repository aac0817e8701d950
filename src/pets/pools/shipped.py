"""The pools that come with PETS."""

from pets.errors import PoolError
from pets.pools.formats import SHIPPED
from pets.pools.question import Pool
from pets.pools.reading import Metric, read_pool

__all__ = ["load"]


def load(name: str, *, confidence: Metric = "tail") -> Pool:
    """A pool that everybody has; ``confidence`` chooses the kind that votes are weighted by.

    >>> pool = load("starter")
    >>> len(pool.questions[0].answers), sorted(pool.questions[0].confidences)
    (128, ['bottom', 'lowest', 'mean', 'tail'])
    """
    if name not in SHIPPED:
        raise PoolError(f"no pool called {name!r} comes with pets. Shipped: {', '.join(SHIPPED)}.")
    return read_pool(SHIPPED[name], confidence=confidence)
