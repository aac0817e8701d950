"""The learned prior: a likelihood that sums to one, shares that EM recovers, lengths that tell."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.certificate import certificate, expected_consistency
from pets.core.dirichlet import BATCHES, batch_gains
from pets.core.prior import (
    FORMER_HEADS,
    HEADS,
    KINDS,
    NO_LENGTH,
    STRENGTHS,
    TAIL_SLOTS,
    BatchFit,
    LearnedPrior,
    class_tokens,
    fit_prior,
    kind_posteriors,
    log_evidence,
    shares_of,
    slots,
    smooth_posterior,
)
from pets.core.tally import Tally


def set_partitions(n):
    """Every way to sort n traces into unnamed answers, as block sizes, with repetition."""

    def grow(sizes, left):
        if left == 0:
            yield tuple(sorted(sizes, reverse=True))
            return
        for i in range(len(sizes)):
            yield from grow([*sizes[:i], sizes[i] + 1, *sizes[i + 1 :]], left - 1)
        yield from grow([*sizes, 1], left - 1)

    return Counter(grow([], n))


@pytest.mark.parametrize(("n", "K"), [(1, 2), (4, 3), (5, 8), (6, 6)])
def test_the_likelihood_of_all_partitions_sums_to_one(n, K):
    total = sum(ways * np.exp(log_evidence(c, K)) for c, ways in set_partitions(n).items() if len(c) <= K)
    assert total == pytest.approx(np.ones(len(STRENGTHS)), rel=1e-9)


def headed_posteriors(counts, T):
    return kind_posteriors(counts, None if T == TAIL_SLOTS else T + 1)[len(STRENGTHS) :]


@pytest.mark.parametrize(("n", "T"), [(1, TAIL_SLOTS), (3, TAIL_SLOTS), (6, TAIL_SLOTS), (4, 1), (5, 3)])
def test_the_likelihood_with_a_head_sums_to_one_too(n, T):
    partitions = ((c, ways) for c, ways in set_partitions(n).items() if len(c) <= T + 1)
    total = sum(ways * np.exp([log for log, _ in headed_posteriors(c, T)]) for c, ways in partitions)
    assert total == pytest.approx(np.ones(len(HEADS)), rel=1e-9)


@pytest.mark.parametrize("T", [1, 3, TAIL_SLOTS])
def test_the_posterior_with_a_head_is_bayes_rule_over_who_it_is(T):
    """The marginal likelihood of one more vote, from the posterior's parts and from the evidence itself."""
    for place, (log, parts) in enumerate(headed_posteriors((3, 1), T)):
        assert math.fsum(part.weight for part in parts) == pytest.approx(1.0)
        totals = [math.fsum(part.alpha) + math.fsum(a * many for a, many in part.unseen) for part in parts]
        again = math.fsum(part.weight * part.alpha[0] / A for part, A in zip(parts, totals, strict=True))
        assert math.exp(headed_posteriors((4, 1), T)[place][0] - log) == pytest.approx(again, rel=1e-9)
        assert all(sum(many for _, many in part.unseen) + 2 == T + 1 for part in parts)


@pytest.mark.parametrize("options", [2, 4, None])
def test_smooth_shares_are_weighed_by_how_well_they_tell_the_batch(options):
    """Bayes' rule over (mu, sigma), by multiplying each question's likelihood into what is believed without any."""
    batch = {Tally((2,), options=options): 3, Tally((1, 1), options=options): 2, Tally((), 1, options=options): 4}
    weights, shares = smooth_posterior(batch)
    likelihood = smooth_posterior({})[0]
    for counts, questions in (((2,), 3), ((1, 1), 2)):
        by_kind = np.exp([log for log, _ in kind_posteriors(counts, options)])
        likelihood *= (shares @ by_kind) ** questions
    assert weights == pytest.approx(likelihood / likelihood.sum(), rel=1e-9)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(weights)))


def test_one_trace_of_each_question_tells_nothing_of_the_prior():
    once, nothing = smooth_posterior({Tally((1,), options=4): 500})[0], smooth_posterior({})[0]
    assert once == pytest.approx(nothing)


def evidence_of(counts, options):
    return np.exp([log for log, _ in kind_posteriors(counts, options)])


@given(
    st.lists(st.sampled_from([(1,), (2,), (1, 1), (3,), (2, 1), (4,), (2, 2)]), min_size=1, max_size=6),
    st.sampled_from([2, 4, None]),
)
def test_who_integrates_over_the_prior_certifies_by_what_the_others_teach(batch, options):
    """The posterior of a question's kind, averaged over the posterior of (mu, sigma), question by question."""
    counted = Counter(Tally(counts, options=options) for counts in batch)
    weights, shares = smooth_posterior(counted)
    own = evidence_of(batch[0], options)
    averaged = weights @ (shares * own / (shares @ own)[:, None])
    others, _ = smooth_posterior(counted - Counter([Tally(batch[0], options=options)]) or {Tally(options=options): 1})
    by_the_others = own * (others @ shares)
    assert averaged == pytest.approx(by_the_others / by_the_others.sum(), rel=1e-6)


@pytest.mark.parametrize("options", [2, 4, None])
@pytest.mark.parametrize("tokens", [0.0, 800.0])
def test_a_question_alone_is_certified_by_what_is_believed_without_any(options, tokens):
    tally = Tally((3,), options=options, mean_tokens=tokens)
    weights, shares = smooth_posterior({Tally(options=options): 1})
    fit = BatchFit({tally: 1})
    row = fit.without(tally).kind_shares[fit.prior.mark(tokens)]
    assert row == pytest.approx(weights @ shares, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("options", "recorded"), [(None, 0.9930), (4, 0.9773), (5, 0.9828)])
def test_three_votes_for_one_answer_are_no_surer_alone_than_on_recorded_pools(options, recorded):
    """``recorded``: in so many of the questions of recorded sets that is the vote of all; docs/results.md."""
    tally = Tally((3,), options=options)
    fit = BatchFit({tally: 1})
    alone = certificate(tally, fit.without(tally))
    assert 0.97 < alone <= recorded + 5e-5 < certificate(tally, fit.prior) + 0.005


@given(
    st.lists(
        st.tuples(st.sampled_from([(1,), (2,), (1, 1), (3,), (2, 1), (4,), (3, 1), (2, 1, 1)]), st.integers(1, 20)),
        min_size=2,
        max_size=6,
        unique_by=lambda row: row[0],
    ),
    st.sampled_from([4, None]),
)
def test_the_prior_without_a_question_is_nearly_that_of_a_batch_without_it(rows, options):
    batch = {Tally(counts, options=options): many for counts, many in rows}
    fit, tally = BatchFit(batch), Tally(rows[0][0], options=options)
    others = {seen: many - (seen == tally) for seen, many in batch.items() if many > (seen == tally)}
    assert certificate(tally, fit.without(tally)) == pytest.approx(certificate(tally, fit_prior(others)), abs=0.05)


def test_a_tally_that_is_not_of_the_batch_is_certified_by_all_of_it():
    fit = BatchFit({Tally((4,)): 8, Tally((2, 1)): 2})
    assert fit.without(Tally((5, 1))) == fit.prior and BatchFit({}).without(Tally((1,))) == LearnedPrior()


def test_a_batch_of_two_options_may_learn_that_traces_are_coin_flips():
    """In a set of two, coin flips agree every second time: that is as hard as such questions get."""
    flips = {Tally((2,), options=2): 500, Tally((1, 1), options=2): 500}
    assert certificate(Tally((2,), options=2), fit_prior(flips)) < 0.75


def test_a_single_option_leaves_no_doubt():
    assert certificate(Tally((3,), options=1), fit_prior({Tally((3,), options=1): 4})) == pytest.approx(1.0)


@pytest.mark.parametrize("options", [None, 4])
def test_two_traces_of_each_question_tell_how_sure_a_unanimous_pair_is(options):
    """All pairs agree: nearly every question is all but unanimous. Half of them agree: two votes are no proof."""
    pair, split = Tally((2,), options=options), Tally((1, 1), options=options)
    sure = certificate(pair, fit_prior({pair: 490, split: 10}))
    unsure = certificate(pair, fit_prior({pair: 250, split: 250}))
    assert sure > 0.99 > 0.97 > unsure


def test_lengths_tell_in_certificates_of_open_and_closed_sets():
    """Short traces agree, long ones do not: of two questions with one vote each the short one is the surer."""
    for options in (None, 4):
        batch = Counter()
        for i in range(200):
            long = i % 4 == 0
            counts = (1, 1) if long and i % 8 else (2,)
            batch[Tally(counts, options=options, mean_tokens=9000.0 + i if long else 1000.0 + i, question=str(i))] += 1
        prior = fit_prior(batch)
        short, long = (certificate(Tally((1,), options=options, mean_tokens=m), prior) for m in (1000.0, 9100.0))
        assert short > long + 0.1


def test_few_questions_of_a_class_are_read_in_the_light_of_the_batch():
    """A class of ten split pairs in an easy batch is believed to be easier than ten split pairs alone."""
    easy = {Tally((2,), mean_tokens=1.0 + i, question=str(i)): 1 for i in range(40)}
    hard = {Tally((1, 1), mean_tokens=100.0 + i, question=f"hard {i}"): 1 for i in range(10)}
    together, alone = fit_prior(easy | hard), fit_prior(hard)
    tally = Tally((2,), mean_tokens=105.0)
    assert certificate(tally, together) > certificate(tally, alone)


def test_the_mixture_is_a_posterior_and_its_draws_have_its_mean():
    prior = fit_prior({Tally((4,)): 30, Tally((2, 1, 1)): 10, Tally((1, 1, 1, 1)): 5})
    for tally in (Tally((3, 2)), Tally((3, 2), options=4)):
        parts = prior.mixture(tally)
        assert math.fsum(part.weight for part in parts) == pytest.approx(1.0)
        mean = math.fsum(
            part.weight * part.alpha[0] / (math.fsum(part.alpha) + math.fsum(a * many for a, many in part.unseen))
            for part in parts
        )
        rng = np.random.default_rng(0)
        assert np.mean([theta[0] for theta in prior.draws(tally, 3000, rng)]) == pytest.approx(mean, abs=0.02)


def draw(rng, a, K, traces):
    answers = rng.choice(K, size=traces, p=rng.dirichlet([a] * K)).tolist()
    return tuple(sorted(Counter(answers).values(), reverse=True))


def test_em_recovers_the_shares_of_two_kinds_of_questions():
    rng = np.random.default_rng(0)
    tallies = [Tally(draw(rng, 0.005 if i % 4 else 1.6, 4, 12), options=4) for i in range(800)]
    shares = fit_prior(Counter(tallies)).shares[0]
    assert sum(shares[:3]) == pytest.approx(0.75, abs=0.06)
    assert sum(shares[3:]) == pytest.approx(0.25, abs=0.06)


def test_lengths_tell_easy_questions_from_hard_ones():
    rng = np.random.default_rng(1)
    batch = Counter()
    for i in range(500):
        hard = i % 2 == 0
        counts = draw(rng, 0.6 if hard else 0.01, 8, 4)
        batch[Tally(counts, mean_tokens=float(rng.normal(9000 if hard else 1000, 300)), question=str(i))] += 1
    prior = fit_prior(batch)
    easy, hard = prior.shares[prior.mark(1000.0)], prior.shares[prior.mark(9000.0)]
    assert sum(easy[:3]) > 0.85 and sum(hard[3:]) > 0.85
    pair = Tally((1,), mark=prior.mark(1000.0)), Tally((1,), mark=prior.mark(9000.0))
    assert prior.log_gain(pair[0]) < prior.log_gain(pair[1])


def test_without_tokens_there_is_one_class_and_without_votes_no_lesson():
    assert fit_prior({Tally((3, 1)): 5}).edges == ()
    assert fit_prior({Tally(): 5, Tally((), nulls=3): 2}) == LearnedPrior()


def test_the_posterior_is_bayes_rule():
    prior = LearnedPrior(shares=((0.5, 0.1, 0.1, 0.1, 0.1, 0.1),))
    tally = Tally((3, 1), options=4)
    weights = np.array(prior.shares[0]) * np.exp(log_evidence((3, 1), 4))
    np.testing.assert_allclose(prior.posterior(tally), weights / weights.sum())
    gains = prior.posterior(tally) @ batch_gains((3, 1), 4, STRENGTHS)[0]
    assert prior.log_gain(tally) == pytest.approx(math.log(max(gains / BATCHES)))


def test_pending_traces_lower_the_gain_as_votes_in_proportion():
    prior = LearnedPrior()
    assert prior.log_gain(Tally((4, 2), pending=3)) < prior.log_gain(Tally((4, 2)))
    assert math.isfinite(prior.log_gain(Tally((), pending=2)))


def test_open_sets_keep_slots_for_what_was_not_seen():
    assert slots((1,) * 20, None) == 21 and slots((2,), None) == 8 and slots((2,), 4) == 4


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.sampled_from([1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36]))
def test_pending_traces_have_their_gain_on_the_way(counts, pending):
    counts = tuple(sorted(counts, reverse=True))
    prior, tally = LearnedPrior(), Tally(counts, pending=pending)
    gains = prior.posterior(tally) @ batch_gains(counts, slots(counts, tally.options), STRENGTHS)[0]
    gains = dict(zip(BATCHES.tolist(), gains, strict=True))
    left = max((gains[k] - gains[pending]) / (k - pending) for k in gains if k > pending)
    alone = math.exp(prior.log_gain(Tally(counts)))
    assert math.exp(prior.log_gain(tally)) == pytest.approx(min(left, alone) / (1 + pending), rel=1e-9, abs=1e-299)


@given(st.lists(st.integers(1, 9), max_size=4), st.integers(1, 70))
def test_traces_in_flight_lower_the_gain_of_the_next(counts, pending):
    counts = tuple(sorted(counts, reverse=True))
    alone, beside = (LearnedPrior().log_gain(Tally(counts, pending=p)) for p in (0, pending))
    assert beside <= alone - math.log1p(pending) + 1e-9


def test_votes_that_all_lean_alike_are_no_batch_of_near_ties():
    """People's votes: every question has about 0.7 for one of two answers. Symmetric kinds would make ties of them."""
    rng = np.random.default_rng(0)
    theta = rng.beta(21.0, 9.0, 400)
    leads = rng.binomial(12, theta)
    tallies = [Tally(tuple(sorted((n for n in (lead, 12 - lead) if n), reverse=True)), options=2) for lead in leads]
    mean, *_ = expected_consistency(tallies, fit_prior(Counter(tallies)))
    right = ((leads > 6) + 0.5 * (leads == 6)).mean()  # theta is over a half for nearly all
    assert mean == pytest.approx(right, abs=0.025)


def test_a_prior_of_before_certifies_by_the_kinds_that_it_knows():
    prior = fit_prior({Tally((4,)): 30, Tally((2, 1, 1)): 10})
    former = len(STRENGTHS) + FORMER_HEADS
    row = np.array(prior.kind_shares[0][:former])
    before = LearnedPrior(prior.shares, prior.edges, (tuple((row / row.sum()).tolist()),))
    assert len(before.kind_shares[0]) < KINDS
    assert math.fsum(part.weight for part in before.mixture(Tally((3, 1)))) == pytest.approx(1.0)
    assert certificate(Tally((3, 1)), before) == pytest.approx(certificate(Tally((3, 1)), prior), abs=0.05)


def test_a_question_without_lengths_in_a_batch_that_has_them_is_certified_by_all_classes():
    batch = {Tally((3,), mean_tokens=100.0 * q): 1 for q in range(1, 11)} | {Tally((2, 1)): 1}
    fit = BatchFit(batch)
    mute = fit.without(Tally((2, 1)))
    assert fit.prior.mark(0.0) == NO_LENGTH and len(mute.kind_shares) == 1 < len(fit.prior.kind_shares)
    assert fit.prior.posterior(Tally(mark=NO_LENGTH)) == pytest.approx(np.mean(fit.prior.shares, axis=0))


def test_a_question_of_unknown_length_has_the_mean_shares_of_all_classes():
    rows = ((0.5, 0.5), (0.0, 1.0))
    assert (shares_of(rows, 1), shares_of(rows, NO_LENGTH)) == ((0.0, 1.0), (0.25, 0.75))


def test_a_length_class_takes_the_tokens_of_its_questions_and_an_empty_one_those_of_all():
    batch = {Tally((2,), mean_tokens=100.0): 3, Tally((1, 1), mean_tokens=900.0): 1}
    assert class_tokens(batch, LearnedPrior(edges=(500.0,))) == (100.0, 900.0)
    assert class_tokens(batch, LearnedPrior(edges=(500.0, 1000.0))) == (100.0, 900.0, 300.0)
