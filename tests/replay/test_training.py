"""The split, and what each online policy is trained on."""

import pytest

from pets.errors import InputError
from pets.registry import make_policy
from pets.replay.protocol import Protocol
from pets.replay.readings import read_answers
from pets.replay.training import fitted, split


@pytest.fixture
def parts(build):
    return split(read_answers(build(questions=20)), Protocol(train=6), 2)


def test_training_questions_and_arrivals_share_nothing(parts, build):
    assert len(parts.train) == 6 and sorted(parts.train + parts.arrivals) == list(range(20))
    again = split(read_answers(build(questions=20)), Protocol(train=6), 2)
    other = split(read_answers(build(questions=20)), Protocol(train=6), 3)
    assert parts.arrivals == again.arrivals != other.arrivals


def test_a_stream_needs_a_question(build):
    with pytest.raises(InputError, match="12 questions are too few for 12 training"):
        split(read_answers(build()), Protocol(train=12), 0)


def test_the_grid_and_the_prices_come_from_the_training_questions(parts):
    assert fitted(make_policy("online_grid"), parts).grids is not None
    assert fitted(make_policy("price"), parts).table is not None
    assert fitted(make_policy("uniform"), parts) == make_policy("uniform")


def test_the_oracle_knows_the_arriving_questions_alone(parts):
    known = set(fitted(make_policy("oracle:K=2"), parts).labels)
    assert known == {f"q{row}" for row in parts.arrivals}


def test_a_cold_start_takes_no_training(parts):
    assert fitted(make_policy("price:cold=true"), parts) == make_policy("price:cold=true")
