"""API keys: given out once, kept as hashes. A key has 256 random bits, so one round of SHA-256 hides it."""

import hashlib
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from pets.errors import InputError
from pets.store.database import Database

__all__ = ["ANYBODY", "Key", "Keys"]

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
MARK = "pets-"


@dataclass(frozen=True, slots=True)
class Key:
    """Who asks: ``budget`` is this key's own, in the ledger's unit; an ``admin`` sees everybody's questions."""

    name: str
    budget: int | None = None
    admin: bool = False


ANYBODY = Key("anybody", admin=True)


class Keys:
    """The keys of a store; where it has none, everybody may ask.

    >>> from pets.store.database import Database
    >>> keys = Keys(Database(":memory:", create=True, durability="process"))
    >>> keys.find("whatever").name                          # no keys yet: everybody may ask
    'anybody'
    >>> secret = keys.add("alice", budget=500)
    >>> keys.find(secret), keys.find("pets-guess")
    (Key(name='alice', budget=500, admin=False), None)
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    @property
    def on(self) -> bool:
        """Whether requests need a key."""
        # A revoked key still closes the door: the last one to go does not open it to everybody.
        return self._database.one("SELECT 1 FROM api_keys LIMIT 1") is not None

    def find(self, secret: str | None) -> Key | None:
        """Whose key this is; None if nobody's. Asked of the store each time: another process may add and revoke."""
        if secret is not None:
            # Looked up by its hash: how long that takes says nothing about any key.
            sql = "SELECT name, budget, admin FROM api_keys WHERE hash = ? AND revoked IS NULL"
            if (row := self._database.one(sql, _hash(secret))) is not None:
                return Key(row[0], row[1], bool(row[2]))
        return None if self.on else ANYBODY

    def all(self) -> list[tuple[str, float, int | None, bool, float | None]]:
        """Name, time of birth, budget, admin and time of revocation of each key."""
        rows = self._database.all("SELECT name, created, budget, admin, revoked FROM api_keys ORDER BY created")
        return [(name, created, budget, bool(admin), revoked) for name, created, budget, admin, revoked in rows]

    def add(self, name: str, budget: int | None = None, admin: bool = False) -> str:
        """A new key, to be shown once."""
        if not NAME.fullmatch(name):
            raise InputError(f"{name!r} is no name for a key; take up to 64 letters, digits, dots and dashes.")
        if budget is not None and budget < 0:
            raise InputError(f"a key's budget is 0 or more; got {budget}.")
        if self._database.one("SELECT 1 FROM api_keys WHERE name = ?", name) is not None:
            raise InputError(f"there is a key {name!r} already; take another name.")
        secret = MARK + secrets.token_urlsafe(32)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO api_keys (name, hash, created, budget, admin) VALUES (?, ?, ?, ?, ?)",
                (name, _hash(secret), self._clock(), budget, int(admin)),
            )
        return secret

    def revoke(self, name: str) -> None:
        """A key that opens nothing any more."""
        with self._database.transaction() as connection:
            changed = connection.execute(
                "UPDATE api_keys SET revoked = ? WHERE name = ? AND revoked IS NULL", (self._clock(), name)
            ).rowcount
        if not changed:
            raise InputError(f"there is no key {name!r} in use.")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
