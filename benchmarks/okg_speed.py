"""okg:prior=1 against a plain Monte Carlo okg, both timed in one run: 198 four-option questions, mean 16.

The rival is the paper's description done plainly and vectorized: at every step 500 posterior draws re-score every
question under each hypothetical vote, then the best one is sampled. It is timed over 100 steps and extrapolated.
Ours starts from an empty memo and runs to the end, five times; the median counts.
"""

import json
import time

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.dirichlet import clear_memo
from pets.policies.okg import OKG
from pets.types import Question, Trace

N, M, MEAN, DRAWS, TIMED = 198, 4, 16, 500, 100
RUNS = 5


def monte_carlo_gain(alpha: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """R+ of every question, (N,), from DRAWS gamma draws of each belief and of each hypothetical update."""
    hypotheses = np.concatenate([alpha[:, None, :], alpha[:, None, :] + np.eye(M)], axis=1)  # (N, 1 + M, M)
    winners = rng.standard_gamma(hypotheses, size=(DRAWS, *hypotheses.shape)).argmax(axis=-1)  # (DRAWS, N, 1 + M)
    U = (winners[..., None] == np.arange(M)).mean(axis=0).max(axis=-1)  # (N, 1 + M)
    gain: NDArray[np.float64] = U[:, 1:].max(axis=1) - U[:, 0]
    return gain


def time_monte_carlo(draws: NDArray[np.int64], rng: np.random.Generator) -> float:
    """Seconds for N * MEAN steps, extrapolated from TIMED of them."""
    alpha = np.ones((N, M))
    taken = np.zeros(N, dtype=np.int64)
    start = time.perf_counter()
    for _ in range(TIMED):
        i = int(monte_carlo_gain(alpha, rng).argmax())
        alpha[i, draws[i, taken[i] % draws.shape[1]]] += 1
        taken[i] += 1
    return (time.perf_counter() - start) / TIMED * N * MEAN


def time_ours(draws: NDArray[np.int64]) -> float:
    """Seconds for N * MEAN decisions through ask and tell, from an empty memo."""
    clear_memo()
    labels = "ABCD"
    answers = {f"q{i}": [labels[k] for k in row] for i, row in enumerate(draws.tolist())}
    start = time.perf_counter()
    allocator = Allocator(OKG(prior=1.0), Budget(N * MEAN), [Question(f"q{i}", options=M) for i in range(N)])
    while launches := allocator.ask():
        question, number = launches[0]
        allocator.tell(Trace(question, number, answers[question][number % draws.shape[1]]))
    return time.perf_counter() - start


def main() -> None:
    print(__doc__)
    rng = np.random.default_rng(0)
    draws = np.array([rng.choice(M, size=512, p=theta) for theta in rng.dirichlet([0.5] * M, size=N)])
    rival = time_monte_carlo(draws, rng)
    ours = [time_ours(draws) for _ in range(RUNS)]
    median = float(np.median(ours))
    print(f"Monte Carlo okg, extrapolated: {rival:.1f} s; ours: {median * 1e3:.0f} ms (of {RUNS} cold runs)")
    print(
        json.dumps(
            {
                "benchmark": "okg_speed",
                "decisions": N * MEAN,
                "monte_carlo_seconds": round(rival, 1),
                "ours_seconds_median": round(median, 4),
                "ours_seconds_min_max": [round(min(ours), 4), round(max(ours), 4)],
                "ratio": round(rival / median),
            }
        )
    )


if __name__ == "__main__":
    main()
