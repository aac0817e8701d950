"""A PostgreSQL for a benchmark: the URL that PETS_TEST_POSTGRES names, else the one that the wheel pgserver brings."""

import contextlib
import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator

from pets.store.postgres import connect

__all__ = ["postgres_schema"]


@contextlib.contextmanager
def postgres_schema() -> Iterator[str]:
    """The URL of an empty schema, which goes with the block."""
    with _server() as server:
        schema = f"bench_{uuid.uuid4().hex[:12]}"
        url = f"{server}{'&' if '?' in server else '?'}schema={schema}"
        try:
            yield url
        finally:
            with contextlib.closing(connect(url)) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@contextlib.contextmanager
def _server() -> Iterator[str]:
    if url := os.environ.get("PETS_TEST_POSTGRES"):
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgserver import get_server  # type: ignore[attr-defined]

        # Not a temporary directory of this user alone: where this runs as root, the server's user has to enter it.
        folder = f"{tempfile.gettempdir()}/pets-bench-pg-{os.getpid()}"
        with get_server(folder, cleanup_mode="delete") as server:
            yield server.get_uri()
