"""Certificates: every launch order and every continuation of a Polya urn, the limits, the batch's interval."""

import math
from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc
from scipy.stats import beta

from pets.core.certificate import (
    EXACT_QUESTIONS,
    EXACT_VOTES,
    Decision,
    certificate,
    decision_certificate,
    doubt_by_pairs,
    expected_consistency,
    expected_share,
    p_good,
    p_leader_after,
    prior_deviation,
)
from pets.core.dirichlet import p_argmax, p_leader
from pets.core.prior import HEADS, KINDS, STRENGTHS, LearnedPrior, fit_prior, smooth_posterior
from pets.core.tally import Tally, majority
from pets.core.weighted import ConfidenceSpread
from pets.errors import InputError
from pets.types import Verdict


def every_continuation(counts, K, a, m):
    """P(vote of all = vote of the prefix), by the tie rule itself: all orders of the prefix, all that may follow."""
    labels = "ABCDEFGH"[:K]
    prefix = "".join(label * n for label, n in zip(labels, counts, strict=False))
    chances = []
    for order in set(permutations(prefix)):
        now = majority(order)
        chance = 0.0
        for rest in product(labels, repeat=m):
            urn = {label: prefix.count(label) + a for label in labels}
            weight = 1.0
            for label in rest:
                weight *= urn[label] / sum(urn.values())
                urn[label] += 1
            chance += weight * (majority([*order, *rest]) == now)
        chances.append(chance)
    return sum(chances) / len(chances)


def symmetric(counts, K, a):
    """Dir_K(a) and these counts, as alpha of the answers seen and of the others."""
    return tuple(n + a for n in counts), ((a, K - len(counts)),)


def leads_after(counts, K, a, m, zone=0.0):
    return p_leader_after(counts, *symmetric(counts, K, a), m, zone)


def leads_forever(counts, K, a):
    return p_leader(*symmetric(counts, K, a))


@pytest.mark.parametrize(
    ("counts", "K", "m"),
    [
        ((1,), 2, 1),
        ((1,), 2, 6),
        ((2, 1), 2, 5),
        ((2, 2), 2, 4),
        ((1, 1), 3, 4),
        ((1, 1, 1), 3, 4),
        ((2, 1, 1), 3, 5),
        ((2, 1, 1), 4, 4),
        ((2, 2, 1), 3, 4),
        ((3, 1), 4, 4),
    ],
)
@pytest.mark.parametrize("a", [0.02, 0.6, 1.6])
def test_it_is_the_sum_over_every_order_and_continuation(counts, K, m, a):
    assert leads_after(counts, K, a, m) == pytest.approx(every_continuation(counts, K, a, m), abs=1e-7)


def test_several_rivals_behind_at_different_counts():
    assert leads_after((3, 2, 1), 3, 0.6, 5) == pytest.approx(every_continuation((3, 2, 1), 3, 0.6, 5), abs=1e-7)


descending = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(lambda n: tuple(sorted(n, reverse=True)))


@settings(max_examples=60, deadline=None)
@given(descending, st.integers(0, 3), st.integers(0, 70), st.sampled_from(STRENGTHS))
def test_it_is_a_probability_that_one_more_vote_for_the_leader_raises(counts, unseen, m, a):
    K = len(counts) + unseen
    now = leads_after(counts, K, a, m)
    more = leads_after((counts[0] + 1, *counts[1:]), K, a, m)
    assert 0.0 <= now <= 1.0 and more >= now - 1e-7
    assert now >= 1.0 / K - 1e-7  # nobody is likelier to win than the leader


def test_the_limits_are_the_vote_now_and_the_population_vote():
    for counts, K, a in [((3, 2), 2, 1.6), ((4, 2, 1), 8, 0.2), ((3, 3), 4, 0.6)]:
        assert leads_after(counts, K, a, 0) == 1.0
        gaps = [abs(leads_after(counts, K, a, m) - leads_forever(counts, K, a)) for m in (32, 128, EXACT_VOTES)]
        assert gaps[0] > 2 * gaps[1] > 4 * gaps[2] and gaps[2] < 0.01


def test_a_lead_that_cannot_be_caught_up_is_certain():
    assert leads_after((9, 2), 4, 1.6, 6) == 1.0 > leads_after((9, 2), 4, 1.6, 7)


def test_the_certificate_mixes_the_strengths_by_their_posterior():
    only_strengths = (1 / len(STRENGTHS),) * len(STRENGTHS) + (1e-300,) * len(HEADS)
    prior, tally = LearnedPrior(kind_shares=(only_strengths,)), Tally((3, 1), options=4)
    weights = prior.posterior(tally)
    finite = weights @ [leads_after((3, 1), 4, a, 60) for a in STRENGTHS]
    forever = weights @ [leads_forever((3, 1), 4, a) for a in STRENGTHS]
    assert certificate(tally, prior, 64) == pytest.approx(finite, abs=1e-8)
    assert certificate(tally, prior) == certificate(tally, prior, math.inf) == pytest.approx(forever, abs=1e-8)


@pytest.mark.parametrize(("counts", "exact", "step"), [((5, 3), EXACT_VOTES, 1e-5), ((5, 3, 1), 128, 2e-4)])
def test_far_away_it_runs_into_infinity_without_a_jump(monkeypatch, counts, exact, step):
    """Three counts take seconds at the bound in use; nearer, one vote more is a longer step."""
    monkeypatch.setattr("pets.core.certificate.EXACT_VOTES", exact)
    prior, tally = LearnedPrior(), Tally(counts, options=2 * len(counts) - 2)
    near, far = (certificate(tally, prior, sum(counts) + votes) for votes in (exact, exact + 1))
    assert near == pytest.approx(far, abs=step) and near != far
    assert certificate(tally, prior, 10**9) == pytest.approx(certificate(tally, prior), abs=1e-6)


def test_nothing_left_to_draw_is_certain_and_no_vote_is_no_leader():
    prior = LearnedPrior()
    assert certificate(Tally((2, 2), nulls=1), prior, 5) == certificate(Tally((2, 2)), prior, 1) == 1.0
    assert certificate(Tally(), prior, 8) == certificate(Tally((), nulls=3), prior) == 0.0
    with pytest.raises(InputError, match="B >= 0"):
        certificate(Tally((1,)), prior, -1)
    with pytest.raises(InputError, match="B >= 0"):
        certificate(Tally((1,)), prior, math.nan)


def test_traces_without_an_answer_leave_fewer_votes_to_come():
    """5 of 8 traces voted: 6/9 of the 6 to come will, 4 votes; of 7, between 4 and 5."""
    prior, tally = LearnedPrior(), Tally((3, 2), nulls=3, options=2)
    votes = Tally((3, 2), options=2)
    assert certificate(tally, prior, 14) == pytest.approx(certificate(votes, prior, 9))
    between = certificate(votes, prior, 9) / 3 + certificate(votes, prior, 10) * 2 / 3
    assert certificate(tally, prior, 15) == pytest.approx(between)


def test_trace_length_counts_where_the_prior_knows_lengths():
    easy, hard = ([0.001] * KINDS for _ in range(2))
    easy[0] = hard[len(STRENGTHS) - 1] = 1.0 - 0.001 * (KINDS - 1)
    prior = LearnedPrior(edges=(1000.0,), kind_shares=(tuple(easy), tuple(hard)))
    short, long = Tally((2,), mean_tokens=300.0, options=8), Tally((2,), mean_tokens=9000.0, options=8)
    assert certificate(short, prior, 64) > certificate(long, prior, 64) + 0.2


def every_continuation_in_the_zone(counts, alpha, m, zone):
    """P(no answer ends ahead of the leader by more than the zone), over every continuation of the urn."""
    total = 0.0
    for rest in product(range(len(alpha)), repeat=m):
        urn, weight = list(alpha), 1.0
        for k in rest:
            weight *= urn[k] / sum(urn)
            urn[k] += 1
        votes = [n + rest.count(k) for k, n in enumerate(counts)]
        total += weight * (max(votes) - votes[0] <= zone * sum(votes) + 1e-9)
    return total


@pytest.mark.parametrize("zone", [0.1, 0.3])
@pytest.mark.parametrize(
    ("counts", "alpha", "m"),
    [
        ((2, 2), (2.6, 2.6), 6),
        ((2, 1, 0), (2.5, 1.3, 0.2), 6),
        ((1, 1, 1), (1.1, 1.4, 1.1), 6),
        ((3, 2, 0, 0), (7.0, 2.2, 0.2, 0.2), 5),
    ],
)
def test_the_zone_after_some_votes_is_the_sum_over_every_continuation(counts, alpha, m, zone):
    seen = sum(n > 0 for n in counts)
    certain = p_leader_after(counts[:seen], alpha[:seen], tuple((a, 1) for a in alpha[seen:]), m, zone)
    assert certain == pytest.approx(every_continuation_in_the_zone(counts, alpha, m, zone), abs=1e-9)


@pytest.mark.parametrize("zone", [0.02, 0.1, 0.25])
@pytest.mark.parametrize(
    "alpha",
    [
        (5.0, 3.0, 1.2),
        (1.2, 1.2, 1.2, 1.2, 0.2, 0.2),
        (12.0, 9.0, 4.0, 0.6, 0.6),
        (8.0, 6.0, 6.0, 2.0),
        (1.6, *[0.6] * 7),
    ],
)
def test_the_zone_of_the_population_is_that_of_many_draws(alpha, zone):
    theta = np.random.default_rng(7).dirichlet(alpha, 100_000)
    share = float((theta[:, 1:].max(axis=1) - theta[:, 0] <= zone).mean())
    assert p_good(alpha, (), zone) == pytest.approx(share, abs=0.006)


@given(st.floats(0.3, 40.0), st.floats(0.3, 40.0), st.floats(0.01, 0.6))
def test_for_two_options_the_zone_is_a_closed_form(a, b, zone):
    assert p_good((a,), ((b, 1),), zone) == pytest.approx(1.0 - betainc(a, b, (1 - zone) / 2), abs=1e-12)


def test_a_wider_zone_is_easier_to_be_in():
    prior, tally = LearnedPrior(), Tally((6, 5, 1))
    for B in (40, None):
        certain = [certificate(tally, prior, B, zone=zone) for zone in (0.0, 0.05, 0.1, 0.2, 0.4)]
        assert certain == sorted(certain) and certain[-1] > certain[0] + 0.2
    with pytest.raises(InputError, match="0 <= zone < 1"):
        certificate(tally, prior, zone=1.0)


def test_open_sets_know_a_head_and_a_tail_that_scatters():
    """One answer in three traces and a tail of ever new ones: symmetric priors take the tail for rivals."""
    rng = np.random.default_rng(3)
    tallies, right = [], 0
    for _ in range(400):
        head = rng.random(64) < rng.uniform(0.2, 0.7)
        path = [
            "head" if hit else str(tail) for hit, tail in zip(head.tolist(), rng.integers(100, size=64), strict=True)
        ]
        tallies.append(Tally.of(path[:6]))
        right += majority(path[:6]) == majority(path)
    prior = fit_prior({tally: tallies.count(tally) for tally in set(tallies)})
    symmetric_shares = np.array(prior.shares[0])
    headless = LearnedPrior(prior.shares, (), ((*symmetric_shares, *[1e-12] * len(HEADS)),))
    with_heads, without = (expected_consistency(tallies, belief, 64)[0] for belief in (prior, headless))
    assert abs(with_heads - right / 400) < 0.6 * abs(without - right / 400)


def test_the_leader_under_any_dirichlet_is_the_first_of_all_of_them():
    alpha, unseen = (4.2, 2.1, 4.2), ((0.3, 5), (1.5, 1))
    everyone = [*alpha, *[0.3] * 5, 1.5]
    assert p_leader(alpha, unseen) == pytest.approx(p_argmax(everyone)[0], abs=1e-12)


def test_simulated_batches_are_as_right_as_they_say():
    """The model's own questions: certificates average to the share that is right, and the interval covers it."""
    rng = np.random.default_rng(0)
    tallies, right = [], 0
    for i in range(1500):
        path = rng.choice(4, size=32, p=rng.dirichlet([0.06 if i % 2 else 0.6] * 4)).astype(str).tolist()
        tallies.append(Tally.of(path[:4], options=4))
        right += majority(path[:4]) == majority(path)
    prior = fit_prior({tally: tallies.count(tally) for tally in set(tallies)})
    mean, low, high = expected_consistency(tallies, prior, 32)
    assert mean == pytest.approx(right / 1500, abs=0.02)
    assert low < right / 1500 < high


def test_the_interval_of_a_small_batch_is_the_poisson_binomials():
    prior, tally = LearnedPrior(), Tally((1, 1), options=2)
    p = certificate(tally, prior, 3)
    mean, low, high = expected_consistency([tally] * 2, prior, 3)
    assert mean == pytest.approx(p) and (1 - p) ** 2 > 0.025 and p * p > 0.025
    assert (low, high) == (0.0, 1.0)
    assert expected_consistency([Tally((3,))] * 3, prior, 3) == (1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="without questions"):
        expected_consistency([], prior)


def test_both_intervals_agree_where_they_meet():
    prior, tally = LearnedPrior(), Tally((2, 1), options=4)
    exact = expected_consistency([tally] * EXACT_QUESTIONS, prior, 16)
    normal = expected_consistency([tally] * (EXACT_QUESTIONS + 1), prior, 16)
    assert exact == pytest.approx(normal, abs=1.5 / EXACT_QUESTIONS)


@pytest.mark.parametrize("counts", [(600,), (1000, 100, 5), (400, 3)])
def test_a_clear_leader_of_many_votes_is_certain(counts):
    for options, zone in product([None, 3, 4, 10], [0.02, 0.05, 0.3]):
        chance = certificate(Tally(counts, options=options), LearnedPrior(), zone=zone)
        assert chance == pytest.approx(1.0, abs=1e-6), (options, zone)


VOTES = [((3, 2), 4), ((5, 1, 1), 4), ((2, 2, 2), 3), ((4,), 4), ((7, 6), 2), ((3, 1), None), ((1, 1, 1), None)]


@pytest.mark.parametrize(("counts", "options"), VOTES)
def test_the_leaders_decision_has_the_leaders_certificate(counts, options):
    tally = Tally(counts, options=options)
    assert decision_certificate(Decision(tally), LearnedPrior()) == pytest.approx(certificate(tally, LearnedPrior()))
    zoned = decision_certificate(Decision(tally), LearnedPrior(), zone=0.1)
    assert zoned == pytest.approx(certificate(tally, LearnedPrior(), zone=0.1))
    assert decision_certificate(Decision(tally, None), LearnedPrior()) == 0.0  # no answer is never right


@pytest.mark.parametrize(("counts", "options"), VOTES)
@pytest.mark.parametrize("spread_of_weights", [0.0, 0.3])
def test_the_answers_share_one_certainty(counts, options, spread_of_weights):
    weights = tuple(tuple(8.0 + spread_of_weights * (k + j) for j in range(n)) for k, n in enumerate(counts))
    for groups in ((), weights):
        decisions = [Decision(Tally(counts, options=options), place, groups) for place in range(len(counts))]
        chances = [decision_certificate(decision, LearnedPrior()) for decision in decisions]
        assert sum(chances) <= 1 + 1e-6
        if options == len(counts):
            assert sum(chances) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("counts", "options"), VOTES)
def test_votes_that_weigh_the_same_are_plain_votes(counts, options):
    weights = tuple((7.0,) * n for n in counts)
    for place in range(len(counts)):
        plain, weighted = (
            decision_certificate(Decision(Tally(counts, options=options), place, groups), LearnedPrior())
            for groups in ((), weights)
        )
        assert weighted == pytest.approx(plain, abs=2e-3)


def test_a_weighted_certificate_is_the_share_of_draws_in_which_theta_mu_is_largest():
    weights, spread = ((4.0, 5.0, 4.5), (8.0, 9.0)), ConfidenceSpread(0.5, 10.0, 8.0)
    tally, prior = Tally((3, 2), options=3), LearnedPrior()
    rng = np.random.default_rng(0)
    theta = np.array(prior.draws(tally, 6_000, rng))
    beta, v = np.array([*(spread.posterior(group) for group in weights), (spread.beta_0, spread.v_0)]).T
    winners = np.argmax(theta * rng.normal(beta, np.sqrt(v), size=theta.shape), axis=1)
    for place in (0, 1):
        said = decision_certificate(Decision(tally, place, weights), prior, spread)
        assert said == pytest.approx((winners == place).mean(), abs=0.02)


def test_a_decision_counts_the_votes_that_weigh_something():
    votes, weights = (("A", 3.0), ("B", 2.0), ("C", 1.0)), (("A", (2.0,)), ("B", (8.0, 9.0)))
    decision = Decision.of(Verdict("q", "B", votes, 6, 0, weights), options=2, mean_tokens=9.0)
    assert decision == Decision(Tally((2, 1), options=2, mean_tokens=9.0), 0, ((8.0, 9.0), (2.0,)))
    tied = Decision.of(Verdict("q", "C", (("A", 1.0), ("C", 1.0)), 2, 0), options=1)
    assert (tied.index, tied.tally.options) == (0, 2)  # of equals the answer is the first
    assert Decision.of(Verdict("q", None, (), 1, 1)).index is None


def test_the_share_of_certain_answers_is_certain():
    assert expected_share([1.0, 1.0, 0.0, 0.0]) == (0.5, 0.5, 0.5)


@given(st.floats(1, 30), st.floats(0.5, 30), st.floats(0.0, 0.6))
def test_the_doubt_of_two_answers_by_pairs_is_exact(a, b, zone):
    assert doubt_by_pairs((a, b), zone) == pytest.approx(beta.cdf((1 - zone) / 2, a, b), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=2, max_size=4), st.sampled_from([0.05, 0.1, 0.2]))
def test_the_doubt_by_pairs_of_more_answers_is_at_least_the_exact_chance_and_near_it_where_it_is_small(counts, zone):
    alpha = tuple(count + 1.0 for count in sorted(counts, reverse=True))
    doubt = 1.0 - p_good(alpha, (), zone)
    assert doubt_by_pairs(alpha, zone) >= doubt - 0.05  # rivals that are ahead together count twice
    if doubt < 0.1:
        assert doubt_by_pairs(alpha, zone) == pytest.approx(doubt, abs=0.05)


def test_draws_agree_with_the_doubt_by_pairs_where_one_rival_matters():
    theta = np.random.default_rng(0).dirichlet([9.0, 7.0, 1.0, 1.0], size=200_000)
    ahead = (theta[:, 1:].max(axis=1) - theta[:, 0] > 0.1).mean()
    assert doubt_by_pairs((9.0, 7.0, 1.0, 1.0), 0.1) == pytest.approx(ahead, abs=0.02)


@pytest.mark.parametrize(("options", "widest"), [(2, 1.01), (None, 1.5)])
def test_the_deviation_of_the_prior_is_that_of_the_mean_certificate_over_smooth_priors(options, widest):
    """Against certificates under each smooth prior by itself, each of them weighed by the posterior."""
    batch = {Tally((3,), options=options): 6, Tally((2, 1), options=options): 3, Tally((), 3, options=options): 1}
    weights, shares = smooth_posterior(batch)
    likely = np.flatnonzero(weights > 1e-4)
    priors = [LearnedPrior(kind_shares=(tuple(shares[i]),)) for i in likely]
    means = np.array([expected_consistency(Counter(batch).elements(), prior)[0] for prior in priors])
    w = weights[likely] / weights[likely].sum()
    deviation = math.sqrt(w @ (means - w @ means) ** 2)
    assert 0.99 * deviation < prior_deviation(batch) < widest * deviation


def test_with_one_trace_of_each_question_the_interval_says_that_nothing_is_known():
    once, pairs = {Tally((1,)): 200}, {Tally((2,)): 120, Tally((1, 1)): 80}
    _, low, high = expected_share([0.8] * 200, prior_deviation(once))
    assert low < 0.5 and high == 1.0
    assert prior_deviation(pairs) < prior_deviation(once) / 3


def test_a_single_question_is_inside_of_its_interval():
    assert expected_share([0.991]) == (0.991, 0.991, 1.0)


def test_a_decision_knows_its_answer_among_the_counts_first_of_its_equals():
    votes = (("A", 3.0), ("B", 2.0), ("C", 2.0))
    assert Decision.of(Verdict("q1", "B", votes, 7, 0)) == Decision(Tally((3, 2, 2)), 1)
    assert Decision.of(Verdict("q1", "C", votes, 7, 0)) == Decision(Tally((3, 2, 2)), 1)
    assert Decision.of(Verdict("q1", None, votes, 8, 1), options=2) == Decision(Tally((3, 2, 2), 1, options=3), None)
    weighed = Verdict("q1", "C", votes, 7, 0, (("B", (1.0,)), ("C", (9.0,)), ("A", (1.0, 2.0))))
    assert Decision.of(weighed) == Decision(Tally((2, 1, 1)), 1, ((1.0, 2.0), (9.0,), (1.0,)))
