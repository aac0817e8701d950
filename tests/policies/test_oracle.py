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
    oracle = Oracle(K=3).fit(Training(list(arriving.values()), arriving=arriving))
    quotas = {id: oracle.quota(Tally(question=id), VIEW) for id in arriving}
    assert quotas["d"] > quotas["b"]
    with pytest.raises(InputError, match="knows 6 questions, not 'z'"):
        oracle.quota(Tally(question="z"), VIEW)


def test_clusters_are_of_the_training_questions_and_arrivals_go_to_the_nearest():
    training = Training(
        ["A" * 64, "A" * 60 + "B" * 4] * 4 + ["A" * 35 + "B" * 29] * 2, arriving={"x": "A" * 33 + "B" * 31}
    )
    oracle = Oracle(K=2).fit(training)
    assert [row[0] for row in oracle.grids] == [0.8, 0.2] and oracle.labels == {"x": 1}
