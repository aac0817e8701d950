"""Where okg's budget goes in the long run: shares proportional to 1 / KL(theta || 1/2) (Liu et al., appendix D.2).

    python -m benchmarks.offline_shares [--traces 1000000] [--seeds 8]

Five binary questions, theta = .55, .6, .7, .8, .9, without a cap, for the default okg (its prior is learned from these
five, and refitted as the batch grows) and for okg:prior=1. The best question gets the next traces: one, or once it has
more than 300, a three-hundredth of what it has had. Prints each share over its limit, mean and spread over the seeds.
"""

import argparse
import json
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from pets.core.policy import View
from pets.core.tally import Tally
from pets.policies.okg import OKG

THETA = (0.55, 0.6, 0.7, 0.8, 0.9)
STEP = 300  # part of a question's traces that it gets at once


def shares(policy: OKG, seed: int, traces: int) -> list[float]:
    rng = np.random.default_rng(seed)
    tallies = [Tally(options=2) for _ in THETA]
    votes = np.zeros((len(THETA), 2), dtype=np.int64)
    indices = [policy.index(tally, View()) for tally in tallies]
    refit_at = 1.0
    while votes.sum() < traces:
        best = int(np.argmax(indices))
        more = max(1, int(votes[best].sum()) // STEP)
        first = int(rng.binomial(more, THETA[best]))
        votes[best] += (first, more - first)
        tallies[best] = Tally(tuple(sorted((n for n in votes[best].tolist() if n), reverse=True)), options=2)
        if policy.learns and votes.sum() >= refit_at:
            policy, refit_at = policy.refit(Counter(tallies)), votes.sum() * policy.refit_growth
            indices = [policy.index(tally, View()) for tally in tallies]
        indices[best] = policy.index(tallies[best], View())
    spent: list[float] = (votes.sum(axis=1) / votes.sum()).tolist()
    return spent


def limits() -> NDArray[np.float64]:
    theta = np.array(THETA)
    kl = theta * np.log(2 * theta) + (1 - theta) * np.log(2 * (1 - theta))
    shares: NDArray[np.float64] = (1 / kl) / (1 / kl).sum()
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    print(__doc__)
    figures: dict[str, object] = {}
    for name, policy in (("okg", OKG()), ("okg:prior=1", OKG(prior=1.0))):
        ratios = np.array([shares(policy, seed, args.traces) for seed in range(args.seeds)]) / limits()
        for theta, mean, spread in zip(THETA, ratios.mean(axis=0), ratios.std(axis=0), strict=True):
            print(f"{name:12} theta {theta}: share / limit = {mean:.4f} ± {spread:.4f}")
        figures[name] = {
            "mean_ratio": dict(zip(map(str, THETA), ratios.mean(axis=0).round(4).tolist(), strict=True)),
            "worst_error_of_mean": round(float(np.abs(ratios.mean(axis=0) - 1).max()), 4),
        }
    print(json.dumps({"benchmark": "offline_shares", "traces": args.traces, "seeds": args.seeds, **figures}))


if __name__ == "__main__":
    main()
