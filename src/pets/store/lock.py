"""Locks of runs and files: one process at a time holds one, and it ends with its holder, however that one dies.

It is the system's lock on an empty file beside what is locked, and it also holds between two openings in one process.
The file goes when the lock is released; after a kill it stays, and locks nothing.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pets.errors import StateError

RETRY_S = 0.02


class FileLock:
    """The lock that is the file at ``path`` (``None``: of a database in memory, which no other process sees)."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: int | None = None

    def take(self, timeout_s: float = 0.0) -> bool:
        """Take the lock; False if another holder still has it after ``timeout_s`` seconds."""
        if self._path is None:
            return True
        end = time.monotonic() + timeout_s
        while True:
            try:
                self._file = _locked(self._path)
            except OSError as error:
                raise StateError(f'the lock "{self._path}" cannot be taken ({error}). Check who owns it.') from None
            if self._file is not None or time.monotonic() >= end:
                return self._file is not None
            time.sleep(RETRY_S)

    def release(self) -> None:
        """Release the lock; twice does no harm."""
        if self._file is None or self._path is None:
            return
        with suppress(PermissionError):  # Windows removes no open file; it stays, and locks nothing
            self._path.unlink(missing_ok=True)  # while it is still ours
        os.close(self._file)
        self._file = None

    def is_held(self) -> bool:
        """Whether a process, this one included, holds the lock now."""
        if self._path is None or not self._path.exists():
            return False
        taken = self.take()
        self.release()
        return not taken


def run_lock(store: Path | None, run: int) -> FileLock:
    """The right to write to run ``run`` of the store at ``store`` (``None``: in memory)."""
    return FileLock(None if store is None else store.with_name(f"{store.name}-run-{run}.lock"))


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Have a file that grows to this process alone; refused where another has it.

    What is no plain file is shared, and what has no folder cannot be written by anybody.
    """
    lock = FileLock(None)
    if path.parent.is_dir() and (path.is_file() or not path.exists()):
        real = path.resolve()  # the one name of the file, whatever links lead to it
        lock = FileLock(real.with_name(f"{real.name}.lock"))
    if not lock.take():
        raise StateError(f'"{path}" is being written by another process. Wait for it or stop it, or name another file.')
    try:
        yield
    finally:
        lock.release()


def _locked(path: Path) -> int | None:
    """The file, open and locked; None if another holder has it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(file)
        except OSError as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                return None
            raise
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # its last holder removed it before we had it: what we locked is no longer there


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
