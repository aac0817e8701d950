"""Many clients at once before a gateway whose upstream takes about 2 seconds a reply and fails now and then.

    python -m benchmarks.gateway_load [REQUESTS] [CLIENTS] [--policy POLICY]

Every client asks, waits, and asks again; one request in 50 is given up by its client at a random moment. Overhead is
what a client waits beyond the time in which the upstream, by its own clock, had a reply to the question on its way, for
requests without a retry; it has the share of the clients and of the machine in it. How large that is says "bare": the
same clients ask the upstream itself, with no gateway between. Beside it stand the gateway's own measure (its time less
that in which anything was upstream) and its processor time a request, which grows with the requests that a vote takes:
POLICY is the gateway's own if not given, and `price:rounds=3` was its own before races. Then the ledger: every request
answered or given up, the ledger against what the upstream counted, the gateway's memory at a tenth and at the end.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import httpx
import numpy as np

from benchmarks._slow_upstream import slow_upstream

REQUESTS, CLIENTS, SECONDS, FAULTS, LEAVE = 20_000, 200, 2.0, 0.05, 0.02
BARE = 5  # requests of each client to the upstream itself


@contextlib.contextmanager
def gateway(upstream: str, store: Path | str, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL and the process of ``pets serve``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from pets.cli.main import main; main()", "serve", "-q", "--port", str(port)]
    command += ["--store", str(store), "--endpoint", f"{upstream}/v1", "--answer", "choice:options=4", "--no-check"]
    with subprocess.Popen([*command, "--concurrency", "20000", *more], text=True) as process:
        try:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
                    break
                if process.poll() is not None:
                    raise SystemExit("the gateway did not start")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/v1", process
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def started(command: list[str], name: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The address that a process says first, and the process; it ends with the block."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            while "http" not in line:
                if not line:
                    raise SystemExit(f"{name} did not start")
                line = process.stderr.readline()
            yield next(word for word in line.split() if word.startswith("http")), process
        finally:
            process.terminate()
            process.wait()


class Load:
    """What the clients saw."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.latencies: dict[int, float] = {}
        self.own: list[float] = []
        self.traces = self.retried = self.done = 0

    async def client(self, session: aiohttp.ClientSession, url: str, left: Iterator[int], rng: random.Random) -> None:
        await asyncio.sleep(rng.uniform(0.0, 2 * SECONDS))  # all at once would come back all at once
        for number in left:
            patience = rng.uniform(0.1, 6.0) if rng.random() < LEAVE else 600.0
            begun = time.perf_counter()
            try:
                async with (
                    asyncio.timeout(patience),
                    session.post(f"{url}/chat/completions", json=chat_body(number)) as reply,
                ):
                    status, body = reply.status, await reply.read()
            except TimeoutError:
                self.statuses["gave up"] += 1
                continue
            finally:
                self.done += 1
            seconds = time.perf_counter() - begun
            self.statuses[str(status)] += 1
            if status != httpx.codes.OK:
                continue
            about = json.loads(body)["pets"]
            self.traces += about["traces"]
            self.retried += about["retries"] > 0
            if not about["retries"]:
                self.latencies[number] = seconds
                self.own.append(about["seconds"] - about["upstream_seconds"])


def chat_body(number: int) -> dict[str, object]:
    return {"model": "pets/m", "messages": [{"role": "user", "content": f"Question {number}"}]}


def connected() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None))


async def bare(upstream: str, clients: int, first: int) -> dict[int, float]:
    """Seconds of requests that go straight to the upstream, by question number; those that failed are left out."""
    seconds_by_request: dict[int, float] = {}

    async def client(session: aiohttp.ClientSession, numbers: range, rng: random.Random) -> None:
        await asyncio.sleep(rng.uniform(0.0, SECONDS))
        for number in numbers:
            begun = time.perf_counter()
            with contextlib.suppress(aiohttp.ClientError):
                async with session.post(f"{upstream}/v1/chat/completions", json=chat_body(number)) as reply:
                    await reply.read()
                    if reply.status == httpx.codes.OK:
                        seconds_by_request[number] = time.perf_counter() - begun

    async with connected() as session, asyncio.TaskGroup() as group:
        for number in range(clients):
            numbers = range(first + number * BARE, first + (number + 1) * BARE)
            group.create_task(client(session, numbers, random.Random(number)))
    return seconds_by_request


def resident(pid: int) -> float:
    """Megabytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def drive(url: str, pid: int, requests: int, clients: int) -> tuple[Load, dict[str, float]]:
    load, left, memory = Load(), iter(range(requests)), dict[str, float]()
    async with connected() as session, asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(load.client(session, url, left, random.Random(number)))
        while load.done < requests:
            await asyncio.sleep(0.5)
            if load.done >= requests / 10:
                memory.setdefault("after a tenth", resident(pid))
    memory["at the end"] = resident(pid)
    memory["cpu_seconds"] = cpu_seconds(pid)
    return load, memory


def percentiles(seconds: list[float]) -> dict[str, float]:
    return {f"p{q}_ms": round(1000 * float(np.percentile(seconds, q)), 1) for q in (50, 99)}


def ledger_totals(store: Path) -> dict[str, int]:
    """Sums of the ledger."""
    with contextlib.closing(sqlite3.connect(store)) as database:
        row = database.execute(
            "SELECT coalesce(sum(spent), 0), coalesce(sum(delivered), 0), coalesce(sum(spent IS NULL), 0), "
            "coalesce(sum(CASE WHEN spent > 0 AND delivered = 0 THEN traces ELSE 0 END), 0) FROM ledger"
        ).fetchone()
    return dict(zip(("spent", "delivered", "unsettled", "lost"), row, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=int, nargs="?", default=REQUESTS)
    parser.add_argument("clients", type=int, nargs="?", default=CLIENTS)
    parser.add_argument("--policy")
    args = parser.parse_args()
    policy = ["--policy", args.policy] if args.policy else []
    print(__doc__)
    with tempfile.TemporaryDirectory() as folder, slow_upstream(SECONDS, FAULTS) as upstream:
        store = Path(folder) / "gateway.db"
        alone = asyncio.run(bare(upstream, args.clients, first=args.requests))
        straight = httpx.get(f"{upstream}/stats", trust_env=False).json()
        with gateway(upstream, store, "--budget", "8x", *policy) as (url, process):
            begun, before = time.perf_counter(), cpu_seconds(process.pid)
            load, memory = asyncio.run(drive(url, process.pid, args.requests, args.clients))
            seconds = time.perf_counter() - begun
            cpu = 1000 * (memory.pop("cpu_seconds") - before) / args.requests
        counted = httpx.get(f"{upstream}/stats", trust_env=False).json()
        ledger = ledger_totals(store)
    busy = counted.pop("busy")
    counted = {name: many - straight.get(name, 0) for name, many in counted.items()}
    overheads = [latency - busy[str(number)] for number, latency in load.latencies.items()]
    machine = percentiles([latency - busy[str(number)] for number, latency in alone.items()])
    answered = sum(load.statuses.values())
    print(f"{args.requests} requests of {args.clients} clients in {seconds:.0f} s: {dict(load.statuses)}")
    print(f"without an answer or an error: {args.requests - answered}; with a retry: {load.retried}")
    print(f"overhead, seen by the client: {percentiles(overheads)}, {machine} of it bare; "
          f"by the gateway: {percentiles(load.own)}")  # fmt: skip
    print(f"processor time of the gateway: {cpu:.1f} ms a request")
    print(f"ledger {ledger}; upstream counted {counted}; memory {memory}")
    right = ledger["spent"] == ledger["delivered"] + ledger["lost"] and not ledger["unsettled"]
    right = right and ledger["delivered"] <= counted["whole"] <= ledger["spent"]
    figures: dict[str, object] = {
        "cpu_ms": round(cpu, 2),
        "client": percentiles(overheads),
        "bare": machine,
        "gateway": percentiles(load.own),
        "memory_mb": memory,
    }
    figures |= {"statuses": dict(load.statuses), "ledger": ledger, "upstream": counted, "ledger_right": right}
    print(json.dumps({"benchmark": "gateway_load", **vars(args)} | figures))


if __name__ == "__main__":
    main()
