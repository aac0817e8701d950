"""``pets keys``: who may ask a gateway."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pets.cli._groups import option, verb_group
from pets.cli._output import FORMAT, Format, print_rows
from pets.cli._terminal import echo, say
from pets.core.money import Currency, amount_words
from pets.engine.budget import Amount, total_of
from pets.errors import BudgetError, StateError
from pets.gateway.auth import ApiKey, KeyStore, unit_shown
from pets.store.database import is_shared, shown_location
from pets.store.store import open_database

EXAMPLES = {"traces": "500 for traces", "tokens": "2Mtok for tokens", "picodollars": "5usd for dollars"}


STORE: Any = option("The gateway's file or URL, as given to pets serve.", required=True, metavar="FILE")


@verb_group()
def keys() -> None:
    """Keys of a gateway, running or not: as soon as its store has one, requests need a key."""


@keys.verb()
@click.argument("name")
def add(
    name: str,
    store: str = STORE,
    budget: str | None = option(
        "All that this key may ever spend, in the unit of the gateway's budget: 500 (traces), 2Mtok or 5usd.",
        metavar="AMOUNT",
    ),
    admin: bool = option("Let the key see everybody's questions on the dashboard.", False),
) -> None:
    """Make a key for NAME and show it, this once: the store keeps its hash alone."""
    amount, unit = (None, None) if budget is None else _parse_budget(budget)
    is_new = not _exists(store)
    with _keys(store, create=True) as key_store:
        counts = key_store.last_unit()
        if unit is not None and counts not in (None, unit):
            words = f"--budget {budget} is in {unit_shown(unit)}, this gateway counts {unit_shown(counts)}."
            raise BudgetError(f"{words} Write {EXAMPLES[str(counts)]}.")
        secret = key_store.add(name, amount, admin, unit)
    if is_new:
        name = shown_location(store)
        say(f'"{name}" is a new store. The key opens the gateway that is started with --store {name}.')
    echo(secret)


@keys.verb("list")
def list_keys(store: str = STORE, form: Format | None = FORMAT) -> None:
    """List the names of the keys, what each has spent, and of which budget."""
    with _keys(store) as key_store:
        rows = [_facts(*row, key_store.spent(row[0].name)) for row in key_store.all()]

    def print_people() -> None:
        for row in rows:
            echo(_line(row))

    print_rows(rows, form, print_people)


def _facts(key: ApiKey, created: float, revoked: float | None, spent: Mapping[str, int]) -> dict[str, Any]:
    """What is known of a key; amounts as people know them, what it has spent by unit."""
    budget, unit = Currency(key.unit or next(iter(spent), "units")).shown(key.budget or 0)
    return {
        "name": key.name,
        "created": _time(created),
        "budget": None if key.budget is None else budget,
        "unit": None if key.budget is None else unit,
        "spent": {name: amount for amount, name in (Currency(unit).shown(amount) for unit, amount in spent.items())},
        "admin": key.admin,
        "revoked": None if revoked is None else _time(revoked),
    }


def _line(row: Mapping[str, Any]) -> str:
    amounts = [amount_words(amount, unit) for unit, amount in row["spent"].items()]
    notes = [f"spent {' and '.join(amounts)}" if amounts else "nothing spent"]
    if row["budget"] is not None:
        notes.append(f"budget {amount_words(row['budget'], row['unit'])}")
    notes += ["admin"] * row["admin"] + ["revoked"] * (row["revoked"] is not None)
    return "\t".join([row["name"], row["created"][:10], ", ".join(notes)])


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@keys.verb()
@click.argument("name")
def revoke(name: str, store: str = STORE) -> None:
    """Let NAME's key open nothing any more, from the next request on; what is under way is answered."""
    with _keys(store) as key_store:
        key_store.revoke(name)
    say(f"The key of {name} is revoked.")


def _parse_budget(text: str) -> tuple[int, str]:
    """The amount in the ledger's smallest unit, and that unit."""
    amount = Amount.parse(text)
    if amount.unit == "mean":
        raise BudgetError(f"{text!r} is a mean; a key's budget is a total: 500 (traces), 2Mtok or 5usd.")
    return total_of(amount, 0), amount.ledger_unit


@contextmanager
def _keys(store: str, create: bool = False) -> Iterator[KeyStore]:
    if not create and not _exists(store):
        raise StateError(f'store "{store}": there is no such file. Check the path; `pets keys add` begins a new one.')
    with closing(open_database(store, create=create, durability="machine")) as database:
        yield KeyStore(database)


def _exists(store: str) -> bool:
    """Whether a store is there; of a URL's that is seen when it is opened."""
    return "://" in store or is_shared(store) or Path(store).exists()
