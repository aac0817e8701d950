"""A gateway killed with kill -9 under load, again and again: is its ledger right afterwards?

    python -m benchmarks.gateway_crash [KILLS] [CLIENTS]

Clients ask as fast as they are answered; after a random time the process is killed and started again on the same store,
under the same budget. Right means: every trace that the upstream served was held in the ledger before it went out
(spent is not less than what the upstream counted, whole or broken off), every answer that a client has is in the
ledger, nothing is left unsettled after a restart, and the budget is never exceeded.

Then races, at hurry 1 on a budget of tokens, over a mock that streams at a pace, tells its usage in every chunk and
counts what it has generated of each launch. Right means there: every answer that a client has says exactly the tokens
that were generated for it, cancelled traces included, and what is spent is no less than all that was generated.
"""

import argparse
import asyncio
import itertools
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from benchmarks._counting_mock import CountingMock
from benchmarks._slow_upstream import slow_upstream
from benchmarks.gateway_load import gateway, ledger_totals
from pets.mock import running, synthetic

KILLS, CLIENTS, SECONDS, BUDGET = 10, 40, 0.2, 20_000
TOKENS, PACE, RACES, TOKEN_BUDGET = 40, 100.0, 20_000, 100_000_000


class Crowd:
    """Clients, who ask the next of the ``questions``, and what the answers that reached them say was spent."""

    def __init__(self, model: str, questions: Iterator[str]) -> None:
        self.traces = self.answers = self.refused = self.cancelled = 0
        self.tokens: dict[str, int] = {}  # of each question that was answered
        self._model, self._questions = model, questions

    async def client(self, client: httpx.AsyncClient, url: str) -> None:
        for question in self._questions:
            body = {"model": self._model, "messages": [{"role": "user", "content": f"Question {question}"}]}
            try:
                reply = await client.post(f"{url}/chat/completions", json=body, timeout=60)
            except httpx.HTTPError:
                return  # it was killed
            if reply.status_code == httpx.codes.OK:
                self.answers += 1
                about = reply.json()["pets"]
                self.traces += about["traces"]
                self.cancelled += about["cancelled"]
                self.tokens[question] = about["tokens"]
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


def race(kills: int, clients: int) -> dict[str, object]:
    """The figures of races under kills, and whether they are right."""
    book, rng = synthetic(RACES, strength=0.4, tokens=TOKENS), random.Random(0)
    crowd, mock = Crowd("pets/mock", iter(book.ids())), CountingMock(book, tokens_per_second=PACE)
    with tempfile.TemporaryDirectory() as folder, running(mock) as upstream:
        store, server = Path(folder) / "gateway.db", upstream.removesuffix("/v1")
        budget = ["--budget", f"{TOKEN_BUDGET}tok", "--budget", "8x", "--max-tokens", str(4 * TOKENS), "--hurry", "1"]
        for _ in range(kills):
            with gateway(server, store, *budget) as (url, process):
                asyncio.run(crowd.load(url, clients, rng.uniform(2.0, 5.0), process.kill))
                process.kill()
                process.wait()
        with gateway(server, store, *budget):
            ledger = ledger_totals(store)
    generated = {id: sum(map(sum, mock.generated[id].values())) for id in crowd.tokens}
    differ = sum(tokens != generated[id] for id, tokens in crowd.tokens.items())
    written = mock.stats.completion_tokens + mock.stats.prompt_tokens
    right = not (differ or mock.twice or ledger["unsettled"]) and written <= ledger["spent"] <= TOKEN_BUDGET
    about = {"kills": kills, "races": len(mock.generated), "answered": crowd.answers, "cancelled": crowd.cancelled}
    return {**about, "answers at other tokens": differ, "spent": ledger["spent"], "generated": written, "right": right}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=KILLS)
    parser.add_argument("clients", type=int, nargs="?", default=CLIENTS)
    args = parser.parse_args()
    print(__doc__)
    crowd, rng, right = Crowd("pets/m", itertools.repeat("1")), random.Random(0), True
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
    raced = race(args.kills, args.clients)
    print(json.dumps({"benchmark": "gateway_crash", "run": "races", **raced}))
    if not (right and raced["right"]):
        raise SystemExit("the ledger is not right")


if __name__ == "__main__":
    main()
