"""A store in one file: SQLite, which needs no server and is the default."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from pets.errors import StateError
from pets.store import migrations
from pets.store.database import Database, Durability, Release, take_lock

SYNCHRONOUS = {"process": "NORMAL", "machine": "FULL"}

APPLICATION_ID = 0x50455453  # "PETS": SQLite's mark of our files
LOCK_TIMEOUT_S = 60.0  # that a write waits for another run's; a million questions take a few seconds
SWITCH_PAUSE_S = 0.01
PRIMARY_CODE = 0xFF  # of SQLite's error codes; the bits above say more of the cause
MAX_CACHE_KIB = 64_000  # ids of a million questions arrive in any order, and their index should stay in memory
MIN_CACHE_KIB = 4_000
IDS_PER_KIB = 16  # of the index
MEMORY = ":memory:"
PRIVATE = 0o600  # of a new store, and so of the files that SQLite puts beside it


class SQLiteDatabase(Database):
    """One SQLite file (or ``:memory:``), which its owner alone can read where it is made here.

    ``path`` is the one name by which every process knows the file, whatever links lead to it; None in memory.
    """

    connection: sqlite3.Connection
    driver_error, integrity_error = sqlite3.Error, sqlite3.IntegrityError
    orphan_code = "SQLITE_CONSTRAINT_FOREIGNKEY"
    begin = "BEGIN IMMEDIATE"
    remedy = "; free the file or the disk"

    def __init__(self, location: str | os.PathLike[str], *, create: bool, durability: Durability) -> None:
        path, durability = _parse_location(os.fspath(location), durability)
        self.location = str(path or MEMORY)
        if path is not None and not create and not path.exists():
            raise StateError(f"{self.name}: there is no such file. Check the path, or start a run with it.")
        self.path = None if path is None else self._create_file(path)
        with ExitStack() as undo:
            try:
                # Calls may come from a worker thread, one at a time.
                options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
                self.connection = sqlite3.connect(self.path or MEMORY, timeout=LOCK_TIMEOUT_S, **options)
                undo.callback(self.connection.close)
                self._prepare(durability)
            except sqlite3.Error as error:
                raise StateError(f"{self.name} cannot be opened ({error}). Check the file, or name another.") from None
            undo.pop_all()

    @contextmanager
    def erasing(self) -> Iterator[Self]:
        """A transaction that overwrites what it deletes, in the log too, once no other process reads the store."""
        self.one("PRAGMA secure_delete = ON")
        with self.transaction():
            yield self
        self.one("PRAGMA wal_checkpoint(TRUNCATE)")

    def try_lock(self, run: int) -> Release | None:
        return take_lock(self._lock_of(run))

    def is_locked(self, run: int) -> bool:
        lock = self._lock_of(run)
        release = take_lock(lock if lock is not None and lock.exists() else None)
        if release is not None:
            release()
        return release is None

    def _lock_of(self, run: int) -> Path | None:
        return None if self.path is None else self.path.with_name(f"{self.path.name}-run-{run}.lock")

    def size_cache_for(self, questions: int) -> None:
        """Keep the index of that many ids in memory, and little else: traces are written once and not read again."""
        self.one(f"PRAGMA cache_size = -{min(MAX_CACHE_KIB, max(MIN_CACHE_KIB, questions // IDS_PER_KIB))}")

    def _create_file(self, path: Path) -> Path:
        """The one name of the file, which is made where it is not there: SQLite would make it readable for all."""
        try:
            path = path.resolve()
            with suppress(FileExistsError):
                path.touch(PRIVATE, exist_ok=False)
            return self._canonical_name(path)
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            reason = getattr(error, "strerror", None) or error
            raise StateError(f"{self.name} cannot be opened ({reason}). Check the path.") from None

    def _canonical_name(self, path: Path) -> Path:
        """Of the names of a file with hard links, the one in use or the first: SQLite keeps a log for each name."""
        status = path.stat()
        if status.st_nlink <= 1 or path.is_dir():
            return path
        names = []
        for file in path.parent.iterdir():
            with suppress(OSError):  # it may go meanwhile
                if os.path.samestat(file.lstat(), status):  # a symbolic link is none of them
                    names.append(file)
        if len(names) < status.st_nlink:
            raise StateError(
                f"{self.name} also has a name (a hard link) in another folder, under which its log would be missed. "
                "Remove that one; a symbolic link does no harm."
            )
        return min(names, key=lambda file: (not file.with_name(f"{file.name}-wal").exists(), file))

    def _prepare(self, durability: Durability) -> None:
        """Bring the file to this version; refuse a newer pets', or something else's, before anything is changed."""
        tables = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and self._pragma("application_id") != APPLICATION_ID:
            raise StateError(f"{self.name} is a database of something else, not of pets. Name another file.")
        migrations.refuse_newer(self, self._pragma("user_version"), " file")
        self._switch_to_wal()
        self.connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute(f"PRAGMA cache_size = -{MAX_CACHE_KIB}")
        if self._pragma("user_version") < len(migrations.MIGRATIONS):
            with self.transaction():
                migrations.migrate(self, self._pragma("user_version"))  # another process may have been first
                self.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self.execute(f"PRAGMA user_version = {len(migrations.MIGRATIONS)}")

    def _switch_to_wal(self) -> None:
        """Keep a log beside the file, as readers and a writer at once need it.

        SQLite does not wait for another process that does the same, as it waits for other writes: one is refused.
        """
        end = time.monotonic() + LOCK_TIMEOUT_S
        while self.path is not None and self._pragma("journal_mode") != "wal":
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & PRIMARY_CODE != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(SWITCH_PAUSE_S)

    def _pragma(self, name: str) -> Any:
        return self.connection.execute(f"PRAGMA {name}").fetchone()[0]


def _parse_location(text: str, durability: Durability) -> tuple[Path | None, Durability]:
    """``runs.db``, ``sqlite:///runs.db?durability=machine``, ``sqlite:////srv/runs.db``; no path for ``:memory:``."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() != "sqlite":
        raise StateError(
            f'"{scheme}://..." is no store that pets knows; name a file, sqlite:///FILE or postgresql://SERVER/DATABASE.'
        )
    if separator:
        rest, _, query = rest.partition("?")
        text = unquote(rest.removeprefix("/")) or MEMORY
        modes: dict[str, Durability] = {"durability=machine": "machine", "durability=process": "process"}
        modes[""] = durability
        if query not in modes:
            raise StateError(f'"?{query}" is nothing that a store can be asked for; there is ?durability=machine.')
        durability = modes[query]
    if not text:
        raise StateError("the store has an empty name; name a file, such as runs.db.")
    return (None if text == MEMORY else Path(text)), durability
