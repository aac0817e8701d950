"""Budgets and prices as people write them."""

import pytest

from pets.engine.budget import Amount, TokenPrice, total_of
from pets.errors import BudgetError, InputError


@pytest.mark.parametrize(
    ("text", "total"),
    [("16x", 160), ("5000", 5000), ("2Mtok", 2_000_000), ("5usd", 5 * 10**12), ("$0.5", 5 * 10**11), ("+2000", 2000)],
)
def test_budgets_as_people_write_them(text, total):
    assert total_of(Amount.parse(text), 10) == total


@pytest.mark.parametrize("text", ["", "x", "-3", "0", "2.5", "1.5tok", "5 euros", "nan", "1e400x"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(BudgetError):
        Amount.parse(text)


def test_a_fraction_of_a_trace_is_answered_with_how_money_is_written():
    with pytest.raises(BudgetError, match=r"got '\+0\.02'\. For money write 0\.02usd\.$"):
        Amount.parse("+0.02")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("in=1", "a price is in="),
        ("in=a,out=1", "a price is in="),
        ("0.15", "a price is in="),
        ("in=-1,out=1", "not negative"),
        ("in=0,out=0", "not both 0"),
        ("in=1,out=2,cached=5", "cached tokens cost no more"),
        ("in=1,out=2,batch=2", "a share of the price"),
    ],
)
def test_what_is_no_price_is_refused_with_what_is_wrong(text, words):
    with pytest.raises(InputError, match=words):
        TokenPrice.parse(text)
