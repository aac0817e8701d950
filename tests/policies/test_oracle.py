"""The oracle: what it knows of the questions to come, and what it refuses."""

import pytest

from pets.core.policy import Training, View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.oracle import Oracle

VIEW = View(budget_left=1200, questions_left=100, cap=64)


def test_the_oracle_knows_its_questions_and_no_others():
    counts = {"a": (60, 4), "b": (64,), "c": (63, 1), "d": (36, 28), "e": (30, 20, 14), "f": (50, 14)}
    arriving = {id: "".join("ABC"[m] * n for m, n in enumerate(votes)) for id, votes in counts.items()}
    oracle = Oracle(K=3).fit(Training([], arriving=arriving))
    quotas = {id: oracle.quota(Tally(question=id), VIEW) for id in arriving}
    assert quotas["d"] > quotas["b"]
    with pytest.raises(InputError, match="knows 6 questions, not 'z'"):
        oracle.quota(Tally(question="z"), VIEW)
