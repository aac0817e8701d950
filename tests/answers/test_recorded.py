"""Answers that were read before are taken as they stand."""

from pets.answers.recorded import Recorded
from pets.registry import make_answer_type, spec_of


def test_an_answer_stays_as_it_was_recorded():
    recorded = make_answer_type("recorded:python:os:system")
    assert recorded == Recorded("python:os:system") and spec_of(recorded) == "recorded:python:os:system"
    assert recorded.labels([" 4", "4", "", None]) == [" 4", "4", None, None]
    assert spec_of(Recorded()) == "recorded"
