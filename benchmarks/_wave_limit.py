"""The limit of rules that buy in W waves, each a batch of any size decided from all before it (:mod:`pets.lab.limit`):

V_w(n) = max(V_{w-1}(n), max_k -lambda k + E V_{w-1}(n after k votes)),     V_0(n) = max_m P(target = m | n).
"""

from collections.abc import Sequence

import numpy as np

from pets.lab.draws import Floats
from pets.lab.limit import ROUNDING, Frontier, Lattice, frontier_of


def optimum_in_waves(lattice: Lattice, prices: Sequence[float] | Floats, waves: int) -> tuple[Floats, Floats]:
    """Mean traces and self-consistency of the best plan at each price a trace, (L,) and (L,).

    One sweep over the layers for each wave, from the last one on: O(states x size x prices) each.
    """
    price = np.asarray(prices, dtype=np.float64)
    L = price.size
    later = [np.stack([np.repeat(layer.best[:, None], L, axis=1)] * 2, axis=1) for layer in lattice.layers]
    for values in later:
        values[:, 1] = 0.0  # (S, 2, L): self-consistency and traces with no wave to come
    for _ in range(waves):
        here = [later[-1]]
        carry = later[-1][:, None]  # (S, ends, 2, L): what a batch that goes on to each later layer leads to
        for t in range(len(lattice.layers) - 2, -1, -1):
            step = lattice.layers[t].step
            carry = (step @ carry.reshape(carry.shape[0], -1)).reshape(step.shape[0], -1, 2, L)
            traces = carry[:, :, 1] + np.arange(carry.shape[1], 0, -1)[:, None]
            end = (carry[:, :, 0] - price * traces).argmax(axis=1)[:, None]
            bought = np.stack([np.take_along_axis(part, end, axis=1)[:, 0] for part in (carry[:, :, 0], traces)], 1)
            wait = later[t][:, 0] - price * later[t][:, 1] >= bought[:, 0] - price * bought[:, 1] - ROUNDING
            here.append(np.where(wait[:, None], later[t], bought))
            carry = np.concatenate([carry, later[t][:, None]], axis=1)
        later = here[::-1]
    return later[0][0, 1], later[0][0, 0]


def frontier_in_waves(
    counts: Sequence[Sequence[int]],
    size: int,
    waves: int,
    *,
    levels: Sequence[float] | None = None,
    tolerance: float = 1e-6,
) -> Frontier:
    """The frontier of at most that many waves; 0 look after every trace. ``levels``: exact near these."""
    lattice = Lattice.of(counts, size)
    if not waves:
        return frontier_of(lattice.optimum, tolerance, levels)
    return frontier_of(lambda prices: optimum_in_waves(lattice, prices, waves), tolerance, levels)
