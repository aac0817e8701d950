"""The one-shot grid, the oracle, the price rule and uniform on what they are shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.grid import cold_rows
from pets.core.policy import View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.online_grid import OnlineGrid
from pets.policies.oracle import Oracle
from pets.policies.price import Price
from pets.policies.uniform import Uniform

VIEW = View(budget_left=1200, questions_left=100, cap=64)
POOLS = [((60, 4), 0), ((64,), 0), ((63, 1), 0), ((36, 28), 0), ((30, 20, 14), 0), ((50, 14), 0)]
ANSWERS = [["ABC"[m] for m, n in enumerate(counts) for _ in range(n)] for counts, _ in POOLS]
TWINS = [
    (OnlineGrid(grids=cold_rows(5)), Price(rounds=1)),
    (OnlineGrid().fit(POOLS), Price(rounds=1).fit(ANSWERS, np.random.default_rng(0), options=3)),
]


def test_a_grid_gives_harder_patterns_more_and_meets_the_mean():
    policy = OnlineGrid(K=2).fit(POOLS)
    coins = np.linspace(0, 0.999, 200)
    shares, budgets = policy.grid.shares, []
    for counts in ((4,), (2, 1, 1)):
        views = [View(1200, 100, 64, coin=float(c)) for c in coins]
        budgets.append(np.mean([policy.quota(Tally(counts), view) for view in views]))
    assert 4 <= budgets[0] < budgets[1] <= 64
    assert np.dot(shares, budgets) == pytest.approx(12, rel=0.02)


def test_a_grid_decides_once_and_nulls_are_singletons():
    policy = OnlineGrid()
    assert policy.quota(Tally((5, 1)), VIEW) == 6
    assert policy.quota(Tally((2,), nulls=2), VIEW) == policy.quota(Tally((2, 1, 1)), VIEW)


def test_fit_returns_a_new_policy_and_leaves_the_old():
    cold = OnlineGrid(K=3)
    fitted = cold.fit(POOLS)
    assert cold.grids is None and len(fitted.grids) == 3 and fitted != cold


def test_the_oracle_knows_its_questions_and_no_others():
    pools = dict(zip("abcdef", POOLS, strict=True))
    oracle = Oracle(K=3).fit(pools, np.random.default_rng(0))
    quotas = {q: oracle.quota(Tally(question=q), VIEW) for q in pools}
    assert quotas["d"] > quotas["b"]
    with pytest.raises(InputError, match="knows 6 questions, not 'z'"):
        oracle.quota(Tally(question="z"), VIEW)


def test_a_price_rule_stops_clear_questions_and_goes_on_with_close_ones():
    rule = Price()
    assert rule.quota(Tally((9,), options=4), VIEW) == 9
    assert rule.quota(Tally((5, 4), options=4), VIEW) == 10


def test_rounds_bound_the_batches():
    rule = Price(rounds=2)
    first = rule.quota(Tally((2, 2), options=4), VIEW)
    assert first > 5
    assert rule.quota(Tally((2, 2), options=4, rounds=2), VIEW) == 4


@given(
    st.sampled_from([(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1), (3,), ()]),
    st.floats(0, 0.999),
    st.integers(300, 6000),
)
def test_one_round_is_the_one_shot_plan(counts, coin, budget):
    tally, view = Tally(counts, nulls=4 - sum(counts), options=4), View(budget, 100, 64, coin)
    for grid, price in TWINS:
        assert price.quota(tally, view) == grid.quota(tally, view)
        assert price.quota(Tally((5, 1)), view) == 6


def test_a_learned_prior_comes_from_the_training_questions_and_their_lengths():
    rng = np.random.default_rng(0)
    sure = [["A"] * 64 for _ in range(20)]
    torn = [rng.choice(list("ABCD"), size=64, p=[0.4, 0.2, 0.2, 0.2]).tolist() for _ in range(20)]
    tokens = [[100 + j % 7 for j in range(64)]] * 20 + [[900 + j % 7 for j in range(64)]] * 20
    rule = Price(prior="learned").fit(sure + torn, rng, options=4, tokens=tokens)
    short, long = (Tally((4,), options=4, mean_tokens=mean) for mean in (100.0, 900.0))
    assert rule.edges and rule.shares[0] != rule.shares[-1]
    ample = View(budget_left=2400, questions_left=100, cap=64)
    assert rule.quota(short, ample) == 4 < rule.quota(long, ample)
    plain = Price(prior="learned", lengths=False).fit(sure + torn, rng, options=4, tokens=tokens)
    assert plain.edges == () and len(plain.shares) == 1 and plain.quota(short, ample) == plain.quota(long, ample)
    assert Price(prior="learned").fit(sure + torn, rng, options=4).edges == ()


def test_a_fitted_price_spends_its_mean_on_questions_like_its_training():
    rng = np.random.default_rng(0)

    def draw(n):
        return [rng.choice(list("ABCD"), size=64, p=t).tolist() for t in rng.dirichlet([0.3] * 4, n)]

    rule = Price(warmup=2).fit(draw(100), rng, options=4)
    spends = []
    for path in draw(300):
        n = 2
        while n < 64 and rule.quota(Tally.of(path[:n], options=4), VIEW) > n:
            n += 1
        spends.append(n)
    assert np.mean(spends) == pytest.approx(12, rel=0.25)


def test_uniform_gives_the_mean_of_what_is_left():
    assert Uniform().quota(Tally(), VIEW) == 12


@pytest.mark.parametrize(
    "make",
    [
        lambda: OnlineGrid(K=6),
        lambda: OnlineGrid(K=3, grids=((1.0, 1.0, 0.0, 1.0),)),
        lambda: Price(rounds=-1),
        lambda: Price(warmup=0),
        lambda: Price(prior=0.0),
        lambda: Price(prior="magic"),
        lambda: Price(rounds=1, warmup=2),
        lambda: Price(table=()),
        lambda: Price(table=((-1.0, 5.0), (-2.0, 4.0))),
    ],
)
def test_bad_options_are_refused(make):
    with pytest.raises(InputError):
        make()
