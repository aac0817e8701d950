"""Transactions of a replica whose thread was never started: the test's own."""

from pets.gateway.ledger_function import Entry, Operation
from pets.gateway.shared_store import StoreSnapshot


def entry(id, held, *limits):
    """A row of the ledger, with the limits of its balances."""
    return Entry(id, "alice", "r", "vote", "traces", held, held, 0, 0, None, limits)


def commit(writer, *operations):
    """What was made, and the balances, after a transaction of entries and settlements."""
    snapshot = StoreSnapshot()
    writer.commit([op if isinstance(op, Operation) else Operation(op) for op in operations], snapshot)
    return snapshot.made, snapshot.balances
