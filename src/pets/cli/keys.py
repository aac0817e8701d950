"""``pets keys``: who may ask a gateway."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from pets.errors import StateError
from pets.gateway.auth import KeyStore
from pets.store.database import Database

__all__ = ["keys"]

store_option = click.option(
    "--store", required=True, type=click.Path(path_type=Path), help="The gateway's file, as given to pets serve."
)


@click.group()
def keys() -> None:
    """Keys of a gateway, running or not: as soon as its store has one, requests need a key."""


@keys.command("add")
@click.argument("name")
@store_option
@click.option("--budget", type=click.IntRange(min=0), help="All that this key may spend, in the gateway's unit.")
@click.option("--admin", is_flag=True, help="Sees everybody's questions on the dashboard.")
def add(name: str, store: Path, budget: int | None, admin: bool) -> None:
    """Make a key for NAME and show it, this once: the store keeps its hash alone."""
    with _keys(store, create=True) as found:
        click.echo(found.add(name, budget, admin))


@keys.command("list")
@store_option
def listed(store: Path) -> None:
    """The keys' names."""
    with _keys(store) as found:
        for name, created, budget, admin, revoked in found.all():
            day = datetime.fromtimestamp(created, UTC).date()
            notes = [f"budget {budget}" if budget is not None else "", "admin" if admin else ""]
            notes.append("revoked" if revoked is not None else "")
            click.echo("\t".join([name, str(day), ", ".join(filter(None, notes))]))


@keys.command("revoke")
@click.argument("name")
@store_option
def revoke(name: str, store: Path) -> None:
    """Let NAME's key open nothing any more, from the next request on; what is under way is answered."""
    with _keys(store) as found:
        found.revoke(name)


@contextmanager
def _keys(store: Path, create: bool = False) -> Iterator[KeyStore]:
    if not create and not store.exists():
        raise StateError(f'store "{store}": there is no such file. Check the path; `pets keys add` begins a new one.')
    database = Database(store, create=create, durability="machine")
    try:
        yield KeyStore(database)
    finally:
        database.close()
