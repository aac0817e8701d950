"""The ledger: reserve, settle, refund, grow, in traces, tokens and money."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.budget import Budget, Window
from pets.core.money import Currency
from pets.errors import BudgetError
from pets.types import Trace, Usage


@given(st.integers(0, 40), st.lists(st.sampled_from(["reserve", "settle", "refund", "grow"]), max_size=60))
def test_the_total_is_never_exceeded_while_no_trace_costs_more_than_its_hold(total, steps):
    budget = Budget(total, currency=Currency.tokens(hold=3))
    for number, step in enumerate(steps):
        before = (budget.total, budget.spent, budget.reserved)
        try:
            if step == "reserve":
                budget.reserve()
            elif step == "settle":
                budget.settle(Trace("q", number, tokens=number % 4))
            elif step == "refund":
                budget.refund()
            else:
                budget.grow(1)
        except BudgetError:
            assert (budget.total, budget.spent, budget.reserved) == before  # a refusal changes nothing
        assert 0 <= budget.spent + budget.reserved <= budget.total
        assert budget.affordable == budget.free // 3
        assert budget.free >= 0


def test_a_trace_that_costs_more_than_its_hold_is_charged_in_full_and_stops_the_rest():
    budget = Budget(10, currency=Currency.tokens(hold=5))
    budget.reserve(2)
    budget.settle(Trace("q", 0, tokens=9))
    budget.settle(Trace("q", 1, tokens=4))
    assert (budget.spent, budget.free, budget.affordable) == (13, -3, 0)


def test_plain_data_round_trips():
    budget = Budget.per_window(100, 1600, cap=64, currency=Currency.tokens(hold=9))
    budget.grow(1600)
    budget.reserve(3)
    assert Budget.from_plain(budget.to_plain()) == budget


@pytest.mark.parametrize(
    "make",
    [
        lambda: Budget(-1),
        lambda: Budget(5.0),
        lambda: Budget(float("nan")),
        lambda: Budget(5, cap=0),
        lambda: Budget(5).grow(-1),
        lambda: Budget(5).reserve(6),
        lambda: Budget(5).reserve(-1),
        lambda: Budget(5).refund(),
        lambda: Window(0, 5),
    ],
)
def test_what_cannot_be_kept_is_refused(make):
    with pytest.raises(BudgetError):
        make()


@given(st.lists(st.integers(0, 1000), max_size=60), st.integers(1, 60))
def test_cancelled_traces_never_exceed_a_budget_of_traces_and_count_in_thousandths(parts, total):
    budget = Budget(total)
    for part in parts:
        if not budget.affordable:
            break
        budget.reserve()
        budget.settle(Usage(part=part))
        assert budget.spent + budget.reserved <= budget.total
        assert 1000 * budget.spent - 999 <= budget.parts <= 1000 * budget.spent
    assert budget.settled == 0


def test_a_cancelled_trace_costs_the_tokens_that_were_written_and_is_no_sample_of_the_mean():
    budget = Budget(1000, currency=Currency.tokens(hold=100))
    budget.reserve(2)
    budget.settle(Usage(tokens=80, prompt_tokens=20))
    budget.settle(Usage(tokens=5, prompt_tokens=20, part=60))
    assert (budget.spent, budget.settled, budget.reserved) == (125, 1, 0)
