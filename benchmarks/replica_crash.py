"""Four gateways on one PostgreSQL; one is killed with kill -9, one restarted, the server stopped: is the ledger right?

    python -m benchmarks.replica_crash [REQUESTS] [CLIENTS] [--outage SECONDS]

Clients ask one gateway after the other, as a load balancer would, until every request has an answer or is refused for
want of budget, which about the last tenth are. At a quarter of the requests one gateway is killed, at a half another is
stopped in order, and both are started again; with --outage the server is stopped at three quarters, at once and without
a flush, for so many seconds. Right means: whenever one looks, no more is spent and held than the budget; every trace
that the upstream served was reserved before (spent is not less); every answer that a client has is paid for; every row
was settled once, and the balances are the sums of the rows.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator

import aiohttp
import httpx

from benchmarks._postgres import Postgres, postgres
from benchmarks._slow_upstream import slow_upstream
from benchmarks.gateway_load import gateway
from pets.errors import StateError
from pets.store.postgres import Connection, PostgresError, connect

REQUESTS, CLIENTS, REPLICAS, SECONDS, FAULTS = 20_000, 64, 4, 0.1, 0.02
MEAN_BUDGET = 5
TRACES_PER_REQUEST = 4.5  # that the budget has: fewer than are asked for
DEAD_AFTER_S = 90.0  # that the end waits for a killed gateway's requests to be charged


class Replicas:
    """The gateways by place; one that is down is passed over."""

    def __init__(self, upstream: str, url: str, budget: int) -> None:
        self._upstream, self._url, self._budget = upstream, url, budget
        self._stacks = [contextlib.ExitStack() for _ in range(REPLICAS)]
        self.processes: list[subprocess.Popen[str]] = []
        self.urls: list[str | None] = [None] * REPLICAS

    def start(self, place: int) -> None:
        more = ("--budget", str(self._budget), "--budget", f"{MEAN_BUDGET}x")
        url, process = self._stacks[place].enter_context(gateway(self._upstream, self._url, *more))
        self.processes[place : place + 1] = [process]
        self.urls[place] = url

    def end(self, place: int, number: signal.Signals) -> None:
        self.urls[place] = None
        self.processes[place].send_signal(number)
        self._stacks[place].close()

    def end_all(self) -> None:
        for place in range(REPLICAS):
            self._stacks[place].close()


class Crowd:
    """Clients, and what the answers that reached them say was spent."""

    def __init__(self, replicas: Replicas, requests: int) -> None:
        self.replicas, self.requests = replicas, requests
        self.left = iter(range(requests))
        self.statuses: Counter[str] = Counter()
        self.traces = self.done = 0
        self.allowed = requests  # that may begin: nobody runs ahead of what is to happen

    async def client(self, session: aiohttp.ClientSession, turn: int) -> None:
        for number in self.left:
            while number >= self.allowed:
                await asyncio.sleep(0.02)
            status = 0
            while status not in (200, 429):
                turn += 1
                url = self.replicas.urls[turn % REPLICAS]
                status = 0 if url is None else await self._ask(session, url, number)
                if status not in (200, 429):
                    await asyncio.sleep(0.1)
            self.done += 1

    async def _ask(self, session: aiohttp.ClientSession, url: str, number: int) -> int:
        body = {"model": "pets/m", "messages": [{"role": "user", "content": f"Question {number}"}]}
        try:
            async with session.post(f"{url}/chat/completions", json=body) as reply:
                content = await reply.json()
        except (aiohttp.ClientError, TimeoutError, ValueError):
            self.statuses["cut off"] += 1
            return 0
        self.statuses[str(reply.status)] += 1
        if reply.status == 200:
            self.traces += content["pets"]["traces"]
        return reply.status


class Watch:
    """The most that was ever spent and held, as the store says."""

    def __init__(self, url: str) -> None:
        self.most = self.looks = 0
        self._url = url

    async def look(self) -> None:
        while True:
            with contextlib.suppress(PostgresError, StateError):
                await asyncio.to_thread(self._look)
            await asyncio.sleep(0.05)

    def _look(self) -> None:
        with contextlib.closing(connect(self._url)) as connection:
            row = connection.execute("SELECT spent + held FROM balances WHERE name = 'total'").fetchone()
        if row is not None:
            self.most = max(self.most, row[0])
            self.looks += 1


async def events(crowd: Crowd, server: Postgres, outage_s: float) -> float:
    """Kill, restart and stop while the crowd asks; the seconds in which the store was away."""
    replicas = crowd.replicas
    for share, place, number in ((0.25, 0, signal.SIGKILL), (0.5, 1, signal.SIGTERM)):
        crowd.allowed = int((share + 0.2) * crowd.requests)
        while crowd.done < share * crowd.requests:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(replicas.end, place, number)
        await asyncio.to_thread(replicas.start, place)
    crowd.allowed = crowd.requests
    if not outage_s:
        return 0.0
    while crowd.done < 0.75 * crowd.requests:
        await asyncio.sleep(0.02)
    await asyncio.to_thread(server.stop)
    begun = time.monotonic()
    await asyncio.sleep(outage_s)
    await asyncio.to_thread(server.start)
    return time.monotonic() - begun


async def load(crowd: Crowd, watch: Watch, clients: int, server: Postgres, outage_s: float) -> float:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    looking = asyncio.create_task(watch.look())
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session, asyncio.TaskGroup() as group:
        happening = group.create_task(events(crowd, server, outage_s))
        for number in range(clients):
            group.create_task(crowd.client(session, number))
    looking.cancel()
    return happening.result()


def wait_for_the_dead(connection: Connection) -> None:
    """Until what the killed gateway had open has been charged."""
    until = time.monotonic() + DEAD_AFTER_S
    query = "SELECT count(*) FROM replicas WHERE ended IS NULL"
    while (connection.execute(query).fetchone() or (0,))[0] > REPLICAS and time.monotonic() < until:
        time.sleep(0.2)


def totals(connection: Connection) -> dict[str, int]:
    """Sums of the ledger, and its balance."""
    rows = connection.execute(
        "SELECT coalesce(sum(spent), 0), coalesce(sum(delivered), 0), sum(CASE WHEN spent IS NULL THEN 1 ELSE 0 END), "
        "sum(CASE WHEN spent > 0 AND delivered = 0 THEN traces ELSE 0 END), count(*), count(DISTINCT id) FROM ledger"
    ).fetchone()
    balance = connection.execute("SELECT spent, held FROM balances WHERE name = 'total'").fetchone()
    assert rows is not None and balance is not None
    names = ("spent", "delivered", "unsettled", "lost", "rows", "ids", "balance_spent", "balance_held")
    return dict(zip(names, (int(number) for number in (*rows, *balance)), strict=True))


@contextlib.contextmanager
def started(upstream: str, url: str, budget: int) -> Iterator[Replicas]:
    replicas = Replicas(upstream, url, budget)
    try:
        for place in range(REPLICAS):
            replicas.start(place)
        yield replicas
    finally:
        replicas.end_all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=int, nargs="?", default=REQUESTS)
    parser.add_argument("clients", type=int, nargs="?", default=CLIENTS)
    parser.add_argument("--outage", type=float, default=0.0, metavar="SECONDS")
    args = parser.parse_args()
    print(__doc__)
    budget = int(TRACES_PER_REQUEST * args.requests)
    with postgres() as server, slow_upstream(SECONDS, FAULTS) as upstream:
        watch, begun = Watch(server.url), time.perf_counter()
        with started(upstream, server.url, budget) as replicas:
            crowd = Crowd(replicas, args.requests)
            away = asyncio.run(load(crowd, watch, args.clients, server, args.outage))
            seconds = time.perf_counter() - begun
            with contextlib.closing(connect(server.url)) as connection:
                wait_for_the_dead(connection)
        with contextlib.closing(connect(server.url)) as connection:
            ledger = totals(connection)
        counted: dict[str, int] = httpx.get(f"{upstream}/stats", trust_env=False).json()
    served = counted["whole"] + counted.get("broken", 0)
    checks = {
        "budget_kept": watch.most <= budget and ledger["spent"] <= budget,
        "all_reserved": served <= ledger["spent"],
        "answers_paid": crowd.traces <= ledger["spent"],
        "charged_once": ledger["spent"] == ledger["delivered"] + ledger["lost"] and ledger["rows"] == ledger["ids"],
        "adds_up": ledger["balance_spent"] == ledger["spent"] and not ledger["balance_held"] + ledger["unsettled"],
    }
    figures = {
        "benchmark": "replica_crash",
        "requests": args.requests,
        "seconds": round(seconds, 1),
        "outage_s": round(away, 1),
        "statuses": dict(crowd.statuses),
        "budget": budget,
        "most_spent_and_held": watch.most,
        "looks": watch.looks,
        "upstream_served": served,
        "answered_traces": crowd.traces,
        "ledger": ledger,
    }
    print(json.dumps(figures | checks | {"right": all(checks.values())}))


if __name__ == "__main__":
    main()
