"""A replica that joins, is ended by others and joins again; balances that are gone."""

from contextlib import closing

import pytest

from pets.core.budget import Currency
from pets.errors import StateError
from pets.gateway import shared_store
from pets.gateway.shared_store import SharedWriter

from .transactions import commit, entry


def test_a_balance_that_is_gone_pays_for_nothing(replica_writer):
    commit(replica_writer, entry(1, 1, ("window 1 1", 9), ("total", 9)))
    replica_writer.database.all("DELETE FROM balances WHERE name = 'window 1 1' RETURNING name")
    assert commit(replica_writer, entry(2, 1, ("window 1 1", 9), ("total", 9))) == (set(), {"total": (0, 1)})


def test_a_window_that_may_have_been_dropped_is_not_begun_again(replica_writer):
    made = [
        bool(commit(replica_writer, entry(id, 1, (name, 9), ("total", 99)))[0])
        for id, name in enumerate(["window 1 10", "window 1 9", "window 1 8", "window 60 1", "key window 1 2"], 1)
    ]
    assert made == [True, True, False, True, True]  # of the one before the last nobody has dropped anything


def test_a_replica_that_was_ended_joins_again_and_writes_then(replica_writer):
    before = replica_writer.replica
    replica_writer._charge(before, beat=None)
    assert commit(replica_writer, entry(1, 2, ("total", 9)))[0] == {1}
    assert replica_writer.replica != before
    assert replica_writer.database.all("SELECT replica FROM ledger") == [(replica_writer.replica,)]


def test_a_server_that_does_not_take_the_function_is_refused_at_the_start(postgres_url, monkeypatch):
    """As one does where the role has no TEMPORARY on the database: not at the first request."""
    monkeypatch.setattr(shared_store, "WRITE", "DO $$ BEGIN RAISE insufficient_privilege; END $$")
    with closing(SharedWriter(postgres_url)) as writer, pytest.raises(StateError, match="insufficient_privilege"):
        writer.register(Currency())
