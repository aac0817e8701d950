"""A client of a mock that runs for one test."""

import contextlib
import json

import httpx
import pytest

from pets.answers.choice import Choice
from pets.mock import MockModel, PoolAnswers, running
from pets.pools import Pool, PooledQuestion

TRACES = ("A", "B", "A", None, "C", "A", "B", "A")
POOL = Pool(
    "small",
    (
        PooledQuestion("q1", TRACES, gold="A", tokens=(12, 9, 30, 20, 15, 11, 8, 25), confidence=(9.5,) * 8),
        PooledQuestion("q2", ("7", "8"), gold="7"),
    ),
)


class Client(httpx.Client):
    """Asks for completions of q1 unless told otherwise."""

    def __init__(self, mock, url):
        super().__init__(base_url=url.removesuffix("/v1"), timeout=20, trust_env=False)
        self.mock, self.v1 = mock, url

    def chat(self, prompt="Question q1", **fields):
        messages = [{"role": "user", "content": prompt}]
        return self.post("/v1/chat/completions", json={"model": "mock", "messages": messages, **fields})

    def complete(self, prompt="Question q1", **fields):
        return self.post("/v1/completions", json={"model": "mock", "prompt": prompt, **fields})

    def stats(self):
        return self.get("/mock/stats").json()


def answers(reply):
    """What the choices of a reply say."""
    texts = [choice.get("text") or choice["message"]["content"] for choice in reply.json()["choices"]]
    return [Choice().extract(text) for text in texts]


def events(reply):
    """The JSON events of a stream; it must end as streams do."""
    lines = [line for line in reply.text.split("\n\n") if line]
    assert reply.headers["content-type"].startswith("text/event-stream") and lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.fixture
def serve():
    """``serve(faults=..., ...)`` gives a client of a mock with these settings."""
    with contextlib.ExitStack() as stack:

        def start(answers=None, **settings):
            mock = MockModel(answers or PoolAnswers(POOL), **settings)
            return stack.enter_context(Client(mock, stack.enter_context(running(mock))))

        yield start
