"""The cold start: what a stream teaches without labels."""

import numpy as np

from pets.core.policy import View
from pets.core.tally import Tally
from pets.plans import ColdPrice
from pets.policies.price import Price
from pets.testing import check_policy


def batch(strength, questions=60, traces=6, tokens=0.0, seed=0):
    rng = np.random.default_rng(seed)
    thetas = rng.dirichlet([strength] * 4, questions)
    answers = [rng.choice(list("ABCD"), size=traces, p=theta).tolist() for theta in thetas]
    tallies = [Tally.of(one, options=4, question=str(q)) for q, one in enumerate(answers)]
    return {
        Tally(t.counts, 0, 0, 4, mean_tokens=tokens * (1 + q % 5), question=t.question): 1
        for q, t in enumerate(tallies)
    }


def test_a_handful_of_questions_teaches_nothing_yet():
    rule = ColdPrice(rounds=3)
    assert rule.refit(batch(0.3, questions=7)) is rule
    assert rule.refit({Tally((), nulls=4, question=str(q)): 1 for q in range(20)}) is rule


def test_an_easy_stream_is_believed_to_be_easy_and_a_hard_one_hard():
    easy, hard = (ColdPrice(rounds=3).refit(batch(strength)) for strength in (0.05, 2.0))
    assert sum(easy.shares[0][:3]) > 0.7
    assert sum(hard.shares[0][4:]) > 0.7


def test_at_the_same_mean_budget_an_easy_stream_has_the_lower_price():
    """Where most questions need little, more is left for each trace that gains little."""
    easy, hard = (dict(ColdPrice(rounds=3).refit(batch(strength)).table) for strength in (0.05, 2.0))
    assert np.mean([easy[price] < hard[price] for price in easy if 8 < hard[price] < 40]) > 0.8


def test_one_round_learns_the_shares_of_the_patterns():
    easy, hard = (ColdPrice(rounds=1).refit(batch(strength)) for strength in (0.05, 2.0))
    assert easy.grids[0][0] > 0.7 > 0.3 > hard.grids[0][0]
    view = View(budget_left=120, questions_left=10, cap=64)
    assert easy.quota(Tally((2, 2), options=4), view) > easy.quota(Tally((4,), options=4), view)


def test_lengths_are_learned_where_tokens_are_told():
    rule = ColdPrice(rounds=3).refit(batch(0.3, tokens=100.0))
    assert len(rule.edges) == 4
    assert len(rule.shares) == 5


def test_it_is_the_price_rule_until_it_has_learned():
    view = View(budget_left=120, questions_left=10, cap=64)
    for counts in ((4,), (3, 1), (2, 1, 1)):
        tally = Tally(counts, options=4)
        assert ColdPrice(rounds=2).quota(tally, view) == Price(rounds=2).quota(tally, view)


def test_it_conforms():
    check_policy(ColdPrice(rounds=2))
