"""Budgets and prices as people write them."""

import pytest

from pets.engine.budget import Amount, TokenPrice, bounded, currency_of, total_of
from pets.errors import BudgetError, InputError
from pets.samplers import Sampling

from .conftest import Scripted


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


@pytest.mark.parametrize("text", ["in=1", "in=a,out=1", "in=-1,out=1", "0.15", "in=0,out=0"])
def test_what_is_no_price_is_refused(text):
    with pytest.raises(InputError):
        TokenPrice.parse(text)


class Bounded(Scripted):
    def __init__(self, length):
        super().__init__()
        self.length = length

    async def max_model_len(self):
        return self.length


def test_the_limit_of_a_trace_is_the_users_else_what_the_shortest_context_leaves_beside_the_prompt():
    servers, tokens = [Bounded(4096), Bounded(2048)], Amount.parse("2Mtok")
    assert bounded(Sampling(max_tokens=64), tokens, servers, 100).max_tokens == 64
    assert bounded(Sampling(), tokens, servers, 100).max_tokens == 1948
    assert bounded(Sampling(), Amount.parse("16x"), servers, 100).max_tokens is None


@pytest.mark.parametrize("lengths", [(None,), (4096, None), (100,)])
def test_without_a_limit_that_is_known_a_budget_in_tokens_or_money_asks_for_one(lengths):
    sampling = bounded(Sampling(), Amount.parse("2Mtok"), [Bounded(length) for length in lengths], 100)
    with pytest.raises(BudgetError, match="--max-tokens"):
        currency_of(Amount.parse("2Mtok"), None, prompt_tokens=100, max_tokens=sampling.max_tokens)
