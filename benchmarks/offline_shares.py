"""Where okg's budget goes in the long run: shares proportional to 1 / KL(theta || 1/2) (Liu et al., appendix D.2).

Five binary questions, theta = .55, .6, .7, .8, .9, the index of the policy okg:prior=1 (for two options the closed-form
log Delta), a million decisions, 8 seeds. Prints each share over its limit, mean and spread over the seeds.
"""

import json
from collections.abc import Iterator
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

from pets.core.policy import View
from pets.core.tally import Tally
from pets.policies.okg import OKG

THETA = (0.55, 0.6, 0.7, 0.8, 0.9)
SEEDS = 8
DECISIONS = 1_000_000


def log_gain(votes: list[int]) -> float:
    """okg's index of a binary question."""
    counts = (max(votes), min(votes)) if min(votes) else (max(votes),) if max(votes) else ()
    return OKG(prior=1.0).index(Tally(counts, options=2), View())


def shares(seed: int, decisions: int) -> list[float]:
    rng = np.random.default_rng(seed)
    coins: list[Iterator[int]] = [iter(()) for _ in THETA]
    counts = [[0, 0] for _ in THETA]
    heap = [(-log_gain([0, 0]), i) for i in range(len(THETA))]
    heapify(heap)
    for _ in range(decisions):
        i = heap[0][1]
        label = next(coins[i], None)
        if label is None:
            coins[i] = iter((rng.random(100_000) >= THETA[i]).astype(int).tolist())
            label = next(coins[i])
        pair = counts[i]
        pair[label] += 1
        heapreplace(heap, (-log_gain(pair), i))
    spent = np.array([sum(pair) for pair in counts])
    return [float(share) for share in spent / spent.sum()]


def limits() -> NDArray[np.float64]:
    theta = np.array(THETA)
    kl = theta * np.log(2 * theta) + (1 - theta) * np.log(2 * (1 - theta))
    shares: NDArray[np.float64] = (1 / kl) / (1 / kl).sum()
    return shares


def main() -> None:
    print(__doc__)
    ratios = np.array([shares(seed, DECISIONS) for seed in range(SEEDS)]) / limits()
    for theta, mean, spread in zip(THETA, ratios.mean(axis=0), ratios.std(axis=0), strict=True):
        print(f"theta {theta}: share / limit = {mean:.4f} ± {spread:.4f}")
    worst = float(np.abs(ratios.mean(axis=0) - 1).max())
    print(
        json.dumps(
            {
                "benchmark": "offline_shares",
                "decisions": DECISIONS,
                "seeds": SEEDS,
                "mean_ratio": dict(zip(map(str, THETA), ratios.mean(axis=0).round(4).tolist(), strict=True)),
                "worst_error_of_mean": round(worst, 4),
            }
        )
    )


if __name__ == "__main__":
    main()
