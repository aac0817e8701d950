"""A draw: what every prefix of every path is worth, and the running votes, against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.tally import majority, top_p, weighted_majority
from pets.errors import InputError
from pets.lab.config import ReplayConfig
from pets.lab.draws import (
    NO_VOTE,
    coded,
    draw_traces,
    good_labels,
    kept_weights,
    running_votes,
    running_weighted_votes,
    size_of,
    vote_accuracy,
    without_short,
)
from pets.lab.labelled import read_answers
from pets.pools import Pool, PooledQuestion, mix_pools


def prefix(draw, row, n):
    question = draw.pool.questions[row]
    return [question.labels[j] for j in draw.paths[row][:n]]


@pytest.mark.parametrize("target", ["whole", "disjoint"])
def test_tables_equal_brute_force(pool, target):
    config = ReplayConfig(size=10, reference=target)
    draw = draw_traces(read_answers(pool), config, 3)
    rng = np.random.default_rng(config.seeds("toy", 3))
    for row, question in enumerate(draw.pool.questions):
        order = rng.permutation(24)
        assert draw.paths[row].tolist() == order[:10].tolist()
        aim = majority([question.labels[j] for j in (order[:10] if target == "whole" else order[12:22])])
        for n in range(11):
            vote = majority(prefix(draw, row, n))
            assert draw.outcomes.agree[row, n] == (vote is not None and vote == aim)
            assert draw.outcomes.correct[row, n] == (vote is not None and vote == question.gold)
            assert draw.tokens[row, n] == sum(question.tokens[j] for j in draw.paths[row][:n])
        assert draw.judged[row] == (question.gold is not None)


def test_halves_do_not_meet(build):
    draw = draw_traces(read_answers(build(traces=9)), ReplayConfig(reference="disjoint"), 0)
    assert draw.size == 4 and all(
        set(path) & set(rest) == set() for path, rest in zip(draw.paths, draw.spare, strict=True)
    )


def test_what_is_spare_is_neither_drawn_nor_the_target(build):
    config = ReplayConfig(size=5, reference="disjoint")
    draw = draw_traces(read_answers(build(traces=24)), config, 0)
    rng = np.random.default_rng(config.seeds("toy", 0))
    for spare in draw.spare:
        order = rng.permutation(24).tolist()
        assert sorted(spare.tolist()) == sorted(order[5:12] + order[17:])
    halves = draw_traces(read_answers(build(traces=24)), ReplayConfig(reference="disjoint"), 0)
    assert all(spare.size == 0 for spare in halves.spare)  # the other half is the target: nobody may rank by it


def test_the_traces_are_those_of_the_path(pool):
    draw = draw_traces(read_answers(pool), ReplayConfig(size=5), 0)
    trace = draw.traces["q2"][4]
    j = draw.paths[2][4]
    assert (trace.number, trace.answer, trace.tokens) == (4, pool.questions[2].answers[j], pool.questions[2].tokens[j])


def test_every_question_gives_what_the_shortest_has(build):
    long, short = build(traces=24), build(traces=7)
    mixed = type(long)("mixed", long.questions[:3] + short.questions[3:])
    assert size_of(read_answers(mixed), ReplayConfig()) == 7 and size_of(read_answers(mixed), ReplayConfig(size=5)) == 5
    with pytest.raises(InputError, match="no disjoint halves"):
        size_of(read_answers(build(traces=1)), ReplayConfig(reference="disjoint"))


def test_questions_without_a_vote_never_agree(build):
    pool = build(questions=9, traces=4, nulls=1.1)  # only the first trace of each votes
    draw = draw_traces(read_answers(pool), ReplayConfig(size=2), 0)
    missed = [0 not in path for path in draw.paths]
    assert any(missed) and not draw.outcomes.agree[missed].any()


def test_repetitions_differ_and_pools_differ(pool, build):
    read, other = read_answers(pool), read_answers(build("other"))
    assert (draw_traces(read, ReplayConfig(), 0).paths == draw_traces(read, ReplayConfig(), 0).paths).all()
    assert (draw_traces(read, ReplayConfig(), 0).paths != draw_traces(read, ReplayConfig(), 1).paths).any()
    assert (draw_traces(read, ReplayConfig(), 0).paths != draw_traces(other, ReplayConfig(), 0).paths).any()


def test_the_vote_of_all_traces_counts_known_gold_alone():
    sure = PooledQuestion("q", ("A", "B", "A", None), gold="B", confidence=(1.0, 9.0, 1.0, None))
    pool = read_answers(Pool("p", (sure, PooledQuestion("r", ("B",)))))
    assert vote_accuracy(pool, weighted=False) == 0.0
    assert vote_accuracy(pool, weighted=True) == 1.0
    assert vote_accuracy(read_answers(Pool("p", (PooledQuestion("r", ("B",)),))), weighted=False) is None


def test_the_weighted_vote_needs_confidences(pool):
    with pytest.raises(InputError, match="no confidences"):
        draw_traces(read_answers(pool), ReplayConfig(weighted=True), 0)


labels = st.lists(st.sampled_from(["A", "B", "C", None]), min_size=1, max_size=12)


@given(labels)
def test_running_votes_are_the_majority_of_each_prefix(path):
    codes, (ranks,) = coded([path])
    winners = [majority(path[:n]) for n in range(len(path) + 1)]
    assert running_votes(codes)[0].tolist() == [NO_VOTE if w is None else ranks[w] for w in winners]


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
    expected = [NO_VOTE] + [NO_VOTE if w is None else ranks[w] for w in winners]
    assert running_weighted_votes(path, confidences, ranks) == expected


def test_a_trace_without_an_answer_needs_no_confidence():
    assert running_weighted_votes(["A", None], [9.0, None], {"A": 0}) == [NO_VOTE, 0, 0]


def test_ties_of_the_weighted_vote_are_ties_of_weight():
    assert is_tied("AB") and not is_tied("AAB")
    assert not is_tied("AB", 3.0, 3.0)  # the filter keeps one of the two
    assert is_tied("ABAB", 3.0, 3.0, 1.0, 1.0) and not is_tied("ABAB", 4.0, 3.0, 1.0, 1.0)


def is_tied(answers, *confidence):
    question = PooledQuestion("q", tuple(answers), confidence=confidence or None)
    draw = draw_traces(read_answers(Pool("p", (question,))), ReplayConfig(1, weighted=bool(confidence)), 0)
    return draw.tied.tolist() == [True]


def uneven(*counts):
    answers = [tuple("AB"[at % 3 == 0] for at in range(count)) for count in counts]
    return read_answers(Pool("p", tuple(PooledQuestion(f"q{at}", some) for at, some in enumerate(answers))))


def test_a_single_short_question_does_not_cut_the_pool():
    pool = uneven(*[64] * 19, 3)
    kept = without_short(pool, ReplayConfig())
    assert (len(kept.questions), size_of(kept, ReplayConfig())) == (19, 64)
    assert kept.note == "1 question is left out: it has fewer than 32 traces"
    assert size_of(without_short(pool, ReplayConfig(size=4)), ReplayConfig(size=4)) == 3  # enough for what is drawn


@pytest.mark.parametrize("counts", [[64] * 20, [24] * 20, [64] * 10 + [3] * 10, [64] * 19 + [40]])
def test_even_pools_and_those_that_are_mostly_short_stay_whole(counts):
    pool = uneven(*counts)
    assert without_short(pool, ReplayConfig()) is pool


def test_a_declared_minimum_leaves_out_what_is_shorter():
    pool = uneven(*[64] * 10, *[3] * 10)
    assert len(without_short(pool, ReplayConfig(min_traces=4)).questions) == 10
    with pytest.raises(InputError, match="every question has fewer than 100 traces"):
        without_short(pool, ReplayConfig(min_traces=100))


def test_good_verdicts_by_hand():
    votes = {"A": 10, "B": 9, "C": 8}  # C is 2 of 27 votes behind, 0.074
    assert good_labels("ABCD", votes, 0.1) == ["A", "B", "C"]
    assert good_labels("ABCD", votes, 0.05) == ["A", "B"]
    assert good_labels("AB", {"A": 11, "B": 9}, 0.1) == ["A", "B"]  # exactly 0.1
    assert good_labels("AB", {"A": 1, "B": 1}, 0.0) == [] and good_labels("A", {}, 0.1) == []
    assert kept_weights(["A", "B"], [1.1, 1.0]) == [1.1, 0.0]  # of two votes the filter keeps one


@pytest.mark.parametrize("target", ["whole", "disjoint"])
def test_what_agrees_is_good_and_zone_0_is_agreement(build, target):
    pool = read_answers(build(questions=20, traces=40))
    strict, zone, wide = (
        draw_traces(pool, ReplayConfig(reference=target, tolerance=z), 2).outcomes for z in (0, 0.2, 0.99)
    )
    assert np.array_equal(strict.good, strict.agree) and np.array_equal(strict.agree, zone.agree)
    assert (zone.good >= zone.agree).all() and (wide.good >= zone.good).all() and zone.good.sum() > zone.agree.sum()


@pytest.mark.parametrize("target", ["whole", "disjoint"])
def test_draws_of_a_mixture_keep_the_turns_and_take_every_trace_of_a_model_alike(target):
    pools = [Pool(f"set.{name}", tuple(PooledQuestion(f"q{q}", tuple(f"{name}{n}" for n in range(12)), tokens=(1,) * 12)
                                       for q in range(2))) for name in "ab"]  # fmt: skip
    pool = read_answers(mix_pools(pools, (2, 1)))
    firsts = set()
    for repetition in range(60):
        draw = draw_traces(pool, ReplayConfig(reference=target), repetition)
        for row, question in enumerate(pool.questions):
            labels = prefix(draw, row, draw.size)
            assert [label[0] for label in labels] == ["ab"[model] for model in question.models[: draw.size]]
            assert len(set(labels)) == len(labels)
        firsts.add(prefix(draw, 0, 1)[0])
    assert firsts == {f"a{n}" for n in range(12)}
