"""A recorded question is checked where it is made, so that whatever is in memory can be written."""

import pytest

from pets.errors import PoolError
from pets.pools import PooledQuestion


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, '"id" is an empty string'),
        ({"gold": ""}, '"gold" is an empty string'),
        ({"answers": ()}, '"answers" is empty; every question needs at least one trace'),
        ({"answers": ("A", "")}, r"answers\[1\] is an empty string; a trace without an answer is null"),
        ({"tokens": (1,)}, '"tokens" has 1 entries for 2 answers; give one per trace'),
        ({"tokens": (1, -1)}, r"tokens\[1\] is -1; tokens are whole numbers"),
        ({"confidence": (1.0, float("inf"))}, r"confidence\[1\] is Infinity; a confidence is finite"),
        ({"confidences": {"tail": (1.0,)}}, r'"confidences\.tail" has 1 entries for 2 answers'),
        ({"confidences": {"tail": (1.0, -1.0)}}, r"confidences\.tail\[1\] is -1\.0"),
    ],
)
def test_what_no_pool_can_hold_is_refused(fields, message):
    with pytest.raises(PoolError, match=message):
        PooledQuestion(**{"id": "q", "answers": ("A", None), **fields})


def test_questions_can_be_members_of_sets_whatever_confidences_they_have():
    question = PooledQuestion("q", ("A",), confidences={"tail": (1.0,)})
    assert len({question, PooledQuestion("q", ("A",), confidences={"tail": (1.0,)})}) == 1
