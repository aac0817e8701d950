"""How PostgreSQL writes reservations and settlements of a ledger that replicas share: one call, decided in the server.

:data:`WRITE` makes the function, :data:`CALL_WRITE` calls it with what :func:`call_values` gives: operations as arrays.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pets.gateway.ledger import Settlement

__all__ = ["CALL_WRITE", "MAX_BALANCE", "NOW", "VOID", "WRITE", "Entry", "Operation", "call_values"]

MAX_BALANCE = 1 << 62  # the sum of two is a BIGINT
VOID: Settlement = (0, 0, 0, 0, 0, 0)
NOW = "extract(epoch FROM clock_timestamp())::double precision"
# Balances and entries are named by their place in the arrays. ``moved`` are the balances of settlements, ``wanted``
# those of entries with their limits; ``known`` is NULL where this replica has been ended.
WRITE = f"""
CREATE OR REPLACE FUNCTION pg_temp.write_ledger(
    this_replica bigint, names text[],
    settled_id bigint[], settled_spent bigint[], settled_delivered bigint[], settled_tokens bigint[],
    settled_prompt_tokens bigint[], settled_estimated bigint[], settled_claimed_more bigint[],
    moved_settlement bigint[], moved_balance bigint[], moved_held bigint[],
    entry_id bigint[], entry_key text[], entry_request text[], entry_kind text[], entry_unit text[],
    entry_traces bigint[], entry_held bigint[], entry_tokens bigint[], entry_prompt_tokens bigint[],
    entry_window text[],
    wanted_entry bigint[], wanted_balance bigint[], wanted_limit bigint[],
    OUT made bigint[], OUT known text[], OUT spents bigint[], OUT helds bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    changed bigint[];
    now_spent bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(names)]);
    now_held bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(names)]);
    fits boolean[] := array_fill(true, ARRAY[cardinality(entry_id)]);
    balance record;
    at bigint;
    first bigint := 1;
    last bigint;
BEGIN
    PERFORM 1 FROM replicas WHERE id = this_replica AND ended IS NULL FOR SHARE;
    IF NOT FOUND THEN RETURN; END IF;
    WITH done AS (
        UPDATE ledger l SET spent = t.spent, delivered = t.delivered, tokens = t.tokens,
            prompt_tokens = t.prompt_tokens, estimated = t.estimated, claimed_more = t.claimed_more
        FROM unnest(settled_id, settled_spent, settled_delivered, settled_tokens, settled_prompt_tokens,
            settled_estimated, settled_claimed_more)
            AS t (id, spent, delivered, tokens, prompt_tokens, estimated, claimed_more)
        WHERE l.id = t.id AND l.spent IS NULL RETURNING l.id
    ) SELECT coalesce(array_agg(done.id), ARRAY[]::bigint[]) INTO changed FROM done;
    FOR balance IN SELECT b.name, b.spent, b.held FROM balances b WHERE b.name = ANY(names) ORDER BY b.name FOR UPDATE
    LOOP
        at := array_position(names, balance.name);
        now_spent[at] := balance.spent;
        now_held[at] := balance.held;
    END LOOP;
    FOR place IN 1 .. cardinality(moved_settlement) LOOP
        IF settled_id[moved_settlement[place]] = ANY(changed) THEN
            at := moved_balance[place];
            now_spent[at] := now_spent[at] + settled_spent[moved_settlement[place]];
            now_held[at] := now_held[at] - moved_held[place];
        END IF;
    END LOOP;
    WHILE first <= cardinality(wanted_entry) LOOP  -- the balances of an entry stand together
        last := first;
        WHILE last < cardinality(wanted_entry) AND wanted_entry[last + 1] = wanted_entry[first] LOOP
            last := last + 1;
        END LOOP;
        FOR place IN first .. last LOOP
            at := wanted_balance[place];
            IF now_spent[at] IS NULL
                OR now_spent[at] + now_held[at] > wanted_limit[place] - entry_held[wanted_entry[place]]
            THEN fits[wanted_entry[first]] := false; END IF;
        END LOOP;
        IF fits[wanted_entry[first]] THEN
            FOR place IN first .. last LOOP
                at := wanted_balance[place];
                now_held[at] := now_held[at] + entry_held[wanted_entry[place]];
            END LOOP;
        END IF;
        first := last + 1;
    END LOOP;
    INSERT INTO ledger (id, key, request, kind, unit, traces, held, tokens, prompt_tokens, rate_window, at, replica)
    SELECT t.id, t.key, t.request, t.kind, t.unit, t.traces, t.held, t.tokens, t.prompt_tokens, t.rate_window, {NOW},
        this_replica
    FROM unnest(entry_id, entry_key, entry_request, entry_kind, entry_unit, entry_traces, entry_held, entry_tokens,
        entry_prompt_tokens, entry_window, fits)
        AS t (id, key, request, kind, unit, traces, held, tokens, prompt_tokens, rate_window, fits)
    WHERE t.fits;
    UPDATE balances b SET spent = t.spent, held = t.held
    FROM unnest(names, now_spent, now_held) AS t (name, spent, held)
    WHERE b.name = t.name AND (b.spent, b.held) <> (t.spent, t.held);
    made := ARRAY(SELECT t.id FROM unnest(entry_id, fits) AS t (id, fits) WHERE t.fits);
    known := ARRAY(SELECT t.name FROM unnest(names, now_spent) AS t (name, spent) WHERE t.spent IS NOT NULL);
    spents := array_remove(now_spent, NULL);
    helds := array_remove(now_held, NULL);
END $$
"""
WRITE_TYPES = (
    *("bigint", "text[]"),
    *(["bigint[]"] * 10),  # settlements, and what they move
    *("bigint[]", *["text[]"] * 4, *["bigint[]"] * 4, "text[]"),  # entries
    *(["bigint[]"] * 3),  # limits
)
CALL_WRITE = f"SELECT * FROM pg_temp.write_ledger({', '.join(f'${n}::{t}' for n, t in enumerate(WRITE_TYPES, 1))})"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the ledger: what is held, and the balances that it moves; ``limits`` are those of each."""

    id: int
    key: str
    request: str
    kind: str
    unit: str
    traces: int
    held: int
    tokens: int
    prompt_tokens: int
    window: str | None
    limits: tuple[tuple[str, int | None], ...]

    @property
    def row(self) -> tuple[object, ...]:
        """As :data:`WRITE` takes it."""
        return (self.id, self.key, self.request, self.kind, self.unit, self.traces, self.held,
                self.tokens, self.prompt_tokens, self.window)  # fmt: skip


@dataclass(slots=True, eq=False)
class Operation:
    """An entry to be made, whose future says whether it was, or one to be settled."""

    entry: Entry
    settlement: Settlement | None = None
    made: asyncio.Future[bool] | None = None

    @property
    def moves(self) -> tuple[int, int]:
        """What it adds to ``spent`` and ``held`` of its balances."""
        return (0, self.entry.held) if self.settlement is None else (self.settlement[0], -self.entry.held)


def call_values(names: Sequence[str], operations: Sequence[Operation]) -> list[list[Any]]:
    """Operations as :data:`CALL_WRITE` takes them: names, settlements, what these move, entries, what those want."""
    places = {name: place for place, name in enumerate(names, 1)}
    # One for each entry: a reservation that broke off and whose client has gone is taken back by both.
    settled = {op.entry.id: op for op in reversed(operations) if op.settlement is not None}
    entries = [op.entry for op in operations if op.settlement is None and op.entry.held <= MAX_BALANCE]
    moved = [
        (number, places[name], operation.entry.held)
        for number, operation in enumerate(settled.values(), 1)
        for name, _ in operation.entry.limits
    ]
    wanted = [
        (number, places[name], MAX_BALANCE if limit is None else min(limit, MAX_BALANCE))
        for number, entry in enumerate(entries, 1)
        for name, limit in entry.limits
    ]
    return [
        list(names),
        *_columns(((id, *(operation.settlement or VOID)) for id, operation in settled.items()), 7),
        *_columns(moved, 3),
        *_columns((entry.row for entry in entries), 10),
        *_columns(wanted, 3),
    ]


def _columns(rows: Iterable[Sequence[object]], width: int) -> list[list[object]]:
    """Rows as columns, for ``unnest``.

    >>> _columns([(1, "a"), (2, "b")], 2), _columns([], 2)
    ([[1, 2], ['a', 'b']], [[], []])
    """
    columns: list[list[object]] = [list(column) for column in zip(*rows, strict=True)]
    return columns or [[] for _ in range(width)]
