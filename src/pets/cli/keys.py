"""``pets keys``: who may ask a gateway."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pets.cli._groups import option, verb_group
from pets.cli._terminal import echo, say
from pets.core.money import amount_words
from pets.engine.budget import Amount, total_of
from pets.errors import BudgetError, StateError
from pets.gateway.auth import KeyStore, unit_shown
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
def list_keys(store: str = STORE) -> None:
    """List the names of the keys, what each has spent, and of which budget."""
    with _keys(store) as key_store:
        for key, created, revoked in key_store.all():
            day = datetime.fromtimestamp(created, UTC).date()
            spent = key_store.spent(key.name)
            amounts = [amount_words(amount, unit) for unit, amount in spent.items()]
            notes = [f"spent {' and '.join(amounts)}" if amounts else "nothing spent"]
            if key.budget is not None:
                notes.append(f"budget {amount_words(key.budget, key.unit or next(iter(spent), 'units'))}")
            notes += ["admin"] * key.admin + ["revoked"] * (revoked is not None)
            echo("\t".join([key.name, str(day), ", ".join(notes)]))


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
