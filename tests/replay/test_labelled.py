"""Recorded strings become votes; gold joins after them."""

import pytest

from pets.errors import InputError, SpecError
from pets.pools import Pool, PooledQuestion
from pets.replay.labelled import read_answers


def pool(*questions, kind=None):
    return Pool("p", tuple(questions), kind)


def test_answers_are_taken_as_recorded_without_a_kind():
    read = read_answers(pool(PooledQuestion("q", ("(C)", "C", None), gold="C")))
    assert read.questions[0].labels == ("(C)", "C", None) and read.answer == "raw" and read.options is None


def test_the_manifests_kind_reads_them():
    read = read_answers(pool(PooledQuestion("q", ("(C)", "C", None, "D"), gold="c."), kind="choice"))
    assert read.questions[0].labels == ("C", "C", None, "D") and read.questions[0].gold == "C"
    assert (read.answer, read.options) == ("choice", 2)


def test_options_are_those_of_the_whole_pool_not_of_a_question():
    first, second = PooledQuestion("q", ("A", "A")), PooledQuestion("r", ("B", "C"))
    assert read_answers(pool(first, second, kind="choice")).options == 3


def test_a_kind_that_reads_nothing_is_left_aside_and_told():
    read = read_answers(pool(PooledQuestion("q", ("yes", "no", "no"), gold="no"), kind="choice"))
    assert read.questions[0].labels == ("yes", "no", "no") and "as recorded" in read.note
    assert (read.answer, read.options) == ("raw", 2)


def test_choices_that_are_all_bare_digits_are_read_as_digits():
    first, second = PooledQuestion("q", ("0", "1", None, "1"), gold="(1)"), PooledQuestion("r", ("4", "0"))
    read = read_answers(pool(first, second, kind="choice"))
    assert read.questions[0].labels == ("0", "1", None, "1") and read.questions[0].gold == "1"
    assert (read.answer, read.options, read.note) == ("choice:digits=0-4", 3, "")
    mixed = read_answers(pool(first, PooledQuestion("r", ("4", "10")), kind="choice"))
    assert mixed.answer == "raw" and mixed.questions[1].labels == ("4", "10")


def test_an_answer_type_that_was_asked_for_is_not_left_aside():
    read = read_answers(pool(PooledQuestion("q", ("0", "1", "A")), kind="number"), "choice")
    assert read.questions[0].labels == (None, None, "A") and not read.note


def test_pass_at_1_counts_known_gold_alone():
    read = read_answers(pool(PooledQuestion("q", ("A", "B", "A", None), gold="A"), PooledQuestion("r", ("B",))))
    assert read.pass_at_1 == 0.5
    assert read_answers(pool(PooledQuestion("r", ("B",)))).pass_at_1 is None


def test_mistakes_are_told():
    with pytest.raises(SpecError, match="no answer type 'poem'"):
        read_answers(pool(PooledQuestion("q", ("A",))), "poem")
    with pytest.raises(InputError, match="no question"):
        read_answers(pool())
