"""``pets keys``: who may ask a gateway."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import click

from pets.cli._groups import option, verb_group
from pets.cli._terminal import terminal_text
from pets.errors import StateError
from pets.gateway.auth import KeyStore
from pets.store.database import Database

__all__ = ["keys"]


@dataclass(frozen=True, slots=True)
class KeyStoreOptions:
    """Which gateway."""

    title: ClassVar[str] = "Gateway"

    store: Path = option("The gateway's file, as given to pets serve.", required=True)


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """What a key may do."""

    title: ClassVar[str] = "Key"

    budget: int | None = option("All that this key may spend, in the gateway's unit.", at_least=0)
    admin: bool = option("Let the key see everybody's questions on the dashboard.", False)


@verb_group()
def keys() -> None:
    """Keys of a gateway, running or not: as soon as its store has one, requests need a key."""


@keys.verb()
@click.argument("name")
def add(name: str, gateway: KeyStoreOptions, key: KeyOptions) -> None:
    """Make a key for NAME and show it, this once: the store keeps its hash alone."""
    with _keys(gateway.store, create=True) as key_store:
        click.echo(key_store.add(name, key.budget, key.admin))


@keys.verb("list")
def list_keys(gateway: KeyStoreOptions) -> None:
    """List the names of the keys."""
    with _keys(gateway.store) as key_store:
        for name, created, budget, admin, revoked in key_store.all():
            day = datetime.fromtimestamp(created, UTC).date()
            notes = [f"budget {budget}" if budget is not None else "", "admin" if admin else ""]
            notes.append("revoked" if revoked is not None else "")
            click.echo("\t".join([terminal_text(name), str(day), ", ".join(filter(None, notes))]))


@keys.verb()
@click.argument("name")
def revoke(name: str, gateway: KeyStoreOptions) -> None:
    """Let NAME's key open nothing any more, from the next request on; what is under way is answered."""
    with _keys(gateway.store) as key_store:
        key_store.revoke(name)


@contextmanager
def _keys(store: Path, create: bool = False) -> Iterator[KeyStore]:
    if not create and not store.exists():
        raise StateError(f'store "{store}": there is no such file. Check the path; `pets keys add` begins a new one.')
    database = Database(store, create=create, durability="machine")
    try:
        yield KeyStore(database)
    finally:
        database.close()
