"""The doubt that a rival is clearly ahead of the leader, pair by pair: cheap, exact for two answers.

Under theta ~ Dir(alpha) the leader's share x of the pair that it makes with rival k is Beta(alpha_1, alpha_k), whatever
the pair's share S of all. The rival's share exceeds the leader's by more than the zone where x < (1 - zone / S) / 2.
With S at its mean, and the rivals added up,

    doubt = sum_k I_{(1 - zone / S_k) / 2}(alpha_1, alpha_k),     S_k = (alpha_1 + alpha_k) / sum alpha.

:func:`pets.core.certificate.p_good` is exact for any number, and hundreds of times as slow.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import betainc

__all__ = ["doubt_by_pairs"]


def doubt_by_pairs(alpha: Sequence[float], zone: float) -> float:
    """The sum over rivals of P(its share exceeds the first one's by more than ``zone``); 1 at most.

    >>> round(doubt_by_pairs((3.0, 2.0), 0.1), 12) == round(float(betainc(3.0, 2.0, 0.45)), 12)
    True
    """
    first, rivals = alpha[0], np.array(alpha[1:])
    bars = np.maximum(0.0, (1.0 - zone * sum(alpha) / (first + rivals)) / 2.0)
    return min(1.0, float(betainc(first, rivals, bars).sum()))
