"""Running votes equal the vote of every prefix, by the one tie rule."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pets.core.tally import majority, top_p, weighted_majority
from pets.replay.votes import NOBODY, coded, running_votes, running_weighted_votes, tied

labels = st.lists(st.sampled_from(["A", "B", "C", None]), min_size=1, max_size=12)


@given(labels)
def test_running_votes_are_the_majority_of_each_prefix(path):
    codes, (ranks,) = coded([path])
    winners = [majority(path[:n]) for n in range(len(path) + 1)]
    assert running_votes(codes)[0].tolist() == [NOBODY if w is None else ranks[w] for w in winners]


@given(st.lists(labels, min_size=2, max_size=5))
def test_questions_do_not_meet(paths):
    longest = max(map(len, paths))
    paths = [path + [None] * (longest - len(path)) for path in paths]
    together = running_votes(coded(paths)[0])
    assert (together == np.array([running_votes(coded([path])[0])[0] for path in paths])).all()


@given(labels, st.randoms(use_true_random=False))
def test_weighted_votes_filter_and_weigh_each_prefix(path, random):
    confidences = [round(random.uniform(1, 20), 1) for _ in path]
    _, (ranks,) = coded([path])
    winners = [weighted_majority(path[:n], top_p(path[:n], confidences[:n])) for n in range(1, len(path) + 1)]
    expected = [NOBODY] + [NOBODY if w is None else ranks[w] for w in winners]
    assert running_weighted_votes(path, confidences, ranks) == expected


def test_a_trace_without_an_answer_needs_no_confidence():
    assert running_weighted_votes(["A", None], [9.0, None], {"A": 0}) == [NOBODY, 0, 0]


def test_ties_of_the_weighted_vote_are_ties_of_weight():
    assert tied(["A", "B"], [3.0, 3.0]) is False  # the filter keeps one of the two
    assert tied(["A", "B", "A", "B"], [3.0, 3.0, 1.0, 1.0]) and not tied(["A", "B", "A", "B"], [4.0, 3.0, 1.0, 1.0])
