"""The requests of a run that several processes share, in a PostgreSQL: added by one, claimed and served by all."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pets.errors import StateError
from pets.store.postgres import PostgresDatabase, PostgresError

__all__ = ["TaskQueue", "WorkerBeat"]

CLAIM = (
    "WITH free AS MATERIALIZED (SELECT id FROM tasks WHERE run = $2 AND worker IS NULL ORDER BY id "
    "LIMIT $3 FOR UPDATE SKIP LOCKED) "  # materialized: a plan that looked again would claim more than the limit
    "UPDATE tasks SET worker = $1 FROM free WHERE tasks.id = free.id RETURNING tasks.id, tasks.request"
)
ADD = (
    "INSERT INTO tasks (id, run, request) "
    "SELECT t.id, $1::bigint, t.request FROM unnest($2::bigint[], $3::text[]) t (id, request)"
)
REPLY = (
    "UPDATE tasks SET reply = t.reply FROM unnest($1::bigint[], $2::text[]) t (id, reply) "
    "WHERE tasks.id = t.id AND tasks.worker = $3"
)

Task = tuple[int, str]
"""A task's number, and its request or its reply."""


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A worker, how many traces it has in flight at most (none while it cannot), and its heartbeat, while it lives."""

    id: int
    name: str
    width: int
    beat: int


class TaskQueue:
    """The tasks of one run, over a connection of its own. Calls may come from any thread, one at a time."""

    def __init__(self, location: str | os.PathLike[str], run: int) -> None:
        self._database = PostgresDatabase(os.fspath(location), create=False)
        self.run = run

    def enter(self, width: int) -> int:
        """Become a worker of the run; its number."""
        name = f"{socket.gethostname()}:{os.getpid()}"
        sql = "INSERT INTO workers (run, name, width, beat) VALUES ($1, $2, $3, 0) RETURNING id"
        row = self._execute(sql, self.run, name, width)
        return int(row[0][0])

    def resize(self, worker: int, width: int) -> None:
        """Say how many traces a worker has in flight at most from now on."""
        self._execute("UPDATE workers SET width = $1 WHERE id = $2", width, worker, rows=False)

    def leave(self, worker: int) -> None:
        """Be no worker any more; what it has claimed is as if it were lost."""
        self._execute("DELETE FROM workers WHERE id = $1", worker)

    def exchange(
        self, worker: int, replies: Sequence[Task], released: Sequence[int], room: int
    ) -> tuple[bool, list[Task]]:
        """Hand in replies, give back claims, and claim up to ``room`` tasks, oldest first.

        First whether the worker is still known: one that was silent for too long is not, and claims nothing.
        """
        if replies:
            self._execute(REPLY, [id for id, _ in replies], [reply for _, reply in replies], worker, rows=False)
        if released:
            sql = "UPDATE tasks SET worker = NULL WHERE id = ANY($1::bigint[]) AND worker = $2"
            self._execute(sql, list(released), worker, rows=False)
        is_registered = bool(self._execute("UPDATE workers SET beat = beat + 1 WHERE id = $1 RETURNING 1", worker))
        claimed = self._execute(CLAIM, worker, self.run, room) if room and is_registered else []
        return is_registered, sorted(claimed)

    def clear(self) -> None:
        """Drop every task: a process that begins to allocate knows nothing of them."""
        self._execute("DELETE FROM tasks WHERE run = $1", self.run, rows=False)

    def add(self, tasks: Sequence[Task]) -> None:
        """Let workers claim these tasks."""
        self._execute(ADD, self.run, [id for id, _ in tasks], [request for _, request in tasks], rows=False)

    def withdraw(self, tasks: Sequence[int]) -> None:
        """Drop tasks that nobody waits for any more."""
        self._execute("DELETE FROM tasks WHERE id = ANY($1::bigint[])", list(tasks), rows=False)

    def withdraw_unserved(self, tasks: Sequence[int]) -> list[int]:
        """Drop those of the tasks that nobody has claimed, where no worker can serve any; which."""
        sql = (
            "DELETE FROM tasks WHERE id = ANY($1::bigint[]) AND worker IS NULL "
            "AND NOT EXISTS (SELECT 1 FROM workers WHERE run = $2 AND width > 0) RETURNING id"
        )
        return [id for (id,) in self._execute(sql, list(tasks), self.run)]

    def collect(self) -> list[Task]:
        """The replies that came, once."""
        return self._execute("DELETE FROM tasks WHERE run = $1 AND reply IS NOT NULL RETURNING id, reply", self.run)

    def workers(self) -> list[WorkerBeat]:
        """The workers of the run."""
        return [
            WorkerBeat(*row)
            for row in self._execute("SELECT id, name, width, beat FROM workers WHERE run = $1", self.run)
        ]

    def expire(self, worker: WorkerBeat) -> None:
        """Take a worker for lost, unless it has beaten since."""
        self._execute("DELETE FROM workers WHERE id = $1 AND beat = $2", worker.id, worker.beat, rows=False)

    def lost(self) -> list[int]:
        """Tasks whose worker is gone and that have no reply, once."""
        sql = (
            "DELETE FROM tasks t WHERE run = $1 AND worker IS NOT NULL AND reply IS NULL "
            "AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = t.worker) RETURNING id"
        )
        return [id for (id,) in self._execute(sql, self.run)]

    def close(self) -> None:
        """Close the connection; twice does no harm."""
        self._database.close()

    def _execute(self, sql: str, *values: object, rows: bool = True) -> list[Any]:
        try:
            cursor = self._database.connection.execute(sql, values)
            return cursor.fetchall() if rows else []
        except PostgresError as error:
            words = " ".join(str(error).split())
            raise StateError(f"{self._database.name} failed ({words}). What was written before is safe.") from None
