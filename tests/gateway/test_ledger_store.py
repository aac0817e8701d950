"""What every store of a ledger has in common: balances with what is on its way, windows by name."""

import pytest

from pets.errors import InputError
from pets.gateway.ledger_store import Balance, SpendRateLimit


def test_a_balance_is_what_the_store_has_and_what_is_on_its_way():
    balance = Balance(limit=20, is_known=False)
    balance.move(0, 5)
    assert (balance.spent, balance.held, balance.free, balance.is_known) == (0, 5, 15, False)
    balance.stored(7, 1)  # others spent, and nothing of ours has come yet
    assert (balance.spent, balance.held, balance.free, balance.is_known) == (7, 6, 7, True)
    balance.move(0, -5)
    balance.stored(7, 6)
    assert (balance.spent, balance.held) == (7, 6)
    assert Balance(spent=3).free == float("inf")


def test_windows_have_names_that_replicas_agree_on():
    limit = SpendRateLimit(5, 3600.0)
    assert limit.window(7300.0) == ("window 3600 2", 7200.0) and limit.seconds_left(7300.0) == 3500.0
    assert SpendRateLimit(5, 0.5).window(1.2) == ("window 0.5 2", 1.0)


@pytest.mark.parametrize(
    ("amount", "seconds", "says"), [(-1, 60, "amount is at least 0"), (5, 0, "seconds is more than")]
)
def test_an_allowance_that_cannot_be_is_refused(amount, seconds, says):
    with pytest.raises(InputError, match=says):
        SpendRateLimit(amount, seconds)
