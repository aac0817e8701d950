"""What the demo shows: savings, where the traces went, the live votes."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from pets.cli.demo_report import BandedCurve, LivePart, RecordedPart, compare_recorded, print_live
from pets.engine import Answer
from pets.pools import Pool, PooledQuestion

RECORDED = RecordedPart(
    300,
    64,
    8,
    (BandedCurve("okg", ((1.0, 0.6, 0.0),), 12.0), BandedCurve("uniform", ((1.0, 0.6, 0.0),), 48.0)),
    {"okg": 0.9, "uniform": 0.83},
    (7.0, 1.5),
    (),
)


def curves(ours, theirs):
    return (replace(RECORDED.curves[0], crossing=ours), replace(RECORDED.curves[1], crossing=theirs))


def test_the_title_is_what_is_saved():
    assert RECORDED.title == "The same vote for 25% of the traces"
    assert replace(RECORDED, curves=curves(48.0, 48.0)).title == "okg and uniform on 300 recorded questions"
    assert replace(RECORDED, curves=curves(None, 48.0)).title == "okg and uniform on 300 recorded questions"


def test_the_sentences_say_what_is_counted_and_both_ends():
    words = " ".join(RECORDED.sentences)
    assert "the same answer as all 64?" in words
    after = "95% of the answers are the same after 12.0 traces per question with okg, after 48.0 traces per question"
    assert f"{after} with uniform." in words
    assert "With 8 traces per question: 90.0% with okg, 83.0% with uniform (+7.0 ± 1.5 points over 5 draws)." in words
    assert "never with uniform." in replace(RECORDED, curves=curves(12.0, None)).sentences[1]


def test_a_unanimous_pool_leaves_nothing_to_save():
    pool = Pool("toy", tuple(PooledQuestion(f"q{i}", ("A",) * 16) for i in range(6)))
    recorded = compare_recorded(pool)
    assert (recorded.questions, recorded.size, recorded.mean_budget) == (6, 16, 8)
    ours, theirs = (curve.crossing for curve in recorded.curves)
    assert ours == theirs <= 1.0 and recorded.gain == (0.0, 0.0)
    assert recorded.title == "okg and uniform on 6 recorded questions"
    assert [(group.label, group.questions) for group in recorded.classes] == [("nearly all agree (over 90 %)", 6)]


def test_the_traces_go_where_answers_differ():
    easy = [PooledQuestion(f"e{i}", ("A",) * 64) for i in range(6)]
    hard = [PooledQuestion(f"h{i}", ("A", "B") * 30 + ("A",) * 4) for i in range(6)]
    easy_class, hard_class = compare_recorded(Pool("toy", (*easy, *hard))).classes
    assert dict(easy_class.traces)["okg"] < dict(hard_class.traces)["okg"]
    assert dict(easy_class.traces)["uniform"] == dict(hard_class.traces)["uniform"] == 8.0
    shares = [dict(group.traces)["okg"] * group.questions for group in (easy_class, hard_class)]
    assert sum(shares) == pytest.approx(8 * 12)


def test_live_answers_are_told_with_all_their_votes():
    row = Answer("sum-2-3", "5", {"5": 3.0, "6": 1.0}, 0.9, 4)
    live = LivePart("A model.", (row,), {"sum-2-3": "5"})
    sink = io.StringIO()
    print_live(live, Console(file=sink, width=100))
    assert "What is 2 + 3? 5 (certain 90%): 5 ×3, 6 ×1" in sink.getvalue()
    assert "1 of 1 votes are those" in sink.getvalue()


def test_without_a_model_the_reason_stands_alone():
    sink = io.StringIO()
    print_live(LivePart("No model."), Console(file=sink, width=100))
    assert sink.getvalue() == "\nLive: No model.\n"
