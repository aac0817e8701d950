"""API keys: shown once, stored as hashes, looked up for every request; and what is refused where there are none.

A key has 256 random bits, so one round of SHA-256 hides it.

The windows of keys' budgets are calendar days, weeks (from Monday) and months in UTC, each by its number. A day has a
number since 1970, and so have the week and the month that it is in: a ledger's row that knows its day knows the windows
in which it counts.
"""

import hashlib
import ipaddress
import json
import secrets
import time
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from pets.engine.endpoints import RateWindow
from pets.errors import InputError, StateError
from pets.openai.errors import ApiError
from pets.patterns import Pattern, escape
from pets.store.database import Database

KEY_NAME = Pattern(r"[A-Za-z0-9._-]{1,64}")
KEY_PREFIX = "pets-"
COLUMNS = "name, budget, admin, unit, rpm, expires, models, budget_window"  # of a key, as it is made from its row
FIND = (
    f"SELECT {COLUMNS}, EXISTS (SELECT 1 FROM api_keys o WHERE o.revoked IS NULL AND o.hash <> k.hash) "
    "FROM api_keys k WHERE hash = ? AND revoked IS NULL"
)
MAX_RPM = 1_000_000

BudgetWindow = Literal["day", "week", "month"]
BUDGET_WINDOWS: tuple[BudgetWindow, ...] = ("day", "week", "month")
DAY_S = 86_400
EPOCH = date(1970, 1, 1).toordinal()  # a Thursday


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Who sends a request: ``budget`` is this key's own; an ``admin`` sees all questions.

    The budget is in the smallest part of ``unit`` (traces, tokens, picodollars); without one, in the ledger's unit. It
    is for the key's life, or for each ``window``.
    The key may send ``rpm`` requests per minute until it ``expires``, to models that match one of the patterns of
    ``models``; without any, to all.
    """

    name: str
    budget: int | None = None
    admin: bool = False
    unit: str | None = None
    rpm: int | None = None
    expires: float | None = None
    models: tuple[str, ...] = ()
    window: BudgetWindow | None = None

    def is_in(self, unit: str) -> bool:
        """Whether a ledger in this unit can hold the key to its budget."""
        return self.budget is None or self.unit in (None, unit)

    def allows(self, model: str) -> bool:
        """Whether the key may ask for a model of this name, with the prefix of voted ones.

        >>> ApiKey("alice", models=("pets/*", "gpt-4o")).allows("pets/gpt-4"), ApiKey("bob").allows("gpt-4")
        (True, True)
        """
        return not self.models or any(_glob(pattern).fullmatch(model) for pattern in self.models)

    def check_model(self, model: str) -> None:
        """``ApiError`` where the key may not ask for this model."""
        if not self.allows(model):
            words = f"This key may not ask for the model {model[:100]!r}, only for {', '.join(self.models)}."
            raise ApiError(words, status=403, param="model", code="model_not_allowed")


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> Pattern:
    return Pattern("(?s)" + ".*".join(map(escape, pattern.split("*"))))


def unit_shown(unit: str | None) -> str:
    """The unit's name for people: picodollars are shown as dollars."""
    return "dollars" if unit == "picodollars" else str(unit)


ANYBODY = ApiKey("anybody", admin=True)


class KeyStore:
    """The keys of a store; while it has none, requests need no key.

    >>> from pets.store.store import open_database
    >>> keys = KeyStore(open_database(":memory:", create=True))
    >>> keys.find("whatever").name                          # no keys yet: everybody may ask
    'anybody'
    >>> secret = keys.add("alice", budget=500)
    >>> keys.find(secret).budget, keys.find("pets-guess")
    (500, None)
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self.clock = database, clock
        self.several = False  # whether other keys are in use beside the one that was found last

    @property
    def required(self) -> bool:
        """Whether requests need a key."""
        # A revoked key still closes the door: the last one to go does not open it to everybody.
        return self._database.one("SELECT 1 FROM api_keys LIMIT 1") is not None

    def find(self, secret: str | None) -> ApiKey | None:
        """The key with this secret, or None. Read from the store each time: another process may add and revoke."""
        # Looked up by its hash: how long that takes says nothing about any key.
        key = None if secret is None else self._find(_hash(secret))
        return key or (None if self.required else ANYBODY)

    def _find(self, digest: str) -> ApiKey | None:
        if (row := self._database.one(FIND, digest)) is None:
            return None
        self.several = bool(row[-1])
        return _key(*row[:-1])

    def all(self) -> list[tuple[ApiKey, float, float | None]]:
        """Every key, with the times of its creation and of its revocation."""
        rows = self._database.all(f"SELECT {COLUMNS}, created, revoked FROM api_keys ORDER BY created")
        return [(_key(*about), created, revoked) for *about, created, revoked in rows]

    def active(self) -> list[ApiKey]:
        return [key for key, _, revoked in self.all() if revoked is None]

    def spent(self, name: str, since: float = 0.0) -> dict[str, int]:
        """What a key has spent or holds, by unit: one, unless the gateway's unit was changed."""
        rows = self._database.all(
            "SELECT unit, sum(coalesce(spent, held)) FROM ledger WHERE key = ? AND kind != 'fallback' "
            "AND coalesce(day * 86400.0, at) >= ? GROUP BY unit",
            *(name, since),
        )
        return {unit: int(amount) for unit, amount in rows}

    def last_unit(self) -> str | None:
        """The unit that the gateway of this store counts in; ``None`` where it has counted nothing yet."""
        row = self._database.one("SELECT unit FROM ledger ORDER BY id DESC LIMIT 1")
        return None if row is None else str(row[0])

    def check_units(self, unit: str) -> None:
        """``InputError`` where a key's budget is in another unit than the gateway counts."""
        for key in self.active():
            if not key.is_in(unit):
                units = f"is in {unit_shown(key.unit)}, this gateway counts {unit_shown(unit)}"
                remedy = "Start it with a --budget (or --price) in that unit, or revoke the key."
                raise InputError(f"the budget of key {key.name!r} {units}. {remedy}")

    def add(self, name: str, *, admin: bool = False, **limits: Any) -> str:
        """Create a key and return its secret, which is not stored; ``limits`` are further fields of the key."""
        if not KEY_NAME.fullmatch(name):
            raise InputError(f"{name!r} is no name for a key; take up to 64 letters, digits, dots and dashes.")
        row = _row(limits)
        if self._database.one("SELECT 1 FROM api_keys WHERE name = ?", name) is not None:
            raise InputError(f"there is a key {name!r} already; take another name.")
        secret = KEY_PREFIX + secrets.token_urlsafe(32)
        row |= {"name": name, "hash": _hash(secret), "created": self.clock(), "admin": int(admin)}
        places = ", ".join("?" * len(row))
        with self._database.transaction() as transaction:
            transaction.execute(f"INSERT INTO api_keys ({', '.join(row)}) VALUES ({places})", list(row.values()))
        return secret

    def change(self, name: str, changes: Mapping[str, Any]) -> None:
        """Give fields of a key other values from the next request on; None, or no models, takes a limit away."""
        with self._database.transaction() as transaction:
            _update(transaction, name, _row(changes))

    def revoke(self, name: str) -> None:
        """Refuse this key from the next request on."""
        with self._database.transaction() as transaction:
            _update(transaction, name, {"revoked": self.clock()})
            transaction.execute("DELETE FROM paid_traces WHERE key = ?", (name,))  # nobody can ask for them any more


class CachedKeyStore(KeyStore):
    """Keys of a store that gateways share, as they were a moment ago: no request waits for its server."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.refresh()

    @property
    def required(self) -> bool:
        return self._required

    def _find(self, digest: str) -> ApiKey | None:
        return self._by_hash.get(digest)

    def active(self) -> list[ApiKey]:
        return list(self._by_hash.values())

    def refresh(self) -> None:
        rows = self._database.all(f"SELECT {COLUMNS}, hash, revoked FROM api_keys")
        keys = {digest: _key(*about) for *about, digest, revoked in rows if revoked is None}
        self._by_hash, self._required, self.several = keys, bool(rows), len(keys) > 1


def authenticate(keys: KeyStore, headers: Mapping[str, str], *, browser: bool = False) -> ApiKey:
    """The key that a request came with, or a 401.

    ``browser``: a password (HTTP basic) counts as the key, too; only for pages on which nothing can be spent.
    """
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    secret = credentials.strip() if scheme.lower() == "bearer" else None
    if browser and scheme.lower() == "basic":
        with suppress(ValueError):
            secret = b64decode(credentials, validate=True).decode().partition(":")[2]
    try:
        key = keys.find(secret)
    except StateError as error:
        raise ApiError("The keys cannot be read now.", status=503, retry_after=1) from error
    if key is None:
        words = "Incorrect API key provided." if secret else "A key is needed: send Authorization: Bearer KEY."
        raise ApiError(words, status=401, code="invalid_api_key")
    if key.expires is not None and keys.clock() >= key.expires:
        words = f"This key expired at {utc_words(key.expires)}. Ask the operator of this gateway for another end."
        raise ApiError(words, status=401, code="expired_api_key")
    return key


def utc_words(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


class RequestRates:
    """Lets each key send its ``rpm`` in any minute, of which each of several gateways takes its share."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: dict[str, RateWindow] = {}  # each key's requests of the last minute

    def check(self, key: ApiKey, gateways: int = 1) -> None:
        """Count a request, or refuse it with 429 until one of the last minute is a minute old."""
        if key.rpm is None:
            self._sent.pop(key.name, None)
            return
        now, sent = self._clock(), self._sent.setdefault(key.name, RateWindow(key.rpm))
        sent.limit = max(1, key.rpm // gateways)
        if wait_s := sent.wait_s(1, now):
            share = f", {sent.limit} of them to each of {gateways} gateways" if gateways > 1 else ""
            words = f"This key may send {key.rpm} request{'s' * (key.rpm > 1)} per minute{share}."
            raise ApiError(words, status=429, code="rate_limit_exceeded", retry_after=wait_s, should_retry=True)
        sent.take(1, now)


def refuse_foreign_site(
    method: str, headers: Mapping[str, str], hosts: Collection[str], origins: Collection[str] = ()
) -> None:
    """Refuse what a page of another site can make a browser send to a gateway without keys, with an :class:`ApiError`.

    A name that is neither this machine's nor one of ``hosts`` may be another site's that points here for now (DNS
    rebinding); an address cannot be. A page sends its ``Origin``, and no JSON without being asked for it first;
    pages of ``origins`` are welcome.

    >>> refuse_foreign_site("GET", {"host": "evil.example"}, ())
    Traceback (most recent call last):
    pets.openai.errors.ApiError: The host 'evil.example' is not this gateway's. Start it with --allow-host, or add keys.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    name, is_address, is_own = _host(f"//{host}", hosts)
    if host and not (is_address or is_own):
        words = f"The host {name[:100]!r} is not this gateway's. Start it with --allow-host, or add keys."
        raise ApiError(words, status=403, code="foreign_host")
    is_own = origin is None or origin in origins or origin.partition("://")[2] == host
    if origin is not None and not (is_own or _host(origin, hosts)[2]):
        words = f"The page's origin {origin[:100]!r} is not this gateway's. Start it with --cors-origin, or add keys."
        raise ApiError(words, status=403, code="foreign_origin")
    if method == "POST" and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ApiError("The content-type of a request is application/json.", status=415)


def _host(url: str, hosts: Collection[str]) -> tuple[str, bool, bool]:
    """The name of a URL's host, whether it is an address, and whether it is this machine or one of ``hosts``."""
    name, address = "", None
    with suppress(ValueError):
        name = (urlsplit(url).hostname or "").rstrip(".")
        address = ipaddress.ip_address(name)
    is_loopback = address is not None and address.is_loopback
    return name, address is not None, name == "localhost" or name in hosts or is_loopback


def _key(name: str, budget: int | None, admin: int, *limits: Any) -> ApiKey:
    unit, rpm, expires, models, window = limits
    return ApiKey(name, budget, bool(admin), unit, rpm, expires, tuple(json.loads(models or "[]")), window)


def _row(fields: Mapping[str, Any]) -> dict[str, Any]:
    budget, rpm, models, window = (fields.get(name) for name in ("budget", "rpm", "models", "window"))
    if budget is not None and budget < 0:
        raise InputError(f"a key's budget is 0 or more; got {budget}.")
    if rpm is not None and not 1 <= rpm <= MAX_RPM:
        raise InputError(f"a key sends 1 to {MAX_RPM:,} requests per minute; got {rpm}.")
    if window is not None and window not in BUDGET_WINDOWS:
        raise InputError(f"a budget is for a {', a '.join(BUDGET_WINDOWS)} or the key's life; got {window!r}.")
    row = {"budget_window" if name == "window" else name: value for name, value in fields.items()}
    return row | ({"models": json.dumps(models) if models else None} if "models" in row else {})


def _update(transaction: Database, name: str, row: Mapping[str, Any]) -> None:
    columns = ", ".join(f"{column} = ?" for column in row)
    update = f"UPDATE api_keys SET {columns} WHERE name = ? AND revoked IS NULL"
    if not transaction.execute(update, (*row.values(), name)).rowcount:
        raise InputError(f"there is no key {name!r} in use.")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def window_number(window: BudgetWindow, day: int) -> int:
    """The number of the window that a day is in.

    >>> day = date(2026, 11, 18).toordinal() - EPOCH
    >>> [window_number(window, day) for window in BUDGET_WINDOWS]
    [20775, 2968, 24322]
    """
    if window == "month":
        then = date.fromordinal(EPOCH + day)
        return then.year * 12 + then.month - 1
    return day if window == "day" else (day + 3) // 7


def window_start(window: BudgetWindow, day: int, later: int = 0) -> int:
    """When the window begins that a day is in, or one so many ``later``, in seconds since 1970.

    >>> [window_start("month", day) // DAY_S for day in (0, 30, 31)], window_start("week", 4) // DAY_S
    ([0, 0, 31], 4)
    """
    number = window_number(window, day) + later
    if window == "month":
        return (date(number // 12, number % 12 + 1, 1).toordinal() - EPOCH) * DAY_S
    return DAY_S * (number if window == "day" else 7 * number - 3)
