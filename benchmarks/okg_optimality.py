"""How much of the attainable value okg gets: against the exact dynamic program of the paper's MDP.

N = 2 or 3 binary questions, 1 to 8 traces, priors Beta(a, b) from a small set, exact policy evaluation over every
belief state, the index being that of the policy okg:prior=a. Value = expected posterior probability of the population
vote, summed over questions (eq. 5).
"""

import json
from collections.abc import Callable
from functools import cache
from itertools import combinations_with_replacement

import numpy as np

from pets.core.dirichlet import U
from pets.core.policy import View
from pets.core.tally import Tally
from pets.policies.okg import OKG

Question = tuple[float, float]
State = tuple[Question, ...]
Choice = Callable[[State, int], int]

PRIORS: tuple[Question, ...] = ((1.0, 1.0), (2.0, 1.0), (0.5, 0.5), (3.0, 2.0))


@cache
def value_now(question: Question) -> float:
    return U(question)


@cache
def index(question: Question) -> float:
    """okg's own index: Beta(a, b) as whole votes on top of a prior of 1 pseudo-vote an option, or of the fraction."""
    prior = question[0] % 1 or 1.0
    counts = sorted((round(a - prior) for a in question if a > prior), reverse=True)
    return OKG(prior=prior).index(Tally(tuple(counts), options=2), View())


def step(state: State, i: int, label: int) -> State:
    a, b = state[i]
    return (*state[:i], (a + 1, b) if label == 0 else (a, b + 1), *state[i + 1 :])


def expected(state: State, i: int, value: Callable[[State], float]) -> float:
    """The mean of ``value`` over the next label of question i under the posterior predictive."""
    a, b = state[i]
    return (a * value(step(state, i, 0)) + b * value(step(state, i, 1))) / (a + b)


def optimal_value(state: State, budget: int) -> float:
    @cache
    def best(state: State, left: int) -> float:
        if left == 0:
            return sum(value_now(question) for question in state)
        return max(expected(state, i, lambda after: best(after, left - 1)) for i in range(len(state)))

    return best(state, budget)


def policy_value(choice: Choice, state: State, budget: int) -> float:
    @cache
    def run(state: State, left: int) -> float:
        if left == 0:
            return sum(value_now(question) for question in state)
        return expected(state, choice(state, budget - left), lambda after: run(after, left - 1))

    return run(state, budget)


def okg(state: State, spent: int) -> int:
    return max(range(len(state)), key=lambda i: index(state[i]))


def uniform(state: State, spent: int) -> int:
    return spent % len(state)


def main() -> None:
    print(__doc__)
    ratios: dict[str, list[float]] = {"okg": [], "uniform": []}
    for N in (2, 3):
        for state in combinations_with_replacement(PRIORS, N):
            for budget in range(1, 9):
                best = optimal_value(state, budget)
                for name, choice in (("okg", okg), ("uniform", uniform)):
                    ratios[name].append(policy_value(choice, state, budget) / best)
    figures = {
        name: {"mean": round(float(np.mean(r)), 5), "worst": round(min(r), 5), "median": round(float(np.median(r)), 5)}
        for name, r in ratios.items()
    }
    print(json.dumps({"benchmark": "okg_optimality", "instances": len(ratios["okg"]), "share_of_optimum": figures}))


if __name__ == "__main__":
    main()
