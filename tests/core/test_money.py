"""What traces cost, in whole units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.money import TRACES, Currency, amount_words
from pets.errors import BudgetError
from pets.types import Usage

COUNTS = st.integers(0, 10**7)


def test_money_is_counted_in_whole_picodollars():
    currency = Currency.money(0.15, 0.60, prompt_tokens=200, max_tokens=1000)
    assert currency.hold == 200 * 150_000 + 1000 * 600_000
    assert currency.cost(Usage(tokens=10, prompt_tokens=200)) == 36_000_000
    assert Currency.money(0.0125, 0.0125, prompt_tokens=1, max_tokens=1).per_token == 12_500


@given(COUNTS, COUNTS, st.floats(0, 1))
def test_no_trace_costs_more_than_is_held_for_the_longest_whatever_is_cached(tokens, prompt_tokens, share):
    currency = Currency.money(3.0, 7.0, 0.5, prompt_tokens=1, max_tokens=1)
    longest = Usage(tokens=tokens, prompt_tokens=prompt_tokens)
    used = Usage(tokens=tokens, prompt_tokens=prompt_tokens, cached_tokens=int(share * prompt_tokens))
    assert currency.cost(used) <= currency.hold_for(longest)


@given(st.integers(0, 10**15))
def test_the_usage_worth_an_amount_costs_no_more(amount):
    for currency in (Currency.tokens(hold=9), Currency.money(3.0, 7.0, prompt_tokens=1, max_tokens=1)):
        assert 0 <= amount - currency.cost(currency.usage_worth(amount)) < max(1, currency.per_token)


def test_a_trace_with_a_price_of_its_own_costs_that_in_money_alone():
    used = Usage(tokens=4, cost=77)
    assert Currency.money(1.0, 1.0, prompt_tokens=1, max_tokens=1).cost(used) == 77
    assert (TRACES.cost(used), Currency.tokens(hold=9).cost(used)) == (1, 4)


def test_amounts_are_shown_as_people_know_them():
    currency = Currency.money(1.0, 1.0, prompt_tokens=1, max_tokens=1)
    assert currency.words(1_500_000_000_000) == amount_words(*currency.shown(1_500_000_000_000)) == "$1.5"


def test_a_hold_of_nothing_is_refused():
    with pytest.raises(BudgetError):
        Currency.tokens(hold=0)


def test_less_than_a_hundredth_of_a_cent_has_all_its_decimals():
    assert amount_words(0.000013, "usd") == "$0.000013"


def test_where_output_is_free_an_amount_is_worth_prompt_tokens():
    currency = Currency.money(1, 0, prompt_tokens=10, max_tokens=100)
    assert currency.usage_worth(10_000_000) == Usage(prompt_tokens=10)
