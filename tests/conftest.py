"""What every test shares: child processes, ports, the real model, and which tests are slow by nature."""

import contextlib
import gc
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import uuid
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from pets.errors import LocalModelError
from pets.samplers.gguf import default_weights

from .browser import CHROMIUM

collect_ignore = [
    "fixtures/schema_15/make.py",
    "integrations/evaluations.py",
]  # an earlier pets runs one, inspect_ai the other

SLOW_TIMEOUT_S = 600
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2 << 30  # that are free, before the tests' folders go there

GARBAGE = 50_000, 20, 20  # new objects before they are looked through: tests leave little, and ask for what they need

gc.disable()  # until the tests are collected: what is imported and collected stays

# Shared machines are slow at random. What is compared with brute force needs no hundred examples in every run.
settings.register_profile("pets", deadline=None, max_examples=50)
settings.load_profile("pets")

# Every client of httpx reads a few hundred authorities, for servers of the loopback that need none.
ssl.create_default_context = cache(ssl.create_default_context)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what runs in the background, and children inherit it: those that a test interrupts would go on.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # the environments of other tools have no xdist
def pytest_xdist_auto_num_workers(config):
    """Two workers for each core, as the tests wait for half of their time; the slow ones compute: three for two."""
    cores = os.cpu_count() or 1
    return -(-3 * cores // 2) if config.option.markexpr == "slow" else 2 * cores


def pytest_collection_finish():
    """Garbage is collected again, less often; nothing is frozen, for a run does that itself."""
    gc.set_threshold(*GARBAGE)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure():
    """What is garbage in the end tells its errors now; pytest and Python collect thrice more, all that was imported."""
    gc.collect()
    gc.freeze()


def pytest_configure():
    """Keep the tests' folders in memory where there is room: their stores would wait for a disk at every write."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """A test that asks for the real model, a browser or the site is slow, and has time on a busy machine."""
    for item in items:
        if {"weights", "browser", "site"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch):
    """Tables are as wide as in a pipe, whatever terminal the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def openai():
    """OpenAI's SDK: half a second of imports, in the workers alone whose tests use it."""
    return import_module("openai")


@pytest.fixture(scope="session")
def weights():
    """SmolLM2's file, for llama.cpp to run; the test is skipped, and says why, where it cannot."""
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install 'pets-llm[local]'")
    try:
        return default_weights()
    except LocalModelError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def browser():
    """A Chromium; not one for the whole session, because Playwright keeps an event loop running in this thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def screenshots(tmp_path):
    """The folder of the screenshots: PETS_SHOTS, to look at them after the test, else a temporary one."""
    folder = Path(os.environ.get("PETS_SHOTS", tmp_path / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def popen():
    """``popen(command, ...)`` starts a child process that speaks text; what still runs after the test is killed."""
    children = []

    def start(command, **options):
        children.append(subprocess.Popen([*map(str, command)], text=True, **options))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def port():
    """A port of the loopback that no other process is given: bound all the while, without listening to it."""
    with socket.socket() as holder:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture(scope="session")
def postgres_server():
    """The URL of a PostgreSQL: PETS_TEST_POSTGRES, else the one that comes in a wheel; CI must have one."""
    if url := os.environ.get("PETS_TEST_POSTGRES"):
        yield url
        return
    if find_spec("pgserver") is None or find_spec("psycopg") is None:
        reason = "no PostgreSQL: install pgserver and psycopg[binary], or set PETS_TEST_POSTGRES to a URL"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pgserver

        # The workers of one test run share it; the path is short, for it holds a socket, and not below pytest's own
        # folder, which the server's user cannot enter where the tests run as root.
        folder = Path(tempfile.gettempdir()) / f"pets-pg-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
        with _patiently(pgserver.get_server, folder) as server:
            for setting in ("fsync = off", "full_page_writes = off", "max_connections = 300"):
                server.psql(f"ALTER SYSTEM SET {setting}")
            server.psql("SELECT pg_reload_conf()")
            yield server.get_uri()


def _patiently(get_server, folder, tries=5):
    """Start a server; a loaded machine may take longer than the wheel allows, and go on by itself."""
    for attempt in range(1, tries + 1):
        try:
            return get_server(folder, cleanup_mode="delete")
        except subprocess.TimeoutExpired:
            if attempt == tries:
                raise
    raise AssertionError


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of an empty schema of a real PostgreSQL, which goes with the test."""
    import psycopg

    schema = f"test_{uuid.uuid4().hex[:12]}"
    yield f"{postgres_server}{'&' if '?' in postgres_server else '?'}schema={schema}"
    with contextlib.closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
