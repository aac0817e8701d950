"""The thetas of the paper's voting-curve panels, by the number of options and by name (Liu et al., PETS)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

_NAMES = ("dominate", "head-heavy", "linear", "flat", "uniform")
_DOWN = np.arange(10, 0, -1)
_THETAS: Final[dict[int, list[tuple[float, ...]]]] = {
    2: [(0.9, 0.1), (0.8, 0.2), (0.7, 0.3), (0.6, 0.4), (0.5, 0.5)],  # ours: the caption gives none for M = 2
    4: [
        (0.8, 0.1, 0.1, 0),
        (0.6, 0.3, 0.05, 0.05),
        (0.4, 0.3, 0.2, 0.1),
        (0.3, 0.25, 0.25, 0.2),
        (0.25,) * 4,
    ],
    10: [
        (0.8, 0.15, 0.05, *[0.0] * 7),
        (0.25, 0.15, 0.10, *[0.5 / 7] * 7),
        tuple((_DOWN / 55).tolist()),
        tuple((_DOWN**0.4 / np.sum(_DOWN**0.4)).tolist()),
        (0.1,) * 10,
    ],
}
PANELS: Final[Mapping[int, Mapping[str, tuple[float, ...]]]] = MappingProxyType(
    {M: MappingProxyType(dict(zip(_NAMES, thetas, strict=True))) for M, thetas in _THETAS.items()}
)
"""theta by M and name, from the caption of the panels."""
