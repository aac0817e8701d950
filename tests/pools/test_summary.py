"""The figures of a pool, by hand."""

import pytest

from pets.errors import PoolError
from pets.pools import Pool, PooledQuestion, summarize


def test_a_summary_by_hand():
    pool = Pool(
        "toy",
        (
            PooledQuestion("1", ("A", "B", "A", None), "A", (10, 20, 30, 40), (1.0, None, 3.0, None)),
            PooledQuestion("2", ("C", "C"), "D", (100, 0)),
            PooledQuestion("3", ("B", "A"), "A"),  # tied: B was first, so the vote is wrong
            PooledQuestion("4", ("A", "B", "C", "D")),
        ),
        "choice",
        ("one message",),
    )
    summary = summarize(pool)
    assert (summary.pool, summary.kind, summary.questions, summary.skipped) == ("toy", "choice", 4, 1)
    assert (summary.traces, summary.traces_min, summary.traces_max) == (12, 2, 4)
    assert (summary.answers_mean, summary.answers_max) == ((2 + 1 + 2 + 4) / 4, 4)
    assert summary.pass_at_1 == pytest.approx((2 / 4 + 0 + 1 / 2) / 3)
    assert summary.vote_accuracy == pytest.approx(1 / 3)
    assert summary.unanimous == 1 / 4
    assert summary.leader_share == pytest.approx((2 / 3 + 1 + 1 / 2 + 1 / 4) / 4)
    assert summary.no_answer == 1 / 12
    assert (summary.tokens_mean, summary.tokens_median, summary.tokens_max) == (pytest.approx(200 / 6), 25.0, 100)
    assert summary.tokens_p95 == pytest.approx(40 + 0.75 * 60)
    assert (summary.confidence_mean, summary.confidence_sd) == (2.0, 1.0)
    assert summary.confidence_missing == 10 / 12


def test_what_was_not_recorded_is_none():
    summary = summarize(Pool("toy", (PooledQuestion("1", (None, None)),)))
    for name in ("pass_at_1", "vote_accuracy", "unanimous", "leader_share", "tokens_mean", "tokens_max"):
        assert getattr(summary, name) is None
    assert summary.confidence_mean is None and summary.confidence_missing is None and summary.no_answer == 1.0
    with pytest.raises(PoolError, match='pool "none" has no question'):
        summarize(Pool("none", ()))
