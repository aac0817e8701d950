"""The price rule: what it buys, uses up, learns in training or from the stream itself, and believes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core import race
from pets.core.policy import Training, View
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform
from pets.registry import make_policy
from pets.testing import check_policy

VIEW = View(budget_left=1200, questions_left=100, cap=64)


def test_a_price_rule_stops_clear_questions_and_goes_on_with_close_ones():
    rule = PriceRule()
    assert rule.quota(Tally((9,), options=4), VIEW) == 9
    assert rule.quota(Tally((5, 4), options=4), VIEW) == 10


def test_rounds_bound_the_batches():
    rule = PriceRule(rounds=2)
    first = rule.quota(Tally((2, 2), options=4), VIEW)
    assert first > 5
    assert rule.quota(Tally((2, 2), options=4, rounds=2), VIEW) == 4


def test_a_learned_prior_comes_from_the_training_questions_and_their_lengths():
    rng = np.random.default_rng(0)
    sure = [["A"] * 64 for _ in range(20)]
    torn = [rng.choice(list("ABCD"), size=64, p=[0.4, 0.2, 0.2, 0.2]).tolist() for _ in range(20)]
    tokens = [[100 + j % 7 for j in range(64)]] * 20 + [[900 + j % 7 for j in range(64)]] * 20
    rule = PriceRule(prior="learned").fit(Training(sure + torn, tokens, options=4))
    short, long = (Tally((4,), options=4, mean_tokens=mean) for mean in (100.0, 900.0))
    assert rule.edges and rule.shares[0] != rule.shares[-1]
    ample = View(budget_left=2400, questions_left=100, cap=64)
    assert rule.quota(short, ample) == 4 < rule.quota(long, ample)
    plain = PriceRule(prior="learned", lengths=False).fit(Training(sure + torn, tokens, options=4))
    assert plain.edges == () and len(plain.shares) == 1 and plain.quota(short, ample) == plain.quota(long, ample)
    assert PriceRule(prior="learned").fit(Training(sure + torn, options=4)).edges == ()


def test_a_fitted_price_spends_its_mean_on_questions_like_its_training():
    rng = np.random.default_rng(0)

    def draw(n):
        return [rng.choice(list("ABCD"), size=64, p=t).tolist() for t in rng.dirichlet([0.3] * 4, n)]

    rule = PriceRule(warmup=2).fit(Training(draw(100), options=4))
    spends = []
    for path in draw(300):
        n = 2
        while n < 64 and rule.quota(Tally.of(path[:n], options=4), VIEW) > n:
            n += 1
        spends.append(n)
    assert np.mean(spends) == pytest.approx(12, rel=0.25)


def batch(strength, questions=60, traces=6, tokens=0.0, seed=0):
    rng = np.random.default_rng(seed)
    thetas = rng.dirichlet([strength] * 4, questions)
    answers = [rng.choice(list("ABCD"), size=traces, p=theta).tolist() for theta in thetas]
    tallies = [Tally.of(path, options=4, question=str(q)) for q, path in enumerate(answers)]
    return {
        Tally(t.counts, 0, 0, 4, mean_tokens=tokens * (1 + q % 5), question=t.question): 1
        for q, t in enumerate(tallies)
    }


def test_a_handful_of_questions_teaches_nothing_yet():
    rule = PriceRule(rounds=3, cold=True)
    assert rule.refit(batch(0.3, questions=7)) is rule
    assert rule.refit({Tally((), nulls=4, question=str(q)): 1 for q in range(20)}) is rule


def test_an_easy_stream_is_believed_to_be_easy_and_a_hard_one_hard():
    easy, hard = (PriceRule(rounds=3, cold=True).refit(batch(strength)) for strength in (0.05, 2.0))
    assert sum(easy.shares[0][:3]) > 0.7
    assert sum(hard.shares[0][4:]) > 0.7


def test_at_the_same_mean_budget_an_easy_stream_has_the_lower_price():
    """Where most questions need little, more is left for each trace that gains little."""
    easy, hard = (dict(PriceRule(rounds=3, cold=True).refit(batch(strength)).table) for strength in (0.05, 2.0))
    assert np.mean([easy[price] < hard[price] for price in easy if 8 < hard[price] < 40]) > 0.8


def test_one_round_learns_the_shares_of_the_patterns():
    easy, hard = (PriceRule(rounds=1, cold=True).refit(batch(strength)) for strength in (0.05, 2.0))
    assert easy.grids[0][0] > 0.7 > 0.3 > hard.grids[0][0]
    view = View(budget_left=120, questions_left=10, cap=64)
    assert easy.quota(Tally((2, 2), options=4), view) > easy.quota(Tally((4,), options=4), view)


def test_lengths_are_learned_where_tokens_are_told():
    rule = PriceRule(rounds=3, cold=True).refit(batch(0.3, tokens=100.0))
    assert len(rule.edges) == 4
    assert len(rule.shares) == 5


def test_it_is_the_price_rule_until_it_has_learned():
    view = View(budget_left=120, questions_left=10, cap=64)
    for counts in ((4,), (3, 1), (2, 1, 1)):
        tally = Tally(counts, options=4)
        assert PriceRule(rounds=2, cold=True).quota(tally, view) == PriceRule(rounds=2).quota(tally, view)


@pytest.mark.parametrize("options", [{"cold": True}, {"use_up": True, "leave": 3}])
def test_every_option_conforms(options):
    check_policy(PriceRule(rounds=2, **options))


def test_the_floor_is_what_no_other_question_can_use():
    view = View(budget_left=150, questions_left=3, cap=64)
    eager, plain = PriceRule(rounds=1, use_up=True), PriceRule(rounds=1)
    assert eager.quota(Tally((4,)), view) == max(150 - 128, plain.quota(Tally((4,)), view))
    assert eager.quota(Tally((4,)), View(150, 30, 64)) == plain.quota(Tally((4,)), View(150, 30, 64))
    assert eager.quota(Tally((4,)), View(150, 1, None)) == plain.quota(Tally((4,)), View(150, 1, None))


def test_what_is_left_to_the_next_window_is_not_forced_on_a_question():
    view = View(budget_left=150, questions_left=3, cap=64)
    all_of_it, a_little_less = PriceRule(use_up=True), PriceRule(use_up=True, leave=10)
    assert all_of_it.quota(Tally((4,)), view) - a_little_less.quota(Tally((4,)), view) == 10


def test_a_belief_is_that_of_the_rule_in_force():
    """An untrained rule decides by the declared population, so its certificates go by that too."""
    rule = PriceRule(rounds=3)
    trained = rule.trained
    assert rule.belief == LearnedPrior(trained.shares, trained.edges, trained.kind_shares) != LearnedPrior()
    learned = PriceRule(rounds=3, cold=True).refit(batch(0.05))
    assert learned.belief == LearnedPrior(learned.shares, learned.edges, learned.kind_shares)
    assert PriceRule(prior=1.0).belief == LearnedPrior()


def test_the_price_falls_where_more_is_left():
    rule = PriceRule(rounds=3)
    rich, poor = (rule.log_price(View(budget, 10, 64)) for budget in (400, 60))
    assert rich < poor
    assert PriceRule(rounds=1).log_price(View(400, 10, 64)) is None


def test_a_policy_without_a_prior_or_a_price_says_so():
    assert (Uniform().belief, Uniform().log_price(View(400, 10, 64))) == (LearnedPrior(), None)


def test_a_spec_says_what_is_served():
    assert make_policy("price:rounds=3,use_up=true,leave=32") == PriceRule(rounds=3, use_up=True, leave=32)
    assert make_policy("price:cold=true") == PriceRule(cold=True)


@pytest.mark.parametrize(
    "options",
    [
        {"rounds": -1},
        {"warmup": 0},
        {"prior": 0.0},
        {"prior": "magic"},
        {"rounds": 1, "warmup": 2},
        {"leave": -1},
        {"table": ()},
        {"table": ((-1.0, 5.0), (-2.0, 4.0))},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        PriceRule(**options)


@given(
    st.lists(st.integers(1, 8), max_size=4),
    st.integers(0, 4),
    st.integers(0, 2),
    st.sampled_from([None, 4, 5]),
    st.integers(0, 3000),
    st.sampled_from([None, 1, 3, 16, 64]),
)
def test_the_fewest_votes_are_those_of_the_walk_that_every_policy_has(counts, nulls, pending, options, left, cap):
    tally = Tally(tuple(sorted(counts, reverse=True)), nulls, pending, options, mean_tokens=50.0)
    rule, view = PriceRule(warmup=2), View(left, 50, cap)
    assert rule.fewest(tally, view) == race.fewest(lambda state: max(0, _bounded(rule, state, view)), tally)


def _bounded(rule: PriceRule, state: Tally, view: View) -> int:
    """What the warm-up or the quota leaves to launch, within the view's cap."""
    total = rule.warmup if state.returned < rule.warmup else rule.quota(state, view)
    return (total if view.cap is None else min(total, view.cap)) - state.returned
