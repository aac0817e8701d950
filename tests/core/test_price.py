"""The price of a trace: batches against a plain search, tables against a plain replay."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.okg import okg_index
from pets.core.price import LOG_PRICES, PriceTable, batch, fit_prices
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
    table = fit_prices(index, paths, options=2, rounds=0, warmup=4)
    for i in range(0, len(LOG_PRICES), 9):
        stops = []
        for path in paths:
            n = 4
            while n < 30 and index(Tally.of(path[:n], options=2)) > LOG_PRICES[i]:
                n += 1
            stops.append(n)
        assert table.spends[i] == pytest.approx(np.mean(stops))
    assert table.spends[0] == 4.0 and table.spends[-1] > 20


@given(st.floats(0, 100))
def test_the_price_falls_as_the_budget_rises(mean):
    table = PriceTable((-1.0, -2.0, -7.0), (4.0, 9.0, 30.0))
    assert table.log_price(mean) >= table.log_price(mean + 1)


def test_a_table_needs_rising_spends_and_training():
    with pytest.raises(InputError, match="do not fall"):
        PriceTable((-1.0, -2.0), (4.0, 3.0))
    with pytest.raises(InputError, match="at least one training question"):
        fit_prices(index, [], options=2, rounds=0, warmup=4)
