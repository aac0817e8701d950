"""Soft votes: shares against brute force, worth against populations that are known, whole votes."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.soft import MAX_WORTH, SoftTally, SoftWorth, learn_worth
from pets.types import SoftVote

LEARNED = SoftWorth(spell=0.2, other=0.9, unsaid=0.5, spread=0.0, bias=0.01)
TOKENS = st.sampled_from(["a", "b", "c", ""])


@st.composite
def ballots(draw):
    """A trace's answer and what it might have said, sums not quite 1."""
    shares = draw(st.dictionaries(TOKENS, st.floats(0.0, 1.0), min_size=1))
    return draw(st.sampled_from(["a", "b", "d"])), SoftVote(draw(TOKENS), tuple(shares.items()))


def shares_by_hand(traces):
    """p(y) = sum_w D(w) P(y | w), one token after the other."""
    mass = Counter()
    for _, soft in traces:
        for token, share in soft.shares:
            mass[token] += share / len(traces)
    p = Counter()
    for token, share in mass.items():
        followers = [answer for answer, soft in traces if soft.token == token] or ([token] if token else [])
        for answer in followers:
            p[answer] += share / len(followers)
    return {answer: share / sum(p.values()) for answer, share in p.items()}


def test_the_shares_are_those_of_post_stratification():
    said = (("a", 0.5), ("b", 0.3), ("c", 0.2))
    traces = [("a", SoftVote("a", said)), ("x", SoftVote("b", said)), ("y", SoftVote("b", said))]
    p = shares_by_hand(traces)
    assert p == pytest.approx({"a": 0.5, "x": 0.15, "y": 0.15, "c": 0.2})
    votes = SoftTally(traces).votes(SoftWorth(0.0, 0.0, 0.0, 0.0, 0.0), options=4)
    total = sum(votes.values())
    assert total == MAX_WORTH * 3
    assert {answer: count / total for answer, count in votes.items()} == pytest.approx(p, abs=1 / total)


@given(st.lists(ballots(), min_size=1, max_size=8), st.sampled_from([None, 4]))
def test_votes_are_whole_and_no_fewer_than_traces(traces, options):
    tally = SoftTally(traces)
    votes = tally.votes(LEARNED, options)
    assert all(type(count) is int and count > 0 for count in votes.values())
    assert len(traces) <= sum(votes.values()) <= MAX_WORTH * len(traces)
    assert list(votes.values()) == sorted(votes.values(), reverse=True)
    if options is None:
        assert next(iter(votes)) in {answer for answer, _ in traces}


@given(st.lists(ballots(), min_size=1, max_size=8))
def test_before_anything_is_learned_a_soft_vote_is_a_vote(traces):
    votes = SoftTally(traces).votes(SoftWorth(), options=None)
    assert votes == Counter(answer for answer, _ in traces)


@given(st.integers(1, 40), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_mixture_has_the_least_error(n, r, bias):
    worth = SoftWorth(bias=bias)
    weight, votes = worth.mixture(n, r)
    errors = [w * w * (r + bias) + 2 * w * (1 - w) * r + (1 - w) ** 2 / n for w in (weight, *np.linspace(0.0, 1.0, 21))]
    if r < 1 / n - 1e-9:
        assert errors[0] <= min(errors) + 1e-12
        assert votes == pytest.approx(min(MAX_WORTH * n, max(n, 1 / errors[0] if errors[0] else math.inf)), rel=1e-6)
    else:
        assert (weight, votes) == (0.0, n)


def test_an_answer_that_no_trace_gave_may_lead_a_closed_set_alone():
    traces = [("a", SoftVote("a", (("a", 0.1), ("b", 0.9))))]
    assert next(iter(SoftTally(traces).votes(LEARNED, options=2))) == "b"
    open_votes = SoftTally(traces).votes(LEARNED, options=None)
    assert next(iter(open_votes)) == "a" and open_votes["b"] <= open_votes["a"]


def test_traces_without_a_soft_vote_count_beside_the_others():
    tally = SoftTally([("a", SoftVote("a", (("a", 0.6), ("b", 0.4))))])
    before = tally.votes(LEARNED, options=2)
    after = tally.add("b", None).votes(LEARNED, options=2)
    assert sum(after.values()) == sum(before.values()) + 1 and after["b"] == before["b"] + 1


def test_merged_answers_are_one():
    tally = SoftTally([("a", SoftVote("a", (("a", 1.0),)))])
    merged = tally.add("b", None).merge("a", into="b")
    assert set(merged.votes(SoftWorth(), options=None)) == {"b"}


def batch(rng, questions, traces, said, *, options=4):
    """Questions with known theta; ``said(theta, answer)`` is what a trace reports."""
    tallies = []
    for theta in rng.dirichlet([0.7] * options, questions):
        answers = rng.choice(list("abcd"), size=traces, p=theta)
        tallies.append(SoftTally([(str(answer), said(dict(zip("abcd", theta, strict=True)), str(answer)))
                                  for answer in answers]))  # fmt: skip
    return tallies


def votes_per_trace(tallies, worth):
    return sum(sum(t.votes(worth, 4).values()) for t in tallies) / sum(len(t.ballots) for t in tallies)


def test_the_true_distribution_is_worth_the_more_votes_the_larger_the_batch_that_tells():
    votes = []
    for questions in (20, 200, 2000):
        rng = np.random.default_rng(0)
        tallies = batch(rng, questions, 4, lambda theta, answer: SoftVote(answer, tuple(theta.items())))
        votes.append(votes_per_trace(tallies, learn_worth(tallies)))
    assert 1.5 < votes[0] < votes[1] < votes[2]
    assert votes[2] > 10


def test_a_trace_that_is_sure_of_its_own_answer_is_one_vote():
    tallies = batch(np.random.default_rng(1), 200, 6, lambda theta, answer: SoftVote(answer, ((answer, 1.0),)))
    assert votes_per_trace(tallies, learn_worth(tallies)) < 1.1


def test_tokens_that_tell_nothing_of_the_answer_are_worth_nothing():
    rng = np.random.default_rng(2)
    words = [f"w{i}" for i in range(3)]
    said = tuple((word, 1 / 3) for word in words)
    tallies = batch(rng, 200, 6, lambda theta, answer: SoftVote(words[int(rng.integers(3))], said))
    worth = learn_worth(tallies)
    assert votes_per_trace(tallies, worth) < 1.2


def test_a_server_that_reports_another_distribution_is_found_out():
    def reversed_shares(theta, answer):
        return SoftVote(answer, tuple(zip("abcd", reversed(theta.values()), strict=True)))

    tallies = batch(np.random.default_rng(3), 200, 16, reversed_shares)
    worth = learn_worth(tallies)
    right = [max(t.votes(worth, 4), key=t.votes(worth, 4).get) == Counter(a for a, _ in t.ballots).most_common(1)[0][0]
             for t in tallies]  # fmt: skip
    assert votes_per_trace(tallies, worth) < 1.5
    assert np.mean(right) > 0.9


def test_the_votes_are_worth_what_they_say():
    """N plain votes have the squared error U / N: so has the mixture of the traces that count as N."""
    rng = np.random.default_rng(4)
    thetas = rng.dirichlet([0.7] * 4, 400)
    follow = dict.fromkeys("abcd", 0.8)  # a trace that says a letter answers it 8 times of 10
    tallies, truths = [], []
    for theta in thetas:
        D = dict(zip("abcd", theta, strict=True))
        said = rng.choice(list("abcd"), size=5, p=theta)
        answers = [w if rng.random() < follow[w] else str(rng.choice(list("abcd"))) for w in said]
        tallies.append(SoftTally([(str(a), SoftVote(str(w), tuple(D.items())))
                                  for a, w in zip(answers, said, strict=True)]))  # fmt: skip
        truths.append({y: 0.8 * D[y] + 0.05 for y in "abcd"})
    worth = learn_worth(tallies)
    errors, expected = [], []
    for tally, truth in zip(tallies, truths, strict=True):
        votes = tally.votes(worth, 4)
        total = sum(votes.values())
        errors.append(sum((votes.get(y, 0) / total - truth[y]) ** 2 for y in "abcd"))
        expected.append((1 - sum(share**2 for share in truth.values())) / total)
    assert np.mean(errors) == pytest.approx(np.mean(expected), rel=0.35)


def test_few_questions_teach_nothing():
    tallies = batch(np.random.default_rng(0), 7, 4, lambda theta, answer: SoftVote(answer, tuple(theta.items())))
    assert learn_worth(tallies) == SoftWorth()
