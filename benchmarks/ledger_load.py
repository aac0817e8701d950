"""Four replicas' ledgers on one PostgreSQL: reservations per second, how long one takes, and whether any is lost.

    python -m benchmarks.ledger_load [RESERVATIONS] [REPLICAS] [CLIENTS]

Every replica is a process with a ledger of its own and CLIENTS tasks. Each task reserves, and settles at once, again
and again, for one of 20 keys, under a common total that the last hundred reservations find used up. The server, as its
wheel sets it up, flushes to the disk; a reservation counts when it is durable. Then the store is added up: ``lost`` is
every reservation that was acknowledged and is not in the ledger, or is there twice, and every unit by which a balance
differs from the rows below it. ``cpu_ms`` is the processor time of a reservation, in replica and server together: what
another load on the machine leaves as it is.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from contextlib import closing

import numpy as np

from benchmarks._postgres import postgres
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import GatewayLedger, RequestAccount
from pets.gateway.ledger_backend import LedgerBackend
from pets.gateway.ledger_store import Charge
from pets.gateway.shared_store import SharedStore
from pets.store.postgres import Connection, connect

RESERVATIONS, REPLICAS, CLIENTS, KEYS = 100_000, 4, 16, 20
TRACES = 4  # of a reservation, of which 3 are delivered
REFUSED = 100  # reservations that the total does not pay for


async def work(url: str, reservations: int, clients: int, total: int) -> dict[str, object]:
    """One replica: its reservations, how long each took, and how many were refused."""
    ledger = GatewayLedger(LedgerBackend(SharedStore(url)), total=total)
    ledger.backend.begin()
    left, seconds, made, refused = iter(range(reservations)), list[float](), list[int](), 0
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    begun, before = time.time(), time.process_time()

    async def client() -> None:
        nonlocal refused
        for number in left:
            start = time.perf_counter()
            reservation = await ledger.reserve(RequestAccount(ApiKey(f"key{number % KEYS}"), f"r{number}"), TRACES)
            seconds.append(time.perf_counter() - start)
            if reservation is None:
                refused += 1
                continue
            made.append(reservation.id)
            ledger.settle(reservation, Charge(3, 3))

    await asyncio.gather(*(client() for _ in range(clients)))
    ended = time.time()
    await ledger.close()
    cpu = time.process_time() - before
    return {"cpu": cpu, "seconds": seconds, "made": made, "refused": refused, "begun": begun, "ended": ended}


def check(connection: Connection, made: list[int]) -> int:
    """What is lost: acknowledged entries that are not there once, and what balances differ by."""
    rows = [id for (id,) in connection.execute("SELECT id FROM ledger").fetchall()]
    lost = len(set(made) ^ set(rows)) + len(made) - len(set(made))
    sums = connection.execute(
        "SELECT 'total', sum(spent), sum(CASE WHEN spent IS NULL THEN held ELSE 0 END) FROM ledger UNION ALL "
        "SELECT 'key ' || key, sum(spent), sum(CASE WHEN spent IS NULL THEN held ELSE 0 END) FROM ledger GROUP BY key"
    ).fetchall()
    balances = {name: (spent, held) for name, spent, held in connection.execute("SELECT * FROM balances").fetchall()}
    for name, spent, held in sums:
        lost += abs(balances[name][0] - spent) + abs(balances[name][1] - held)
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reservations", type=int, nargs="?", default=RESERVATIONS)
    parser.add_argument("replicas", type=int, nargs="?", default=REPLICAS)
    parser.add_argument("clients", type=int, nargs="?", default=CLIENTS)
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    share = args.reservations // args.replicas
    total = (args.reservations - REFUSED) * 3 + TRACES - 3
    if args.work:
        print(json.dumps(asyncio.run(work(args.work, share, args.clients, total))))
        return
    print(__doc__)
    with postgres() as server:
        url = server.url
        numbers = [str(args.reservations), str(args.replicas), str(args.clients)]
        command = [sys.executable, "-m", "benchmarks.ledger_load", *numbers, "--work", url]
        processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(args.replicas)
        ]
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        server_cpu = server.cpu_seconds()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        results = [json.loads(process.communicate()[0]) for process in processes]
        cpu = server.cpu_seconds() - server_cpu + sum(result["cpu"] for result in results)
        with closing(connect(url)) as connection:
            lost = check(connection, [id for result in results for id in result["made"]])
            deadlocks = connection.execute(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
            spent = connection.execute("SELECT spent FROM balances WHERE name = 'total'").fetchone()
    seconds = max(result["ended"] for result in results) - min(result["begun"] for result in results)
    latencies = np.array([latency for result in results for latency in result["seconds"]])
    print(
        json.dumps(
            {
                "benchmark": "ledger_load",
                "reservations": len(latencies),
                "replicas": args.replicas,
                "clients": args.clients,
                "seconds": round(seconds, 1),
                "reservations_per_second": round(len(latencies) / seconds),
                "p50_ms": round(1000 * float(np.percentile(latencies, 50)), 1),
                "p99_ms": round(1000 * float(np.percentile(latencies, 99)), 1),
                "cpu_ms": round(1000 * cpu / len(latencies), 2),
                "refused": sum(result["refused"] for result in results),
                "over_budget": max(0, (spent or (0,))[0] - total),
                "deadlocks": deadlocks[0] if deadlocks else None,
                "lost": lost,
            }
        )
    )


if __name__ == "__main__":
    main()
