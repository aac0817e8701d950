"""The lock of a run: one process at a time holds it, and it ends with its holder, however that one dies.

The lock is SQLite's own, on an empty file beside the store: it is the same on every system, and it also holds between
two openings in one process. The file goes when the lock is released; after a kill it stays, and locks nothing.
"""

import sqlite3
from contextlib import suppress
from pathlib import Path

from pets.errors import StateError

__all__ = ["RunLock", "is_locked"]

LOCKED_ERRORS = ("SQLITE_BUSY", "SQLITE_LOCKED")


class RunLock:
    """The right to write to run ``run`` of the store at ``store`` (``None``: in memory, nobody else can come)."""

    def __init__(self, store: Path | None, run: int) -> None:
        self._path = None if store is None else _lock_path(store, run)
        self._connection: sqlite3.Connection | None = None

    def take(self, timeout_s: float = 0.0) -> bool:
        """Take the lock; False if somebody else still has it after ``timeout_s`` seconds."""
        if self._path is None:
            return True
        while True:
            self._path.touch(mode=0o600)
            inode = _inode(self._path)
            connection = sqlite3.connect(self._path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                connection.close()
                if error.sqlite_errorname.startswith(LOCKED_ERRORS):
                    return False
                raise StateError(f'the lock "{self._path}" cannot be taken ({error}). Check who owns it.') from None
            if inode is not None and _inode(self._path) == inode:
                self._connection = connection
                return True
            connection.close()  # its last holder removed it just then: what was locked is no longer there

    def release(self) -> None:
        """Release the lock; twice does no harm."""
        if self._connection is None or self._path is None:
            return
        with suppress(PermissionError):  # Windows removes no open file; it stays, and locks nothing
            self._path.unlink(missing_ok=True)  # while it is still ours
        self._connection.close()
        self._connection = None


def is_locked(store: Path | None, run: int) -> bool:
    """Whether somebody, this process included, holds the run now."""
    if store is None or not _lock_path(store, run).exists():
        return False
    lock = RunLock(store, run)
    if not lock.take():
        return True
    lock.release()
    return False


def _lock_path(store: Path, run: int) -> Path:
    return store.with_name(f"{store.name}-run-{run}.lock")


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
