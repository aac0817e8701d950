"""A server of this machine that answers at once, with small bodies or streams of a few events, and the bare client that
engines are measured by. At /metrics it says that nothing runs, as a server does that stops when its client leaves."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import httpx

from pets.openai.request import DIALECTS, body_of
from pets.questions import Problem
from pets.samplers import Prompt, Sampling

N = re.compile(rb'"n": ?(\d+)')
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
ANSWERS = "AABAACABAAAB"  # what the traces say, in turns
IDLE = b"vllm:num_requests_running 0\n"


class Answering(asyncio.Protocol):
    """Reads whole requests off a connection and answers each with as many choices as it asks for."""

    def __init__(self) -> None:
        self.buffer = b""
        self.turn = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (head := self.buffer.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self.buffer[:head])
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < end:
                return
            request, self.buffer = self.buffer[:end], self.buffer[end:]
            self.answer(request)

    def answer(self, request: bytes) -> None:
        """Answer one whole request."""
        if request.startswith(b"GET "):
            self.transport.write(head("text/plain", len(IDLE)) + IDLE)
            return
        choices = N.search(request)
        n = int(choices[1]) if choices else 1
        self.transport.write(self.stream(n) if b'"stream": true' in request else self.reply(n))

    def stream(self, n: int) -> bytes:
        """The same choices as :meth:`reply` has, word by word."""
        events: list[dict[str, object]] = []
        for index in range(n):
            self.turn += 1
            words = ["The ", "answer ", "is ", f"{ANSWERS[self.turn % len(ANSWERS)]}."]
            events += [{"choices": [{"index": index, "delta": {"content": word}}]} for word in words]
            events.append({"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]})
        events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5 * n}})
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode() + b"data: [DONE]\n\n"
        return head("text/event-stream", len(body)) + body

    def reply(self, n: int) -> bytes:
        choices = []
        for index in range(n):
            self.turn += 1
            text = f"The answer is {ANSWERS[self.turn % len(ANSWERS)]}."
            choices.append({"index": index, "message": {"content": text}, "finish_reason": "stop"})
        body = json.dumps({"choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": 5 * n}}).encode()
        return head("application/json", len(body)) + body


def head(content_type: str, length: int) -> bytes:
    """The head of a good reply."""
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n".encode()


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def loopback() -> Iterator[str]:
    """The URL of the server, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks._loopback"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.kill()


def questions(many: int) -> list[Problem]:
    """Choices among four."""
    return [Problem(f"q{i}", Prompt.chat(f"Question q{i}: which of four?"), "choice:options=4") for i in range(many)]


async def bare(url: str, requests: int, in_flight: int, clients: int = 1) -> float:
    """Seconds that so many requests take a loop that does nothing with the replies but parse them."""
    problem = questions(1)[0]
    left = iter(range(requests))
    limits = httpx.Limits(max_connections=None)
    async with AsyncExitStack() as stack:
        opened = [httpx.AsyncClient(timeout=600, trust_env=False, limits=limits) for _ in range(clients)]
        for client in opened:
            await stack.enter_async_context(client)

        async def work(client: httpx.AsyncClient) -> None:
            for seed in left:
                body = body_of("m", problem.prompt, 1, seed, Sampling(), DIALECTS["vllm"])
                reply = await client.post(f"{url}/chat/completions", json=body)
                assert json.loads(reply.content)["choices"]

        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for at in range(in_flight):
                group.create_task(work(opened[at % clients]))
        return time.perf_counter() - begun


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
