"""``pets keys``: who may ask a gateway."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pets.cli._groups import option, option_group, verb_group
from pets.cli._output import FORMAT, Format, print_rows
from pets.cli._terminal import echo, say
from pets.core.money import Currency, amount_words
from pets.engine.budget import Amount, total_of
from pets.errors import BudgetError, InputError, StateError
from pets.gateway.auth import BUDGET_WINDOWS, DAY_S, MAX_RPM, ApiKey, KeyStore, unit_shown, window_start
from pets.store.database import is_shared, shown_location
from pets.store.store import open_database

NONE = "none"  # what takes a limit away
NO_BUDGET = dict.fromkeys(("budget", "unit", "window"))
EXAMPLES = {"traces": "500 for traces", "tokens": "2Mtok for tokens", "picodollars": "5usd for dollars"}
BUDGET: Any = option(
    "All that this key may ever spend, in the unit of the gateway's budget: 500 (traces), 2Mtok or 5usd; or in "
    "each calendar day, week or month: 20usd/month.",
    metavar="AMOUNT[/WINDOW]",
)


@option_group("Limits")
class KeyLimits:
    """The limits of a key; "none" takes a limit away."""

    budget: str | None = BUDGET
    rpm: str | None = option("How many requests per minute this key may send.", metavar="NUMBER")
    expires: str | None = option(
        "When the key ends, in UTC unless it says otherwise: 2027-01-01, or 2027-01-01T18:00+02:00.", metavar="TIME"
    )
    models: str | None = option(
        "Which models the key may ask for, with commas between them; * is any text: 'pets/*,gpt-4o'.", metavar="NAMES"
    )

    def fields(self, key_store: KeyStore) -> dict[str, Any]:
        """The fields of the key's row that the options set."""
        fields: dict[str, Any] = {}
        if self.budget is not None:
            fields |= NO_BUDGET if self.budget == NONE else _budget(self.budget, key_store)
        if self.rpm is not None:
            limited = self.rpm != NONE
            if limited and not (self.rpm.isascii() and self.rpm.isdigit() and 1 <= int(self.rpm[:10]) <= MAX_RPM):
                raise InputError(f"--rpm is a whole number from 1 to {MAX_RPM:,}, or none; got {self.rpm!r}.")
            fields["rpm"] = int(self.rpm) if limited else None
        if self.expires is not None:
            fields["expires"] = None if self.expires == NONE else _end(self.expires, key_store.clock())
        if self.models is not None:
            names = [] if self.models == NONE else [name.strip() for name in self.models.split(",")]
            if not all(names):
                raise InputError(f"--models are names with commas between them, or none for all; got {self.models!r}.")
            fields["models"] = names
        return fields


@verb_group(common=("--store",))
@click.pass_context
def keys(
    context: click.Context,
    store: str | None = option("The gateway's file or URL, as given to pets serve.", metavar="FILE"),
) -> None:
    """Keys of a gateway, running or not: as soon as its store has one, requests need a key."""
    context.obj = store


@keys.verb()
@click.argument("name")
def add(
    name: str,
    budget: str | None = BUDGET,
    admin: bool = option("Let the key see everybody's questions on the dashboard.", False),
) -> None:
    """Make a key for NAME and show it, this once: the store keeps its hash alone."""
    store = click.get_current_context().obj
    is_new = store is not None and not _exists(store)
    with _keys(create=True) as key_store:
        secret = key_store.add(name, admin=admin, **KeyLimits(budget).fields(key_store))
    if is_new:
        name = shown_location(store)
        say(f'"{name}" is a new store. The key opens the gateway that is started with --store {name}.')
    echo(secret)


@keys.verb("set")
@click.argument("name")
def set_limits(name: str, limits: KeyLimits) -> None:
    """Change what NAME's key is held to, from the next request on.

    \b
    pets keys set alice --budget 20usd/month --rpm 60 --store gateway.db
    pets keys set alice --rpm none --store gateway.db                 no such limit any more
    """
    with _keys() as key_store:
        if not (fields := limits.fields(key_store)):
            raise InputError("nothing to change: name --budget, --rpm, --expires or --models.")
        key_store.change(name, fields)
        (row,) = (_row(key_store, *row) for row in key_store.all() if row[0].name == name)
    say(_line(row))


@keys.verb("list")
def list_keys(form: Format | None = FORMAT) -> None:
    """List the names of the keys, what each has spent, and of which budget."""
    with _keys() as key_store:
        rows = [_row(key_store, *row) for row in key_store.all()]
    print_rows(rows, form, lambda: echo(*map(_line, rows)) if rows else None)


def _row(key_store: KeyStore, key: ApiKey, created: float, revoked: float | None) -> dict[str, Any]:
    """A key as a row: amounts in dollars, tokens or traces, what it has spent by unit."""

    def shown(amounts: Mapping[str, int]) -> dict[str, float]:
        return {name: amount for amount, name in (Currency(unit).shown(amount) for unit, amount in amounts.items())}

    spent = key_store.spent(key.name)
    start = None if key.window is None else window_start(key.window, int(key_store.clock() // DAY_S))
    budget, unit = (None, None) if key.budget is None else Currency(str(key.unit)).shown(key.budget)
    return {
        "name": key.name,
        "created": _time(created),
        "budget": budget,
        "unit": unit,
        "window": key.window,
        "spent": shown(spent),
        "spent_in_window": None if start is None else shown(key_store.spent(key.name, start)),
        "rpm": key.rpm,
        "expires": None if key.expires is None else _time(key.expires),
        "models": list(key.models),
        "admin": key.admin,
        "revoked": None if revoked is None else _time(revoked),
    }


def _line(row: Mapping[str, Any]) -> str:
    notes, window = [_spent(row["spent"])], row["window"]
    if row["budget"] is not None:
        notes.append(f"budget {amount_words(row['budget'], row['unit'])}{f' per {window}' if window else ''}")
    if window is not None:
        notes.append(f"{_spent(row['spent_in_window'])} in this {window}")
    if row["rpm"] is not None:
        notes.append(f"{row['rpm']} requests per minute")
    if row["expires"] is not None:
        notes.append(f"expires {row['expires']}")
    if row["models"]:
        notes.append(f"models {' '.join(row['models'])}")
    if row["admin"]:
        notes.append("admin")
    if row["revoked"] is not None:
        notes.append("revoked")
    return "\t".join([row["name"], row["created"][:10], ", ".join(notes)])


def _spent(amounts: Mapping[str, float]) -> str:
    words = " and ".join(amount_words(amount, unit) for unit, amount in amounts.items())
    return f"spent {words}" if words else "nothing spent"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@keys.verb()
@click.argument("name")
def revoke(name: str) -> None:
    """Let NAME's key open nothing any more, from the next request on; what is under way is answered."""
    with _keys() as key_store:
        key_store.revoke(name)
    say(f"The key of {name} is revoked.")


def _budget(text: str, key_store: KeyStore) -> dict[str, Any]:
    """Parse a key's budget: the amount in the ledger's smallest unit, that unit, and the window."""
    number, slash, window = text.partition("/")
    amount = Amount.parse(number)
    if slash and window not in BUDGET_WINDOWS:
        raise BudgetError(f"{window!r} is no window of a key's budget; write day, week or month, as in 20usd/month.")
    if amount.unit == "mean":
        raise BudgetError(f"{text!r} is a mean; a key's budget is a total: 500 (traces), 2Mtok or 5usd.")
    unit, counts = amount.ledger_unit, key_store.last_unit()
    if counts not in (None, unit):
        words = f"--budget {text} is in {unit_shown(unit)}, this gateway counts {unit_shown(counts)}."
        raise BudgetError(f"{words} Write {EXAMPLES[str(counts)]}.")
    return {"budget": total_of(amount, 0), "unit": unit, "window": window or None}


def _end(text: str, now: float) -> float:
    """Parse when a key expires, in seconds since 1970."""
    try:
        time = datetime.fromisoformat(text)
        end = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise InputError(f"--expires is a day or a time, as 2027-01-01, or none; got {text!r}.") from None
    if end <= now:
        raise InputError(f"--expires {text} is over. Name a time to come; `pets keys revoke` ends a key now.")
    return end


@contextmanager
def _keys(*, create: bool = False) -> Iterator[KeyStore]:
    """Open the keys in the gateway's store; refuse a store that is not named or not there."""
    context = click.get_current_context()
    if (store := context.obj) is None:
        raise click.UsageError("Missing option '--store': the gateway's file or URL, as given to pets serve.", context)
    if not create and not _exists(store):
        raise StateError(f'store "{store}": there is no such file. Check the path; `pets keys add` begins a new one.')
    with closing(open_database(store, create=create, durability="machine")) as database:
        yield KeyStore(database)


def _exists(store: str) -> bool:
    """Whether a store is there; a URL is tried when it is opened."""
    return "://" in store or is_shared(store) or Path(store).exists()
