"""A store's database behind one small interface: queries, and one transaction at a time.

A file is SQLite's (:mod:`pets.store.sqlite`), a ``postgresql://`` URL is a server's (:mod:`pets.store.postgres`).
Statements are written once (statements.sql), in what both know: ``?1`` stands for the first value, ``INTEGER`` is 64
bits wide and ``REAL`` a double.

A file is locked by the system's lock on an empty file beside it, which ends with its holder, however that one dies; it
also holds between two openings in one process. The lock's file goes when the lock is released; after a kill it stays,
and locks nothing.
"""

import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Self
from urllib.parse import unquote

from pets.errors import StateError

Durability = Literal["process", "machine"]
Release = Callable[[], None]
"""Lets others have a lock; twice does no harm."""
DEFAULT_STORE = "runs.db"
"""The file of runs where none is named."""
POSTGRES_SCHEMES = ("postgresql", "postgres")
# With one slash or no colon; it may hold a password all the same.
MISTYPED_URL = re.compile(r"postgres(?:ql)?(?::|\W.*@)", re.I)
HOST = r"(?:\[[^][@/?]*\]|[^][:@/?,]*)(?::[0-9]*)?"
POSTGRES_URL = re.compile(
    rf"(?P<scheme>\w+)://(?:(?P<user>[^:@/?]*)(?::[^@/?]*)?@)?(?P<hosts>{HOST}(?:,{HOST})*)(?P<path>(?:/[^@?]*)?)"
    r"(?:\?(?P<parameters>[^@]*))?"
)
"""The parts of a server's URL as they are written; it matches none whose password has no clear end."""
SECRET_PARAMETERS = ("password", "sslpassword", "oauth_client_secret")
LOCK_RETRY_S = 0.02


def read_statements(file: str) -> SimpleNamespace:
    """The statements of a file of this package, each under the name that stands in a comment before it."""
    statements: dict[str, str] = {}
    text = files(__package__).joinpath(file).read_text("utf-8")
    _, *parts = re.split(r"^-- ([A-Z_]+)$", text, flags=re.MULTILINE)
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        statement = " ".join(re.sub("^--.*$", "", part, flags=re.MULTILINE).split())
        statements[name] = statement.format_map(statements)
    return SimpleNamespace(**statements)


SQL = read_statements("statements.sql")


class RowError(StateError):
    """A row that the tables refuse: one that is there already or, if ``orphan``, one that points at nothing."""

    def __init__(self, message: str, *, orphan: bool) -> None:
        super().__init__(message)
        self.orphan = orphan


class Database(ABC):
    """One open store. Calls may come from any thread, one at a time; what fails raises ``StateError``.

    Both drivers are Python's DB-API: they differ in what they raise, how statements are spelled and who locks a run.
    """

    location: str
    """The path or URL by which it can be opened again, without any password."""
    connection: Any
    driver_error: ClassVar[type[Exception]]
    """What the driver raises; and, of that, where a row is refused."""
    integrity_error: ClassVar[type[Exception]]
    orphan_code: ClassVar[str | None]
    """What the driver calls a row that points at nothing."""
    dialect: Callable[[str], str] = str
    """Spells a statement as the driver takes it."""
    begin: ClassVar[str] = "BEGIN"
    remedy: ClassVar[str] = ""
    """What to do when writing fails, as the end of a sentence."""

    @property
    def name(self) -> str:
        """The store as messages call it, without any password."""
        return f'store "{self.location}"'

    def one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query; ``None`` where there is none."""
        return next(iter(self.all(sql, *values)), None)

    def all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Every row of a query."""
        try:
            rows: list[tuple[Any, ...]] = self.execute(sql, values).fetchall()
        except self.driver_error as error:  # a damaged page may be met at any row
            raise self.failure(error) from None
        return rows

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction: all of it or nothing is written, durable when it ends; a row that is refused raises
        :class:`RowError`."""
        try:
            self.connection.execute(self.begin)
            yield self
            self.connection.execute("COMMIT")
        except BaseException as error:
            with suppress(self.driver_error):  # which has rolled back by itself after some errors
                self.connection.execute("ROLLBACK")
            if isinstance(error, self.driver_error):
                raise self.failure(error) from None
            raise

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Run one statement of a transaction, which catches what the driver raises: its cursor."""
        return self.connection.execute(self.dialect(sql), values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement of a transaction for each row and say how many rows that changed."""
        cursor = self.connection.cursor()
        cursor.executemany(self.dialect(sql), rows)
        return max(0, int(cursor.rowcount))  # -1 where there was no row

    def failure(self, error: Exception) -> StateError:
        """What the driver raised, for the user."""
        reason = self.reason(error)
        if isinstance(error, self.integrity_error):
            code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
            return RowError(reason, orphan=code == self.orphan_code)
        return StateError(f"{self.name} failed ({reason}). What was written before is safe{self.remedy}.")

    def reason(self, error: Exception) -> str:
        """What the driver says, on one line, without any password."""
        return " ".join(str(error).split())

    def creating(self) -> AbstractContextManager[Self]:
        """A transaction to look for a run and make it where it is not there: one at a time, over all processes."""
        return self.transaction()

    def erasing(self) -> AbstractContextManager[Self]:
        """A transaction that deletes for good, as far as the database lets it."""
        return self.transaction()

    def lock_run(self, run: int, timeout_s: float = 0.0) -> Release | None:
        """Take the right to write to a run, which ends with its holder; what releases it, ``None`` where another
        process still has it after ``timeout_s`` seconds."""
        end = time.monotonic() + timeout_s
        while (release := self.try_lock(run)) is None and time.monotonic() < end:
            time.sleep(LOCK_RETRY_S)
        return release

    @abstractmethod
    def try_lock(self, run: int) -> Release | None:
        """As :meth:`lock_run`, without waiting."""

    @abstractmethod
    def is_locked(self, run: int) -> bool:
        """Whether a process, this one included, holds the run now."""

    def size_cache_for(self, questions: int) -> None:  # noqa: B027 (a server's memory is the server's business)
        """Keep the index of that many ids in memory, where that is this process's business."""

    def close(self) -> None:
        """Close the connection; twice does no harm."""
        self.connection.close()


def is_shared(location: str | os.PathLike[str]) -> bool:
    """Whether it is meant as a server's database, which many machines share, and no file.

    >>> is_shared("postgresql://db.example/pets"), is_shared("postgresql:/db.example/pets"), is_shared("runs.db")
    (True, True, False)
    """
    text = os.fspath(location)
    scheme, separator, _ = text.partition("://")
    return scheme.lower() in POSTGRES_SCHEMES if separator else MISTYPED_URL.match(text) is not None


def shown_location(location: str | os.PathLike[str]) -> str:
    """A path or URL as it may be shown: without its password.

    >>> shown_location("postgresql://pets:secret@db.example/pets?sslmode=require&password=too")
    'postgresql://pets@db.example/pets?sslmode=require'
    >>> shown_location("runs.db"), shown_location("postgresql://pets:a/b@db.example/pets")
    ('runs.db', 'postgresql://...')
    """
    text = os.fspath(location)
    scheme, separator, _ = text.partition("://")
    if not separator:
        return "postgresql..." if is_shared(text) else text
    if scheme.lower() == "sqlite":
        return text
    parts = POSTGRES_URL.fullmatch(text) if is_shared(text) else None
    if parts is None:
        return f"{scheme}://..."
    user = "" if parts["user"] is None else f"{parts['user']}@"
    pairs = [pair.partition("=") for pair in (parts["parameters"] or "").split("&")]
    plain = "&".join("".join(pair) for pair in pairs if pair[1] and unquote(pair[0]).lower() not in SECRET_PARAMETERS)
    return f"{scheme.lower()}://{user}{parts['hosts']}{parts['path']}" + (f"?{plain}" if plain else "")


def take_lock(path: Path | None) -> Release | None:
    """Take the lock that is the file at ``path``: what releases it, or ``None`` where another holder has it.

    Without a path there is nothing to lock, as of a database in memory.
    """
    held = ExitStack()
    try:
        if path is not None:
            held.callback(_unlock, path, _locked(path))
    except BlockingIOError:
        return None
    except OSError as error:
        raise StateError(f'the lock "{path}" cannot be taken ({error}). Check who owns it.') from None
    return held.close


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Lock a file that is written for a while; refused where another process has it.

    What is no plain file is not locked, nor is one without a folder, which nobody can write.
    """
    lock = None
    if path.parent.is_dir() and (path.is_file() or not path.exists()):
        real = path.resolve()  # the one name of the file, whatever links lead to it
        lock = real.with_name(f"{real.name}.lock")
    release = take_lock(lock)
    if release is None:
        raise StateError(f'"{path}" is being written by another process. Wait for it or stop it, or name another file.')
    try:
        yield
    finally:
        release()


def _unlock(path: Path, file: int) -> None:
    with suppress(PermissionError):  # Windows removes no open file; it stays, and locks nothing
        path.unlink(missing_ok=True)  # while it is still ours
    os.close(file)


def _locked(path: Path) -> int:
    """The file, open and locked; ``BlockingIOError`` if another holder has it."""
    while True:
        with ExitStack() as undo:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            undo.callback(os.close, file)
            _lock(file)
            if os.fstat(file).st_nlink:  # else its last holder removed it before we had it
                undo.pop_all()
                return file


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
