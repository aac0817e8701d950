"""One hostile request of each kind while others are served: what does it cost the others?

    python -m benchmarks.hostile_load [RUNS] [CLIENTS] [--keys]

A gateway stands before `tests.hostile_server`, whose good traces take about 0.2 seconds. CLIENTS clients ask it, wait,
and ask again, the answer types in turn; every formula is new, so that it is compared. First alone; then while one
voted and one plain request go to every misbehaviour of the mock (texts that are hard to read, formulas that are hard to
compare, bombs, endless lines, hangs, refusals, ...) and hostile clients send what they can without a key: endless
heads, silent connections, deep JSON, bodies that never come, fields named like patterns, pipelines and large replies
that they do not read. Hostile requests have a deadline of 2 seconds, and 8 are made at a time. With --keys, the others
have one key and the hostile clients another, under which they also make as many slow votes as take all places of the
gateway. Printed are medians over RUNS: the others' p50 and p99, alone and beside, their ratio, the slowest
answer of /healthz, the others' requests that were not answered, the gateway's peak memory.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx

from benchmarks.gateway_load import connected, gateway, started

RUNS, CLIENTS, ALONE_S, DEADLINE_S, HOSTILE_AT_ONCE = 5, 50, 15.0, 2.0, 8
TOKENS_PER_SECOND = 320  # of traces of 64 tokens
HEALTH_PAUSE_S = 0.05
SILENT_CONNECTIONS, HEAD_BYTES, DEPTH = 500, 100 << 20, 100_000
PIPELINES, PIPELINED, UNREAD_REPLIES = 40, 2_000, 10
PLACES, SLOW_VOTES, SLOW_S = 512, 140, 20.0  # a vote begins with four traces
ANSWERS = ("text", "number", "choice", "math")
FORMULAS = 5_000
SPAWN = multiprocessing.get_context("spawn")


def formulas(folder: Path) -> Path:
    """A file of questions for the mock: each is answered by two spellings of one formula, and by another formula."""
    answers = {
        f"m{k}": {rf"\\frac{{{k}}}{{\\sqrt{{7}}}}": 0.5, rf"\\frac{{{k}\\sqrt{{7}}}}{{7}}": 0.3, f"{k}+x^2": 0.2}
        for k in range(1, FORMULAS)
    }
    path = folder / "answers.json"
    path.write_text(json.dumps(answers | {"easy": {"4": 0.7, "5": 0.3}, "letters": {"A": 0.7, "B": 0.3}}))
    return path


@contextlib.contextmanager
def hostile_mock(answers: Path) -> Iterator[str]:
    """The URL of the hostile server of the tests, without its /v1."""
    command = [sys.executable, "-m", "tests.hostile_server"]
    command += ["--answers", str(answers), "--tokens-per-second", str(TOKENS_PER_SECOND)]
    with started(command, "the mock") as (url, _):
        yield url.removesuffix("/v1")


class Others:
    """Clients of an ordinary model, and how long they waited."""

    def __init__(self, url: str, session: aiohttp.ClientSession, headers: dict[str, str]) -> None:
        self._url, self._session, self._headers = url, session, headers
        self._formula = iter(range(1, FORMULAS))
        self.waits: list[float] = []
        self.failures = 0

    async def client(self, number: int) -> None:
        """Ask, wait, ask again."""
        answer = ANSWERS[number % len(ANSWERS)]
        while True:
            question = f"m{next(self._formula)}" if answer == "math" else "letters" if answer == "choice" else "easy"
            begun = time.perf_counter()
            vote = body("pets/mock", question, answer)
            asked = self._session.post(f"{self._url}/chat/completions", json=vote, headers=self._headers)
            try:
                async with asked as reply:
                    await reply.read()
                self.failures += reply.status != httpx.codes.OK
            except aiohttp.ClientError as error:  # a connection that was closed is a request without an answer, too
                print(f"others: {type(error).__name__}: {error}", file=sys.stderr)
                self.failures += 1
            self.waits.append(time.perf_counter() - begun)


class HealthWatch:
    """Looks at /healthz in a process of its own, while the block lasts; ``max_s`` is the longest that it took."""

    def __init__(self, url: str) -> None:
        self.max_s = 0.0
        self._maximum, self._stop = SPAWN.Value("d", 0.0), SPAWN.Event()
        self._process = SPAWN.Process(target=watch_health, args=(url, self._maximum, self._stop))

    def __enter__(self) -> "HealthWatch":
        self._process.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._process.join()
        self.max_s = self._maximum.value


def watch_health(url: str, maximum: Any, stop: Any) -> None:
    """Look at /healthz again and again."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    while not stop.wait(HEALTH_PAUSE_S):
        begun = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        maximum.value = max(maximum.value, time.perf_counter() - begun)


def body(model: str, question: str, answer: str, **options: Any) -> dict[str, Any]:
    """A request for a vote."""
    messages = [{"role": "user", "content": f"Question {question}"}]
    return {"model": model, "messages": messages, "pets": {"answer": answer, **options}}


def attacks(url: str, client: httpx.AsyncClient, names: list[str]) -> Iterator[Coroutine[Any, Any, object]]:
    """One hostile request of each kind."""
    host, port = urlsplit(url).hostname or "", urlsplit(url).port or 0
    path = f"{url}/chat/completions"
    for number, name in enumerate(names):
        # Formulas are hard for one answer type alone, texts for all of them, in turn.
        answer = "math" if "formula" in name else ANSWERS[number % len(ANSWERS)]
        vote = body(f"pets/{name}", "easy", answer, max_traces=4, timeout=DEADLINE_S)
        yield client.post(path, json=vote)
        plain = {"model": name, "messages": vote["messages"]}
        yield asyncio.wait_for(client.post(path, json=plain), DEADLINE_S)
    json_type = {"content-type": "application/json"}
    yield client.post(path, content=b"[" * DEPTH + b"]" * DEPTH, headers=json_type)
    yield client.post(path, content=b'{"messages": ' + b'{"a":' * DEPTH, headers=json_type)
    yield client.post(path, json={"model": "pets/mock", "messages": [{"role": "user", "content": "x" * 1_000_000}]})
    yield client.post(path, json={"model": "pets/mock", "messages": [{"role": "user", "content": "x"}] * 100_000})
    yield client.post(path, json=body("pets/mock", "easy", "math:seconds=3600"))
    yield send_raw(host, port, b"GET / HTTP/1.1\r\nx: ", b"a" * 65_536, HEAD_BYTES)
    yield send_raw(host, port, b"GET /", b"a" * 65_536, HEAD_BYTES)
    yield send_raw(host, port, b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n")
    yield stay_silent(host, port)
    yield client.post(path, json=body("pets/hostile/unsupported_field", "easy", "text") | {"(a+)+$": 1, "(": 1})
    yield leave_unread(host, port, PIPELINES, b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * PIPELINED)
    # Of the large replies, the one that costs the mock little: it is the others' server, too.
    large = {"model": "hostile/huge_body", "messages": [{"role": "user", "content": "x"}]}
    unread = client.build_request("POST", path, json=large)
    head = "".join(f"{name}: {value}\r\n" for name, value in unread.headers.items())
    unread_bytes = f"POST {unread.url.path} HTTP/1.1\r\n{head}\r\n".encode() + unread.content
    yield leave_unread(host, port, UNREAD_REPLIES, unread_bytes)
    if "authorization" in client.headers:
        yield vote_slowly(client, path)


async def vote_slowly(client: httpx.AsyncClient, path: str) -> None:
    """Ask for many votes at once on a model that never answers."""
    vote = body("pets/hostile/hang", "easy", "text", timeout=SLOW_S)
    await asyncio.gather(*(client.post(path, json=vote) for _ in range(SLOW_VOTES)), return_exceptions=True)


async def leave_unread(host: str, port: int, connections: int, request: bytes) -> None:
    """Send on several connections for as long as it is taken, up to the deadline, and read nothing."""

    async def send() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as client, contextlib.suppress(OSError, TimeoutError):
            client.setblocking(False)
            async with asyncio.timeout(DEADLINE_S):
                await loop.sock_connect(client, (host, port))
                while True:
                    await loop.sock_sendall(client, request)
                    await asyncio.sleep(HEALTH_PAUSE_S)

    await asyncio.gather(*(send() for _ in range(connections)))


async def send_raw(host: str, port: int, start: bytes, block: bytes = b"", most: int = 0) -> None:
    """Send bytes as long as they are taken, then wait for the end of the connection or of the deadline."""
    reader, writer = await asyncio.open_connection(host, port)
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(DEADLINE_S):
            writer.write(start)
            for _ in range(most // max(1, len(block))):
                writer.write(block)
                await writer.drain()
            await reader.read()
    writer.close()


async def stay_silent(host: str, port: int) -> None:
    """Open connections and say nothing."""
    connections = (asyncio.open_connection(host, port) for _ in range(SILENT_CONNECTIONS))
    streams = await asyncio.gather(*connections, return_exceptions=True)
    await asyncio.sleep(DEADLINE_S)
    for stream in streams:
        if not isinstance(stream, BaseException):
            stream[1].close()


def attack_all(url: str, names: list[str], headers: dict[str, str]) -> None:
    """Make all hostile requests, some at a time."""

    async def attack_them() -> None:
        room = asyncio.Semaphore(HOSTILE_AT_ONCE)

        async def attack(request: Coroutine[Any, Any, object]) -> None:
            async with room:
                with contextlib.suppress(httpx.HTTPError, TimeoutError):  # whatever it comes to
                    await request

        unlimited = httpx.Limits(max_connections=None)  # the slow votes leave none of a hundred to the others
        async with httpx.AsyncClient(trust_env=False, timeout=120.0, limits=unlimited, headers=headers) as client:
            await asyncio.gather(*(attack(request) for request in attacks(url, client, names)))

    asyncio.run(attack_them())


async def measured(url: str, clients: int, names: list[str], keys: list[dict[str, str]]) -> dict[str, float]:
    """The others' waits in milliseconds while a hostile request of each name is made; without names, for a while.

    ``keys`` are the headers of the others and of the hostile clients.
    """
    with HealthWatch(url) as health:
        async with connected() as session:
            others = Others(url, session, keys[0])
            tasks = [asyncio.create_task(others.client(number)) for number in range(clients)]
            if names:
                attackers = SPAWN.Process(target=attack_all, args=(url, names, keys[1]))
                attackers.start()
                await asyncio.to_thread(attackers.join)
            else:
                await asyncio.sleep(ALONE_S)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
    cuts = quantiles(others.waits, n=100)
    return {
        "p50_ms": 1000 * cuts[49],
        "p99_ms": 1000 * cuts[98],
        "healthz_max_ms": 1000 * health.max_s,
        "requests": len(others.waits),
        "failures": others.failures,
    }


def peak_mb(process: subprocess.Popen[str]) -> float:
    """The gateway's peak resident memory (Linux)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def new_key(store: Path, name: str) -> dict[str, str]:
    """The header of a new key."""
    command = [
        sys.executable,
        "-c",
        "from pets.cli.main import main; main()",
        "keys",
        "add",
        name,
        "--store",
        str(store),
    ]
    secret = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return {"authorization": f"Bearer {secret}"}


def one_run(clients: int, only: str, with_keys: bool) -> dict[str, float]:
    """The figures of one gateway."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        store = Path(folder) / "gateway.db"
        keys = [new_key(store, name) if with_keys else {} for name in ("others", "hostile")]
        options = ["--budget", "8x", *(["--concurrency", str(PLACES)] if with_keys else [])]
        upstream = stack.enter_context(hostile_mock(formulas(Path(folder))))
        url, process = stack.enter_context(gateway(upstream, store, *options))
        models = httpx.get(f"{upstream}/v1/models", trust_env=False).json()["data"]
        names = [model["id"] for model in models if model["id"].startswith(f"hostile/{only}")]
        with contextlib.suppress(httpx.HTTPError):  # which the mock packs once, and nobody else is served meanwhile
            httpx.post(f"{upstream}/v1/chat/completions", json={"model": "hostile/bomb"}, trust_env=False, timeout=60)
        asyncio.run(measured(url, clients, [], keys))  # connections, tables and imports
        alone = asyncio.run(measured(url, clients, [], keys))
        begun = time.perf_counter()
        beside = asyncio.run(measured(url, clients, names, keys))
        return {
            "misbehaviours": len(names),
            "p50_alone_ms": alone["p50_ms"],
            "p50_beside_ms": beside["p50_ms"],
            "p99_alone_ms": alone["p99_ms"],
            "p99_beside_ms": beside["p99_ms"],
            "p99_ratio": beside["p99_ms"] / alone["p99_ms"],
            "healthz_alone_max_ms": alone["healthz_max_ms"],
            "healthz_max_ms": beside["healthz_max_ms"],
            "requests_beside": beside["requests"],
            "failures_beside": beside["failures"],
            "seconds_beside": time.perf_counter() - begun,
            "peak_mb": peak_mb(process),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=RUNS)
    parser.add_argument("clients", type=int, nargs="?", default=CLIENTS)
    parser.add_argument("--only", default="", help="Misbehaviours whose names begin so.")
    parser.add_argument("--keys", action="store_true", help="Give the others one key, the hostile clients another.")
    args = parser.parse_args()
    print(__doc__)
    rows = []
    for run in range(args.runs):
        rows.append(one_run(args.clients, args.only, args.keys))
        print(f"run {run + 1}: " + ", ".join(f"{name} {value:.1f}" for name, value in rows[-1].items()), flush=True)
    medians = {name: round(median(row[name] for row in rows), 2) for name in rows[0]}
    print(json.dumps({"benchmark": "hostile_load", "runs": args.runs, "keys": args.keys, **medians}))


if __name__ == "__main__":
    main()
