"""A server of this machine whose replies take about a given time, with faults, and which counts what it gave out.

    python -m benchmarks._slow_upstream SECONDS FAULTS

A reply takes 0.75 to 1.25 times SECONDS. Of the faults a third each are a 429, a 500 and a reply that breaks off. The
port is the first line of its output; GET /stats says how many traces went out whole, broken off, and to clients that
had gone, and for each question number in how many seconds a reply to it was on its way.
"""

import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks._loopback import Answering, N

QUESTION = re.compile(rb"Question (\d+)")
STATS: Counter[str] = Counter()


@dataclass(slots=True)
class Busy:
    """One question's replies on their way: how many, since when, and for how long in all."""

    now: int = 0
    since: float = 0.0
    seconds: float = 0.0

    def begin(self, moment: float) -> None:
        self.since = self.since if self.now else moment
        self.now += 1

    def end(self, moment: float) -> None:
        self.now -= 1
        if not self.now:
            self.seconds += moment - self.since


BUSY: dict[int, Busy] = defaultdict(Busy)


class Slow(Answering):
    """Answers each request after ``seconds``."""

    def __init__(self, seconds: float, faults: float, rng: random.Random) -> None:
        super().__init__()
        self.seconds, self.faults, self.rng = seconds, faults, rng
        self.turn = rng.randrange(1000)
        self.waiting: dict[int, asyncio.TimerHandle] = {}

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in self.waiting.values():
            timer.cancel()
            STATS["abandoned"] += 1
        self.waiting.clear()

    def answer(self, request: bytes) -> None:
        if request.startswith(b"GET /stats"):
            busy = {number: work.seconds for number, work in BUSY.items()}
            body = json.dumps(STATS | {"busy": busy}).encode()
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            return
        if request.startswith(b"GET "):  # /metrics, by which a client learns whether a server stops
            self.transport.write(b"HTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\n{}")
            return
        choices = N.search(request)
        n = int(choices[1]) if choices else 1
        fault = self.rng.choice(("429", "500", "broken")) if self.rng.random() < self.faults else ""
        if fault in ("429", "500"):
            STATS[fault] += 1
            self.transport.write(b"HTTP/1.1 %b No\r\ncontent-length: 2\r\n\r\n{}" % fault.encode())
            return
        loop, named = asyncio.get_running_loop(), QUESTION.search(request)
        number = int(named[1]) if named else 0
        BUSY[number].begin(loop.time())
        self.turn += 1
        seconds = self.seconds * self.rng.uniform(0.75, 1.25)
        self.waiting[self.turn] = loop.call_later(seconds, self.say, n, fault, self.turn, number)

    def say(self, n: int, fault: str, turn: int, number: int) -> None:
        del self.waiting[turn]
        BUSY[number].end(asyncio.get_running_loop().time())
        body = self.reply(n)
        if fault:
            STATS["broken"] += n
            self.transport.write(body[: len(body) // 2])
            self.transport.close()
        else:
            STATS["whole"] += n
            self.transport.write(body)


async def serve(seconds: float, faults: float) -> None:
    rng = random.Random(0)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Slow(seconds, faults, rng), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def slow_upstream(seconds: float, faults: float) -> Iterator[str]:
    """The URL of the server, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks._slow_upstream", str(seconds), str(faults)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(float(sys.argv[1]), float(sys.argv[2])))
