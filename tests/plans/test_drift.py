"""The drift alarm: its false alarms are as rare as it says, and it sees what has changed."""

import math
import pickle

import numpy as np
import pytest
from scipy.special import gammaln

from pets.errors import InputError
from pets.plans import Drift
from pets.plans import drift as module

THETA = [0.6, 0.2, 0.1, 0.07, 0.03]
HARDER = [0.35, 0.25, 0.15, 0.15, 0.1]


def watch(rng, before, after=(), train=40, rate=0.1, theta=THETA):
    """The alarm on a stream whose training patterns were drawn too."""
    shares = rng.multinomial(train, theta) / train
    drift = Drift(tuple(shares.tolist()), train, rate)
    for pattern in [*before, *after]:
        drift.see(int(pattern))
    return drift


def test_false_alarms_are_no_more_frequent_than_the_rate():
    rng = np.random.default_rng(0)
    runs = 250
    alarms = sum(watch(rng, rng.choice(5, size=150, p=THETA)).alarm for _ in range(runs))
    assert alarms / runs <= 0.1 + 2 * math.sqrt(0.1 * 0.9 / runs)


def test_a_harder_stream_is_noticed():
    rng = np.random.default_rng(1)
    alarms = [watch(rng, rng.choice(5, size=300, p=HARDER), train=200, rate=0.01).alarm for _ in range(20)]
    assert np.mean(alarms) >= 0.8


def test_a_change_in_the_middle_is_noticed_soon_after():
    rng = np.random.default_rng(2)
    calm, changed = rng.choice(5, size=256, p=THETA), rng.choice(5, size=256, p=HARDER[::-1])
    drift = watch(rng, calm, train=200, rate=0.01)
    assert not drift.alarm
    for pattern in changed.tolist():
        drift.see(pattern)
    assert 256 < drift.alarmed_at < 320


def marginal(alpha, counts):
    """log P of a sequence with these counts under Dir(alpha)."""
    alpha, counts = np.array(alpha), np.array(counts)
    return gammaln(alpha.sum()) - gammaln((alpha + counts).sum()) + (gammaln(alpha + counts) - gammaln(alpha)).sum()


def test_the_evidence_of_the_first_start_is_the_ratio_of_two_marginals():
    drift = Drift((0.5, 0.2, 0.2, 0.1, 0.0), 10)
    patterns = [0, 3, 4, 4, 1, 0, 2]
    for pattern in patterns:
        drift.see(pattern)
    counts = np.bincount(patterns, minlength=5)
    ratio = marginal([0.5] * 5, counts) - marginal(0.5 + 10 * np.array(drift.shares), counts)
    assert drift.log_evidence == pytest.approx(np.logaddexp(ratio, 0.0) - math.log(2))


def test_evidence_is_a_martingale_under_the_null():
    """Its mean over the next pattern, weighed as the null has it, is what it is now."""
    before = [0, 0, 1, 4, 2] * 14  # past the second start
    shares = (0.5, 0.2, 0.2, 0.05, 0.05)

    def after(patterns):
        drift = Drift(shares, 20)
        for pattern in patterns:
            drift.see(pattern)
        return math.exp(drift.log_evidence)

    null = 0.5 + 20 * np.array(shares) + np.bincount(before, minlength=5)
    null /= null.sum()
    mean = sum(chance * after([*before, pattern]) for pattern, chance in enumerate(null.tolist()))
    assert mean == pytest.approx(after(before))


def test_the_alarm_stays_and_tells_its_moment():
    drift = Drift((0.96, 0.01, 0.01, 0.01, 0.01), 500)
    for _ in range(10):
        drift.see(4)
    at = drift.alarmed_at
    assert drift.alarm
    for _ in range(200):
        drift.see(0)
    state = drift.to_plain()
    assert drift.alarm
    assert (state["alarmed_at"], state["seen"]) == (at, 210)
    assert state["found"]["1-1-1-1"] == pytest.approx(10 / 210)
    assert sum(state["planned"].values()) == pytest.approx(1.0)


def test_before_anything_was_seen_there_is_nothing_to_say(plan):
    drift = Drift.of(plan)
    assert (drift.p_value, drift.alarm, drift.to_plain()["seen"]) == (1.0, False, 0)


def test_what_is_no_pattern_is_refused(plan):
    with pytest.raises(InputError, match="pattern 5"):
        Drift.of(plan).see(5)
    with pytest.raises(InputError, match="rate"):
        Drift.of(plan, rate=0.0)


def test_a_long_stream_is_watched_in_fixed_memory(monkeypatch):
    monkeypatch.setattr(module, "MAX_STARTS", 3)
    drift = Drift((0.2,) * 5, questions=50)
    sizes = []
    for number in range(64 * 8):
        drift.see(number % 5)
        if number % 64 == 63:
            sizes.append(len(pickle.dumps(drift)))
    assert max(sizes[3:]) < 1.1 * sizes[3] and not drift.alarm
    for _ in range(64):
        drift.see(4)
    assert drift.alarm  # a change is still noticed
