"""A PostgreSQL for a benchmark: the URL that PETS_TEST_POSTGRES names, else the one that the wheel pgserver brings."""

import contextlib
import os
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pets.store.postgres import connect

STARTS = 5  # of the server: a loaded machine may take longer than the wheel allows


@dataclass(frozen=True, slots=True)
class Postgres:
    """An empty schema by its URL, and the server, where it is ours to stop."""

    url: str
    server: Any = None

    def stop(self) -> None:
        """Stop the server at once, as a power cut of its own would: what is not on its disk is lost."""
        from pgserver._commands import pg_ctl  # type: ignore[attr-defined]

        pg_ctl(["-w", "-m", "immediate", "stop"], pgdata=self.server.pgdata, user=self.server.system_user)

    def cpu_seconds(self) -> float:
        """Processor time of the server and of its sessions that are over; 0 where it is not ours to look at."""
        if self.server is None:
            return 0.0
        fields = Path(f"/proc/{self.server.get_pid()}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def start(self) -> None:
        """Start the server again."""
        self.server.ensure_postgres_running()


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A server with an empty schema, which goes with the block."""
    with _server() as (uri, server):
        schema = f"bench_{uuid.uuid4().hex[:12]}"
        url = f"{uri}{'&' if '?' in uri else '?'}schema={schema}"
        try:
            yield Postgres(url, server)
        finally:
            with contextlib.closing(connect(url)) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@contextlib.contextmanager
def _server() -> Iterator[tuple[str, Any]]:
    if url := os.environ.get("PETS_TEST_POSTGRES"):
        yield url, None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgserver import get_server  # type: ignore[attr-defined]

        # Not a temporary directory of this user alone: where this runs as root, the server's user has to enter it.
        folder = f"{tempfile.gettempdir()}/pets-bench-pg-{os.getpid()}"
        for attempt in range(1, STARTS + 1):
            try:
                server = get_server(folder, cleanup_mode="delete")
            except subprocess.TimeoutExpired:
                if attempt == STARTS:
                    raise
            else:
                break
        with server:
            yield server.get_uri(), server
