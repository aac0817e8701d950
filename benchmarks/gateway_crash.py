"""A gateway killed with kill -9 under load, again and again: is its ledger right afterwards?

    python -m benchmarks.gateway_crash [KILLS] [CLIENTS]

Clients ask as fast as they are answered; after a random time the process is killed and started again on the same store,
under the same budget. Right means: every trace that the upstream served was held in the ledger before it went out
(spent is not less than what the upstream counted, whole or broken off), every answer that a client has is in the
ledger, nothing is left unsettled after a restart, and the budget is never exceeded.
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import httpx

from benchmarks._slow_upstream import slow_upstream
from benchmarks.gateway_load import gateway, ledger_totals

KILLS, CLIENTS, SECONDS, BUDGET = 10, 40, 0.2, 20_000


class Crowd:
    """Clients, and what the answers that reached them say was spent."""

    def __init__(self) -> None:
        self.traces = self.answers = self.refused = 0

    async def client(self, client: httpx.AsyncClient, url: str) -> None:
        body = {"model": "pets/m", "messages": [{"role": "user", "content": "Question 1"}]}
        while True:
            try:
                reply = await client.post(f"{url}/chat/completions", json=body, timeout=60)
            except httpx.HTTPError:
                return  # it was killed
            if reply.status_code == httpx.codes.OK:
                self.answers += 1
                self.traces += reply.json()["pets"]["traces"]
            elif reply.status_code == httpx.codes.TOO_MANY_REQUESTS:
                self.refused += 1
                return

    async def load(self, url: str, clients: int, seconds: float, kill: Callable[[], None]) -> None:
        """Ask until everybody has been cut off or refused; after so many seconds, kill."""
        timer = asyncio.get_running_loop().call_later(seconds, kill)
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(trust_env=False, limits=limits) as client, asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self.client(client, url))
        timer.cancel()


def counted_at(upstream: str) -> dict[str, int]:
    """What the upstream gave out."""
    counts: dict[str, int] = httpx.get(f"{upstream}/stats", trust_env=False).json()
    del counts["busy"]
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=KILLS)
    parser.add_argument("clients", type=int, nargs="?", default=CLIENTS)
    args = parser.parse_args()
    print(__doc__)
    crowd, rng, right = Crowd(), random.Random(0), True
    with tempfile.TemporaryDirectory() as folder, slow_upstream(SECONDS, 0.05) as upstream:
        store = Path(folder) / "gateway.db"

        for turn in range(args.kills):
            with gateway(upstream, store, "--budget", str(BUDGET), "--budget", "8x") as (url, process):
                right &= not ledger_totals(store)["unsettled"]
                asyncio.run(crowd.load(url, args.clients, rng.uniform(1.0, 3.0), process.kill))
                process.kill()
                process.wait()
            print(f"kill {turn + 1}: {ledger_totals(store)}, upstream {counted_at(upstream)}, answered {crowd.answers}")
        with gateway(upstream, store):
            counted, ledger = counted_at(upstream), ledger_totals(store)
    served = counted["whole"] + counted.get("broken", 0)
    right &= not ledger["unsettled"]
    right &= served <= ledger["spent"] <= BUDGET and crowd.traces <= ledger["spent"]
    print(json.dumps({"benchmark": "gateway_crash", "kills": args.kills, "ledger": ledger, "right": right}))


if __name__ == "__main__":
    main()
