"""A real vLLM: its URL comes from ``PETS_VLLM_URL``; ``make e2e-vllm`` starts one and sets it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from ..waiting import wait_until

CLI = [sys.executable, "-m", "pets"]
VERB_TIMEOUT_S = 900.0  # a processor with other work gives some twenty tokens per second
IDLE = {"running": 0, "waiting": 0}


class Vllm:
    """The server, with the figures that it publishes of itself."""

    model = "smollm2"

    def __init__(self, url):
        self.url = url.rstrip("/")
        self.http = httpx.Client(base_url=self.url, timeout=VERB_TIMEOUT_S, trust_env=False)
        self.source = ["--endpoint", self.url, "--model", self.model]

    def metric(self, name, **labels):
        """The sum of a metric's series that have these labels."""
        page = self.http.get(self.url.removesuffix("/v1") + "/metrics").raise_for_status().text
        series = re.findall(rf"^{re.escape(name)}\{{(.*)\}} (\S+)$", page, re.MULTILINE)
        pairs = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(value) for text, value in series if all(pair in text for pair in pairs))

    @property
    def requests(self):
        """Requests for traces that it has answered well."""
        paths = ("/v1/completions", "/v1/chat/completions")
        return sum(self.metric("http_requests_total", handler=path, status="2xx") for path in paths)

    @property
    def tokens(self):
        """Tokens that it has generated."""
        return self.metric("vllm:generation_tokens_total")

    @property
    def prompt_tokens(self):
        """Prompt tokens that it has read, once for each trace."""
        return self.metric("vllm:prompt_tokens_total")

    @property
    def load(self):
        """Traces that it decodes, and that wait for it."""
        return {state: self.metric(f"vllm:num_requests_{state}") for state in IDLE}

    @contextmanager
    def counting(self):
        """What it did within the block, once it has nothing more to do."""
        wait_until(lambda: self.load == IDLE)
        before = {name: getattr(self, name) for name in ("requests", "tokens", "prompt_tokens")}
        work = {}
        yield work
        wait_until(lambda: self.load == IDLE)
        work.update({name: getattr(self, name) - value for name, value in before.items()})


@pytest.fixture(scope="session")
def vllm() -> Iterator[Vllm]:
    url = os.environ.get("PETS_VLLM_URL")
    if not url:
        pytest.skip("PETS_VLLM_URL names no vLLM server; `make e2e-vllm` sets one up and starts it")
    server = Vllm(url)
    with server.http:
        yield server


@pytest.fixture(scope="session")
def pets():
    """Run a verb from the shell to its end; the rows of its stdout."""

    def run(*words):
        command = [*CLI, *map(str, words)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=VERB_TIMEOUT_S)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    return run


@pytest.fixture
def start():
    """Start a verb that the test itself ends; what is left of it is killed."""
    processes = []

    def launch(*words):
        command = [*CLI, *map(str, words)]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        return processes[-1]

    yield launch
    for process in processes:
        process.kill()
        process.communicate()
