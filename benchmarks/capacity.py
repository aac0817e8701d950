"""What one allocator, one gateway and one ledger sustain, and how many of each 1e4 to 1e8 questions per day need.

    python -m benchmarks.capacity [--peak FACTOR] [--trace-seconds S]

First the parts are measured on this machine, some seconds each: the allocator's processor time per launch and memory
per question (okg, a batch), the gateway's processor time and memory per request (a real one on a real PostgreSQL, an
upstream that answers slowly), the seconds of a ledger's transaction of 1 and of 16 reservations (a quarter of them are
faster: others may use the machine), and reservations per second of four replicas' ledgers with 16 clients each.

Then a day is computed. Arrivals are a Poisson process whose rate rises to FACTOR times its mean. At the peak:

- Gateways: each is one server with a queue. The busiest hour of one of them is simulated (Lindley's recursion,
  exponential service times, the measured mean); gateways are added until 99 % of the requests wait less than 50 ms.
  Questions that are open at once are the peak rate times their time upstream (Little's law); each takes memory.
- The ledger: every gateway has one transaction at a time, with all that waits at it, and all lock one row, so they take
  turns. A transaction of k reservations takes a + b k seconds (both as measured), a turn of n gateways at
  r reservations per second T = n a / (1 - r b), and a reservation waits two turns at most. PostgreSQLs are added until
  that is 50 ms.
- The allocator of a batch (`pets solve`): processor time per launch, memory per question, a day of time. The allocator
  of a gateway is in the gateway's figure.

What is not in it: the model. Its traces per second at the peak are printed; they are what such a service costs.
"""

import argparse
import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks import gateway_load, okg_scale
from benchmarks._postgres import postgres
from benchmarks._slow_upstream import slow_upstream
from pets.core.money import Currency
from pets.gateway.ledger_store import TOTAL, Charge, Operation, Reservation
from pets.gateway.shared_store import SharedStore
from pets.registry import make_policy
from pets.store.postgres import connect

DAYS = tuple(10**power for power in range(4, 9))  # questions per day
DAY_S, PEAK, TRACE_S = 86_400, 3.0, 20.0
WAIT_S = 0.05  # that 99 % of the requests wait at most, in a gateway and at the ledger
MEAN_BUDGET = 8  # traces per question
GATEWAY_BYTES, ALLOCATOR_BYTES = 2e9, 8e9  # memory of one
CONCURRENCY, OPEN_QUESTIONS = 256, 1024  # what `pets serve` takes by default
BATCH_HOURS = 24  # in which a batch has to be done
BATCH_SIZES = (5_000, 45_000)  # questions: what the second takes more is memory per question
REQUESTS, CLIENTS, UPSTREAM_S = 600, 60, 0.5
BATCHES, TRANSACTIONS, KEYS = (1, 16), 200, 20  # reservations in a transaction; how many are timed; of how many keys
REPLICAS, RESERVATIONS = 4, 6_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What was measured of each part, in seconds and bytes."""

    launch_s: float
    question_bytes: float
    request_s: float
    open_bytes: float
    reservations: float
    row_bytes: float
    transaction_s: float
    reservation_s: float

    def turn_s(self, gateways: float, rate: float) -> float:
        """Seconds until every gateway's transaction has had its turn, at a rate of reservations per second."""
        busy = rate * self.reservation_s
        return math.inf if busy >= 1 else gateways * self.transaction_s / (1 - busy)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a number of questions per day needs."""

    questions: int
    peak_per_second: float
    gateways: int
    wait_ms: float
    open_per_gateway: int
    reservations_per_second: float
    postgres: int
    ledger_wait_ms: float
    ledger_gb_per_day: float
    allocators: int
    traces_per_second: float

    uses: dict[str, float]
    """How many times over one of each, with its defaults, is used; what is over 1 breaks."""

    @property
    def breaks(self) -> str:
        """What breaks with one of each, what breaks first in front."""
        broken = sorted((item for item in self.uses.items() if item[1] > 1), key=lambda item: -item[1])
        return ", ".join(name for name, _ in broken) or "nothing"


def measure_allocator() -> tuple[float, float]:
    """Processor seconds per launch and bytes per question of a batch under okg."""
    small, large = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "benchmarks.capacity", "--batch", str(size)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for size in BATCH_SIZES
    )
    more = BATCH_SIZES[1] - BATCH_SIZES[0]
    return large["launch_s"], (large["peak_bytes"] - small["peak_bytes"]) / more


def run_batch(size: int) -> dict[str, float]:
    """Processor seconds per launch and the peak of memory of one batch, in this process."""
    wall, processor = time.perf_counter(), time.process_time()
    launches, inside = okg_scale.run(make_policy("okg"), size, 256, MEAN_BUDGET)
    share = (time.process_time() - processor) / (time.perf_counter() - wall)  # of the time that this process had
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"launch_s": inside * share / launches, "peak_bytes": peak}


def measure_gateway() -> tuple[float, float, float, float]:
    """Processor seconds and bytes per request, reservations per request and bytes per row of its ledger."""
    budget = ("--budget", f"{MEAN_BUDGET}x")
    with postgres() as server, slow_upstream(UPSTREAM_S, 0.0) as upstream:
        with gateway_load.gateway(upstream, server.url, *budget) as (url, process):
            begun, idle = gateway_load.cpu_seconds(process.pid), gateway_load.resident(process.pid)
            _, memory = asyncio.run(gateway_load.drive(url, process.pid, REQUESTS, CLIENTS))
        with closing(connect(server.url)) as connection:
            sql = "SELECT count(*), pg_total_relation_size('ledger') FROM ledger"
            rows, size = connection.execute(sql).fetchone() or (1, 0)
    busy = max(memory["after a tenth"], memory["at the end"]) - idle
    return (memory["cpu_seconds"] - begun) / REQUESTS, 1e6 * busy / CLIENTS, rows / REQUESTS, size / rows


def measure_ledger() -> tuple[float, float]:
    """Seconds of a transaction, and of each reservation in it: what 25 % of the transactions do not exceed."""
    with postgres() as server, closing(SharedStore(server.url)) as store:
        store.register(Currency())
        few, many = (float(np.percentile(transaction_seconds(store, batch), 25)) for batch in BATCHES)
    reservation_s = max(0.0, (many - few) / (BATCHES[1] - BATCHES[0]))
    return few - reservation_s * BATCHES[0], reservation_s


def transaction_seconds(store: SharedStore, batch: int) -> list[float]:
    """Seconds of each transaction that makes ``batch`` reservations, and settles as many."""
    seconds, held = list[float](), list[Reservation]()
    for number in range(TRANSACTIONS):
        made = [reservation_of(batch * (TRANSACTIONS + number) + place) for place in range(batch)]
        operations = [Operation(old, Charge(3, 3)) for old in held] + [Operation(new) for new in made]
        begun = time.perf_counter()
        store.commit(operations)
        seconds.append(time.perf_counter() - begun)
        held = made
    return seconds


def reservation_of(number: int) -> Reservation:
    """A reservation of 4 traces, without a limit."""
    key = f"key{number % KEYS}"
    balances = ((f"key {key}", None), (TOTAL, None))
    return Reservation(number, key, f"r{number}", "vote", "m", "traces", 4, 4, 0, 0, 0, balances)


def measure_rate() -> int:
    """Reservations per second of four replicas, as `ledger_load` prints them."""
    command = [sys.executable, "-m", "benchmarks.ledger_load", str(RESERVATIONS), str(REPLICAS)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(json.loads(output.splitlines()[-1])["reservations_per_second"])


def simulate_wait(rate: float, service_s: float, rng: np.random.Generator) -> float:
    """The wait that 99 % of an hour's requests do not exceed, in the queue of one gateway.

    Lindley: W_{k+1} = max(0, W_k + S_k - A_k), the distance of a random walk from its lowest point so far.
    """
    count = max(1000, int(rate * 3600))
    steps = rng.exponential(service_s, count) - rng.exponential(1 / rate, count)
    walk = np.concatenate([[0.0], np.cumsum(steps)])
    return float(np.percentile(walk - np.minimum.accumulate(walk), 99))


def needs_of(questions: int, parts: Parts, peak: float, trace_s: float) -> Needs:
    """What so many questions per day need."""
    rng = np.random.default_rng(0)
    rate = peak * questions / DAY_S
    open_questions = rate * parts.reservations * trace_s
    gateways = max(
        1, math.ceil(rate * parts.request_s / 0.95), math.ceil(open_questions * parts.open_bytes / GATEWAY_BYTES)
    )
    while (wait := simulate_wait(rate / gateways, parts.request_s, rng)) > WAIT_S:
        gateways += max(1, gateways // 20)
    stores = 1
    while (turn := parts.turn_s(gateways / stores, rate * parts.reservations / stores)) > WAIT_S / 2:
        stores += 1
    batch = questions * MEAN_BUDGET * parts.launch_s / (BATCH_HOURS * 3600)
    batch = max(batch, questions * parts.question_bytes / ALLOCATOR_BYTES)
    uses = {
        "`--concurrency`": rate * MEAN_BUDGET * trace_s / CONCURRENCY,
        "`--open-questions`": open_questions / OPEN_QUESTIONS,
        "a gateway's core": rate * parts.request_s,
        "a gateway's memory": open_questions * parts.open_bytes / GATEWAY_BYTES,
        "PostgreSQL": 2 * parts.turn_s(gateways, rate * parts.reservations) / WAIT_S,
        "a batch's allocator": batch,
    }
    return Needs(
        questions,
        round(rate, 1),
        gateways,
        round(1000 * wait, 1),
        math.ceil(open_questions / gateways),
        round(rate * parts.reservations, 1),
        stores,
        round(2000 * turn, 1),
        round(questions * parts.reservations * parts.row_bytes / 1e9, 2),
        math.ceil(batch),
        round(rate * MEAN_BUDGET, 1),
        {name: round(min(use, 1e6), 3) for name, use in uses.items()},
    )


def largest_for_one(parts: Parts, peak: float, trace_s: float) -> dict[str, float]:
    """Where one of each breaks: questions per second of a gateway and of a ledger, questions of a batch."""
    rng = np.random.default_rng(0)
    rates = np.geomspace(0.01, 0.99, 200) / parts.request_s
    gateway = max((rate for rate in rates if simulate_wait(float(rate), parts.request_s, rng) <= WAIT_S), default=0.0)
    few = (1 - REPLICAS * parts.transaction_s / (WAIT_S / 2)) / parts.reservation_s if parts.reservation_s else math.inf
    return {
        "gateway_questions_per_day_with_defaults": round(CONCURRENCY / (MEAN_BUDGET * trace_s) / peak * DAY_S),
        "gateway_questions_per_second": round(float(gateway), 1),
        "ledger_reservations_per_second_at_4_gateways": round(max(0.0, few)),
        "gateways_per_postgres_at_most": math.floor(WAIT_S / 2 / parts.transaction_s),
        "allocator_launches_per_second": round(1 / parts.launch_s),
        "allocator_questions_in_memory": round(ALLOCATOR_BYTES / parts.question_bytes),
    }


def table(rows: list[Needs]) -> str:
    """As the page has it."""
    head = (
        "questions per day | peak per second | gateways | open per gateway | reservations per second | PostgreSQLs | "
        "ledger GB per day | batch allocators | traces per second upstream | what one of each breaks by, first in front"
    )
    lines = [f"| {head} |", "|" + "---|" * (head.count("|") + 1)]
    lines += [
        f"| {row.questions:,} | {row.peak_per_second:,} | {row.gateways:,} | {row.open_per_gateway:,} | "
        f"{row.reservations_per_second:,} | {row.postgres:,} | {row.ledger_gb_per_day:,} | {row.allocators:,} | "
        f"{row.traces_per_second:,} | {row.breaks} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peak", type=float, default=PEAK, metavar="FACTOR", help="the peak rate over the mean")
    parser.add_argument("--trace-seconds", type=float, default=TRACE_S, metavar="S", help="how long a trace takes")
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.batch:
        print(json.dumps(run_batch(args.batch)))
        return
    print(__doc__)
    load = os.getloadavg()[0]
    launch_s, question_bytes = measure_allocator()
    request_s, open_bytes, reservations, row_bytes = measure_gateway()
    transaction_s, reservation_s = measure_ledger()
    sustained = measure_rate()
    parts = Parts(
        launch_s, question_bytes, request_s, open_bytes, reservations, row_bytes, transaction_s, reservation_s
    )
    print(f"allocator: {1e6 * launch_s:.1f} us of processor time per launch, {question_bytes:,.0f} bytes per question")
    print(f"gateway: {1000 * request_s:.2f} ms of processor time per request, {open_bytes / 1000:,.0f} kB per open "
          f"one, {reservations:.2f} reservations per question")  # fmt: skip
    print(f"ledger: {1000 * transaction_s:.2f} ms per transaction and {1000 * reservation_s:.3f} ms per reservation in "
          f"it, {row_bytes:,.0f} bytes per row; {sustained:,} reservations per second of 4 replicas under this load "
          f"({load:.0f})")  # fmt: skip
    one = largest_for_one(parts, args.peak, args.trace_seconds)
    print("one of each:", one)
    rows = [needs_of(questions, parts, args.peak, args.trace_seconds) for questions in DAYS]
    print(table(rows))
    figures = {"benchmark": "capacity", "load": round(load, 1), "reservations_per_second": sustained}
    figures |= {"peak": args.peak, "trace_s": args.trace_seconds}
    print(json.dumps(figures | {"parts": asdict(parts), "one": one, "days": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
