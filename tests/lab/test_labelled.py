"""Recorded strings become votes; gold joins after them."""

import pytest

from pets.errors import InputError, SpecError
from pets.lab.labelled import read_answers, relabelled
from pets.pools import Pool, PooledQuestion


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


SAID = ("Let me see. 8 x 9 = 72, so the answer is 72.", "I think it is **71**.", "The answer is 72.0")


def test_texts_are_read_by_the_code_that_reads_a_live_models():
    asked = PooledQuestion("q", ("no", "no", "no"), "#### 72", texts=SAID)
    assert read_answers(pool(asked), "number").questions[0].labels == ("72", "71", "72")
    assert read_answers(pool(asked), "number").questions[0].gold == "72"
    assert read_answers(pool(asked)).questions[0].labels == ("no", "no", "no")  # nobody asked to read them anew


def test_a_trace_that_was_cut_gives_no_answer_however_it_reads():
    asked = PooledQuestion("q", (None,) * 3, texts=SAID, cut=(True, False, False))
    assert read_answers(pool(asked), "number").questions[0].labels == (None, "71", "72")


def test_texts_alone_are_read_by_the_manifests_kind_or_by_what_they_look_like():
    asked = PooledQuestion("q", (None,) * 3, texts=SAID)
    assert read_answers(pool(asked, kind="number")).questions[0].labels == ("72", "71", "72")
    chosen = read_answers(pool(asked))
    assert chosen.questions[0].labels == ("72", "71", "72") and chosen.answer == "number"
    assert chosen.note == "auto read 1 question as number"
    named = PooledQuestion("n", (None,) * 2, texts=("It is Paris.", "The answer is Rome."))
    mixed = read_answers(pool(asked, named))
    assert [question.labels[0] for question in mixed.questions] == ["72", "paris"] and mixed.answer == "raw"
    assert mixed.note == "auto read 1 question as number, 1 as text"


def test_answers_that_are_texts_are_told_or_read():
    asked = PooledQuestion("q", tuple(f"{'Hm. ' * 30}{text}" for text in SAID), "72")
    with pytest.raises(InputError, match=r"look like whole texts.*--answer raw"):
        read_answers(pool(asked))
    assert read_answers(pool(asked), "raw").questions[0].labels == asked.answers
    read = read_answers(pool(asked), "number")
    assert read.questions[0].labels == ("72", "71", "72") and "whole texts" in read.note


def test_short_texts_are_told_too_and_short_answers_are_not():
    said = PooledQuestion("q", tuple(f"Let's think. The answer is \\boxed{{{n}}}." for n in (17, 17, 18)), "17")
    with pytest.raises(InputError, match="look like whole texts"):
        read_answers(pool(said))
    answers = ("the answer to everything", "\\boxed{17}", "United States of America", "5 km/h")
    assert read_answers(pool(PooledQuestion("q", answers))).answer == "raw"


def test_texts_under_a_manifests_kind_are_read_by_it():
    said = PooledQuestion("q", tuple(f"Let's think. The answer is \\boxed{{{n}}}." for n in (17, 17, 18)), "17")
    read = read_answers(pool(said, kind="number"))
    assert read.questions[0].labels == ("17", "17", "18") and read.answer == "number" and "whole texts" in read.note


def test_where_nothing_can_be_read_an_example_is_shown():
    asked = PooledQuestion("q", (None, None), texts=("I cannot say.", "Who knows?"))
    with pytest.raises(InputError, match=r'"number" reads no answer in pool "p", not in .I cannot say\.. for one'):
        read_answers(pool(asked), "number")


def test_a_question_without_an_answer_is_left_out_and_told():
    silent = PooledQuestion("r", (None,), texts=("Who knows?",))
    read = read_answers(pool(PooledQuestion("q", (None,) * 3, texts=SAID), silent), "number")
    assert [question.id for question in read.questions] == ["q"]
    assert read.note == "1 question is left out: it has no answer that could be read"


def test_what_was_read_can_be_written():
    asked = PooledQuestion("q", (None,) * 3, "#### 72", tokens=(9, 5, 4), texts=SAID)
    whole = pool(asked, PooledQuestion("r", (None,), "?", texts=("Who knows?",)))
    (question,) = relabelled(whole, read_answers(whole, "number")).questions
    assert question == PooledQuestion("q", ("72", "71", "72"), "72", (9, 5, 4), texts=SAID)


def test_no_manifest_runs_code_by_naming_a_function():
    asked = PooledQuestion("q", ("4",))
    with pytest.raises(InputError, match="no file can name"):
        read_answers(pool(asked, kind="python:sys:exit"))
