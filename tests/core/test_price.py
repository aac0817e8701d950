"""The price of a trace: batches against a plain search, tables against a plain replay."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.dirichlet import BATCHES, batch_gains, okg_index
from pets.core.price import (
    LOG_PRICES,
    batch,
    check_prices,
    fit_prices,
    learned_batch,
    log_price_at,
    price_in_force,
)
from pets.core.prior import STRENGTHS, LearnedPrior
from pets.core.tally import Tally
from pets.errors import InputError


def index(tally):
    return okg_index(tally, 1.0, 1)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.floats(-9.0, -1.0), st.integers(1, 4))
def test_a_batch_is_the_smallest_fantasy_that_brings_the_index_to_the_price(counts, log_price, left):
    tally = Tally(tuple(sorted(counts, reverse=True)), options=4)
    cap = tally.launched + 40

    def at(pending):
        return index(Tally(tally.counts, pending=pending, options=4))

    plain = next((k for k in range(40) if at(k) <= log_price), 40)
    assert batch(index, tally, log_price, left, cap) == math.ceil(plain / left)


def test_without_a_limit_of_rounds_it_buys_one_at_a_time_until_the_price_or_the_cap():
    tally = Tally((3, 3), options=2)
    assert batch(index, tally, -50.0, 0, 64) == 1
    assert batch(index, tally, 0.0, 0, 64) == 0
    assert batch(index, tally, -50.0, 0, 6) == 0


def test_a_table_is_the_mean_spend_of_the_rule_itself():
    rng = np.random.default_rng(0)
    paths = [rng.choice(list("AB"), size=30, p=[p, 1 - p]).tolist() for p in rng.uniform(0.5, 1, 20)]
    table = fit_prices(partial(batch, index), paths, options=2, rounds=0, warmup=4)
    for i in range(0, len(LOG_PRICES), 9):
        stops = []
        for path in paths:
            n = 4
            while n < 30 and index(Tally.of(path[:n], options=2)) > LOG_PRICES[i]:
                n += 1
            stops.append(n)
        assert table[i] == (LOG_PRICES[i], pytest.approx(np.mean(stops)))
    assert table[0][1] == 4.0 and table[-1][1] > 20


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.floats(-9.0, -2.0), st.integers(1, 4), st.integers(0, 3))
def test_a_learned_batch_is_worth_most_after_it_is_paid_for(counts, log_price, left, pending):
    counts = tuple(sorted(counts, reverse=True))
    prior, tally = LearnedPrior(), Tally(counts, pending=pending, options=4)
    gains = prior.posterior(tally) @ batch_gains(counts, 4, STRENGTHS)[0]
    net = {int(k): gain - math.exp(log_price) * k for k, gain in zip(BATCHES, gains, strict=True)}
    best = max(net, key=net.get)
    wanted = max(0, math.ceil(best / left) - pending) if net[best] > 0 else 0
    assert learned_batch(prior, tally, log_price, left, cap=200) == wanted
    assert learned_batch(prior, tally, log_price, left, cap=tally.launched + 2) == min(wanted, 2)
    assert learned_batch(prior, tally, log_price, 0, cap=200) == (net[best] > 0)


def test_a_length_class_counts_in_a_learned_batch():
    sure, unsure = (0.95, 0.01, 0.01, 0.01, 0.01, 0.01), (0.01, 0.01, 0.01, 0.01, 0.01, 0.95)
    prior = LearnedPrior((sure, unsure), edges=(500.0,))
    short, long = (Tally((2,), options=4, mean_tokens=tokens) for tokens in (100.0, 900.0))
    assert learned_batch(prior, short, math.log(0.01), 0, 64) == 0 < learned_batch(prior, long, math.log(0.01), 0, 64)


@given(st.lists(st.floats(1, 60), min_size=2, max_size=9), st.floats(0, 70))
def test_prices_are_read_on_straight_lines(spends, mean):
    spends = sorted(spends)
    table = tuple((-1.0 * n, spend) for n, spend in enumerate(spends))
    assert log_price_at(table, mean) == pytest.approx(np.interp(mean, spends, [price for price, _ in table]))


@given(st.floats(0, 100))
def test_the_price_falls_as_the_budget_rises(mean):
    table = ((-1.0, 4.0), (-2.0, 9.0), (-7.0, 30.0))
    assert log_price_at(table, mean) >= log_price_at(table, mean + 1)


def test_a_table_needs_rising_spends_and_training():
    with pytest.raises(InputError, match="do not fall"):
        check_prices(((-1.0, 4.0), (-2.0, 3.0)))
    with pytest.raises(InputError, match="at least one training question"):
        fit_prices(partial(batch, index), [], options=2, rounds=0, warmup=4)


def test_the_more_traces_are_left_the_lower_is_the_price_in_force():
    batch = {Tally(options=4): 10}
    prices = [
        price_in_force(lambda t: okg_index(t, 1.0, 1), LearnedPrior(), batch, traces, cap=64)
        for traces in (20, 80, 10_000)
    ]
    assert prices[0] > prices[1] > prices[2]
