"""The settings of a replay: what they refuse, and what they seed."""

import pytest

from pets.errors import InputError
from pets.lab import ReplayConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repetitions": 0}, "repetitions is at least 1; got 0"),
        ({"seed": -1}, "seed is at least 0; got -1"),
        ({"reference": "half"}, "expected one of 'whole', 'disjoint'"),
        ({"train": 0}, "train is at least 1; got 0"),
        ({"budgets": ()}, "1 trace or more"),
        ({"certified": (8.0,), "weighted": True}, "certificates are checked"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ReplayConfig(**settings)


def test_a_stream_needs_a_question_after_training():
    assert ReplayConfig(train=5).train_of(6) == 5
    with pytest.raises(InputError, match="5 questions are too few for 5 training"):
        ReplayConfig(train=5).train_of(5)


def test_every_repetition_of_every_pool_has_its_own_seeds():
    seeds = [ReplayConfig(seed=7).seeds(pool, repetition) for pool in ("a", "b") for repetition in (0, 1)]
    assert len({tuple(words) for words in seeds}) == 4 and all(words[0] == 7 for words in seeds)
