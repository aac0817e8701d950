"""A replica's transactions: what comes first is made if it fits; what moves, moves once; who is ended joins again."""

import contextlib
import random

import pytest

from pets.core.money import Currency
from pets.errors import StateError
from pets.gateway import shared_store
from pets.gateway.ledger_store import Charge, Operation, Reservation
from pets.gateway.shared_store import MAX_BALANCE, SharedStore

NAMES = ("key a", "key b", "total")


@pytest.fixture
def replica(postgres_url):
    """A replica without a thread: transactions are the test's own."""
    with contextlib.closing(SharedStore(postgres_url)) as store:
        store.register(Currency())
        yield store


def entry(id, held, *limits):
    """A row of the ledger, with the limits of its balances."""
    return Reservation(id, "alice", "r", "vote", "m", "traces", held, held, 0, 0, 0, limits)


def commit(store, *operations):
    """What was made, and the balances, after a transaction of entries and settlements."""
    snapshot = store.commit([op if isinstance(op, Operation) else Operation(op) for op in operations])
    return snapshot.made, snapshot.balances


def stored(store):
    return {name: (spent, held) for name, spent, held in store.database.all("SELECT * FROM balances")}


def test_what_comes_first_is_served_first_and_what_does_not_fit_leaves_room(replica):
    entries = [entry(1, 6, ("total", 10)), entry(2, 5, ("total", 10)), entry(3, 4, ("total", 10))]
    assert commit(replica, *entries) == ({1, 3}, {"total": (0, 10)})
    assert replica.database.all("SELECT id, held FROM ledger ORDER BY id") == [(1, 6), (3, 4)]


def test_every_limit_of_an_entry_holds(replica):
    entries = [entry(1, 3, ("key a", 5), ("total", None)), entry(2, 3, ("key a", 5), ("total", None))]
    assert commit(replica, *entries) == ({1}, {"key a": (0, 3), "total": (0, 3)})


def test_what_has_no_balance_always_fits(replica):
    assert commit(replica, entry(1, 3), entry(2, 9)) == ({1, 2}, {})


def test_a_sum_that_no_column_holds_is_not_reserved(replica):
    commit(replica, entry(1, 1, ("total", None)))
    huge = [entry(2, MAX_BALANCE, ("total", None)), entry(3, 1 << 70, ("total", None)), entry(4, 2, ("total", 1 << 70))]
    assert commit(replica, *huge) == ({4}, {"total": (0, 3)})


def test_a_settlement_moves_what_was_held_to_what_was_spent_once(replica):
    held = entry(1, 4, ("key a", None), ("total", None))
    commit(replica, held)
    settled = Operation(held, Charge(3, 3))
    after = {"key a": (3, 0), "total": (3, 0)}
    assert commit(replica, settled) == (set(), after)
    assert commit(replica, settled, settled) == (set(), after)
    assert stored(replica) == after


def test_room_that_a_settlement_leaves_is_taken_in_the_same_transaction(replica):
    held = entry(1, 10, ("total", 10))
    commit(replica, held)
    settled = Operation(held, Charge(6, 6))
    assert commit(replica, entry(2, 4, ("total", 10)), settled, entry(3, 1, ("total", 10))) == (
        {2},
        {"total": (6, 4)},
    )


def test_random_transactions_are_what_a_plain_program_makes_of_them(replica):
    rng = random.Random(0)
    balances, open_entries, id = {}, {}, 0
    for _ in range(60):
        operations, expected = [], set()
        for held in rng.sample(sorted(open_entries), min(len(open_entries), rng.randrange(4))):
            closed = open_entries.pop(held)
            spent = rng.randrange(closed.held + 1)
            operations.append(Operation(closed, Charge(spent)))
            for name, _ in closed.limits:
                balances[name] = (balances[name][0] + spent, balances[name][1] - closed.held)
        for _ in range(rng.randrange(5)):
            id += 1
            names = rng.sample(NAMES, rng.randrange(4))
            new = entry(id, rng.randrange(1, 9), *((name, rng.choice([None, 20, 60])) for name in names))
            operations.append(Operation(new))
            taken = [(sum(balances.setdefault(name, (0, 0))), limit) for name, limit in new.limits]
            if all(limit is None or amount + new.held <= limit for amount, limit in taken):
                expected.add(id)
                open_entries[id] = new
                for name in names:
                    balances[name] = (balances[name][0], balances[name][1] + new.held)
        made, _ = commit(replica, *operations)
        assert made == expected
        assert {name: both for name, both in stored(replica).items() if name in balances} == balances
    assert len(replica.database.all("SELECT id FROM ledger")) > 50


def test_a_balance_that_is_gone_pays_for_nothing(replica):
    commit(replica, entry(1, 1, ("window 1 1", 9), ("total", 9)))
    replica.database.all("DELETE FROM balances WHERE name = 'window 1 1' RETURNING name")
    assert commit(replica, entry(2, 1, ("window 1 1", 9), ("total", 9))) == (set(), {"total": (0, 1)})


def test_a_window_that_may_have_been_dropped_is_not_begun_again(replica):
    made = [
        bool(commit(replica, entry(id, 1, (name, 9), ("total", 99)))[0])
        for id, name in enumerate(["window 1 10", "window 1 9", "window 1 8", "window 60 1", "key window 1 2"], 1)
    ]
    assert made == [True, True, False, True, True]  # of the one before the last nobody has dropped anything


def test_a_replica_that_was_ended_joins_again_and_writes_then(replica):
    before = replica.replica
    replica.end_replica(before)
    assert commit(replica, entry(1, 2, ("total", 9)))[0] == {1}
    assert replica.replica != before
    assert replica.database.all("SELECT replica FROM ledger") == [(replica.replica,)]


def test_a_server_that_does_not_take_the_function_is_refused_at_the_start(postgres_url, monkeypatch):
    """As one does where the role has no TEMPORARY on the database: not at the first request."""
    monkeypatch.setattr(shared_store, "WRITE", "DO $$ BEGIN RAISE insufficient_privilege; END $$")
    with (
        contextlib.closing(SharedStore(postgres_url)) as store,
        pytest.raises(StateError, match="insufficient_privilege"),
    ):
        store.register(Currency())
