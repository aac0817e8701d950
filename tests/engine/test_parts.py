"""The small parts: amounts, endpoints, the purse, the journal, the forecast."""

import asyncio
import sqlite3

import numpy as np
import pytest

from pets.core.budget import Budget, Currency
from pets.core.tally import Tally
from pets.engine.budgets import Amount, total_of
from pets.engine.endpoints import Fleet
from pets.engine.forecast import forecast
from pets.engine.journal import Journal
from pets.engine.prices import Price
from pets.engine.purse import Purse
from pets.engine.width import in_flight_limit
from pets.errors import BudgetError, InputError
from pets.policies.okg import OKG
from pets.policies.uniform import Uniform
from pets.store import Launch

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


@pytest.mark.parametrize("text", ["in=1", "in=a,out=1", "in=-1,out=1", "0.15", "in=0,out=0"])
def test_what_is_no_price_is_refused(text):
    with pytest.raises(InputError):
        Price.parse(text)


def spend(budget, purse, rng, most=40):
    """Traces of five questions, a few of which are very long, until nothing more is allowed."""
    in_flight, widest = [], 0
    while True:
        while len(in_flight) < most and purse.allows():
            question = str(rng.integers(5))
            in_flight.append((question, purse.launch(question)))
        if not in_flight:
            return widest
        widest = max(widest, len(in_flight))
        question, held = in_flight.pop(int(rng.integers(len(in_flight))))
        cost = int(rng.choice([20, 40, 1000], p=[0.6, 0.38, 0.02]))
        purse.settle(question, held, cost)
        budget.spent += cost


def test_the_purse_meets_the_budget_keeps_to_its_bound_and_does_not_throttle():
    for seed in range(20):
        budget = Budget(40_000, currency=Currency.tokens(hold=1000))
        widest = spend(budget, Purse(budget, worst=1000, bound=4000), np.random.default_rng(seed))
        assert 0.93 * 40_000 < budget.spent <= 44_000
        assert widest == 40


def test_the_purse_learns_what_each_question_costs():
    purse = Purse(Budget(10**6, currency=Currency.tokens(hold=1000)), worst=1000, bound=0)
    for _ in range(20):
        for question, cost in (("short", 10), ("long", 500)):
            purse.settle(question, purse.launch(question), cost)
    assert purse.expected("short") < 60 < 400 < purse.expected("long") < 500
    assert 100 < purse.expected("new") < 400


def test_load_is_shared_by_speed_and_the_sick_rest():
    async def run():
        fleet = Fleet([Scripted(), Scripted()], 8)
        quick, slow = fleet.endpoints
        quick.came(1, 1, 0.1)
        slow.came(1, 1, 1.0)
        quick.in_flight = 4
        assert await fleet.pick() is quick
        quick.in_flight = 20
        assert await fleet.pick() is slow
        for _ in range(5):
            slow.failed(asyncio.get_running_loop().time(), away=False)
        assert await fleet.pick() is quick
        slow.came(1, 1, 1.0)
        assert await fleet.pick() is slow

    asyncio.run(run())


class Slow:
    """A run whose writes wait for a word."""

    def __init__(self):
        self.batches = []

    def write(self, launched, traces, *, held=1):
        self.batches.append((list(launched), list(traces)))
        if len(self.batches) == 3:
            raise sqlite3.OperationalError("disk full")


def test_the_journal_shares_transactions_and_tells_of_failures():
    run = Slow()

    async def write():
        async with Journal(run) as journal:
            await asyncio.gather(*(journal.write([Launch("q", number)]) for number in range(50)))
            await journal.write([Launch("q", 50)])
            with pytest.raises(sqlite3.OperationalError):
                await asyncio.gather(*(journal.write([Launch("q", number)]) for number in (51, 52)))
            await journal.write([Launch("q", 53)])

    asyncio.run(write())
    assert sum(len(launched) for launched, _ in run.batches) == 54
    assert len(run.batches) <= 5


def test_a_forecast_begins_where_the_run_stands_and_rises():
    tallies = [Tally((3,), options=4)] * 40 + [Tally((2, 1), options=4)] * 10
    found = forecast(tallies, OKG(), up_to=12, runs=6)
    assert found.mean_budget[0] == 3.0 and found.consistency[-1] > found.consistency[0]
    middle = (found.consistency[0] + found.consistency[-1]) / 2
    assert 3.0 < found.budget_for(middle) < 12.0
    assert found.budget_for(1.0 + 1e-9) is None and found.budget_for(0.1) == 3.0
    with pytest.raises(InputError, match="index policy"):
        forecast(tallies, Uniform())
    with pytest.raises(InputError, match="spent already"):
        forecast(tallies, OKG(), up_to=2)


def test_a_small_batch_ends_with_few_in_flight_and_a_large_one_does_not():
    widths = [in_flight_limit(64, 160, left) for left in range(800, 0, -1)]
    assert widths[0] == 64 and widths[-1] == 5 and sorted(widths, reverse=True) == widths
    assert {in_flight_limit(64, 4000, left) for left in range(1, 400)} == {64}
