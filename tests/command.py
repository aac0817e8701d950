"""``pets ...`` in the process of the tests: a start of the interpreter takes longer than most of what they run."""

import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from pets import gateway, mock
from pets.cli.main import main
from pets.errors import LocalModelError
from pets.pools import Pool, load

__all__ = ["pets", "run_briefly"]


def run_briefly(patch: pytest.MonkeyPatch, question: str) -> None:
    """Let serve answer this question and mock list its models, on free ports, and demo replay a few questions."""

    def refuse(*args: object, **options: object) -> None:
        raise LocalModelError("not here.")

    def ask(state, host, port, *, ready, grace):  # type: ignore[no-untyped-def]
        with gateway.running(state, grace=grace) as url, httpx.Client(base_url=url, trust_env=False) as client:
            ready(url)
            for model in ("pets/mock", "mock"):
                body = {"model": model, "messages": [{"role": "user", "content": question}], "metadata": {"a": "b"}}
                client.post("/v1/chat/completions", json=body, timeout=60).raise_for_status()

    def list_models(model, host, port, *, ready):  # type: ignore[no-untyped-def]
        with mock.running(model) as url:
            ready(url)
            httpx.get(f"{url}/models", trust_env=False).raise_for_status()

    few = Pool("starter", load("starter").questions[:4])
    patch.setattr("pets.cli.demo.load", lambda name: few)
    patch.setattr("pets.cli.demo.LocalSampler", refuse)
    patch.setattr("pets.gateway.serve", ask)
    patch.setattr("pets.mock.serve", list_models)


def pets(*words: object, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command as a shell would, through its entry point; its exit code and what it wrote."""
    command = ["pets", *map(str, words)]
    with (
        pytest.MonkeyPatch.context() as patch,
        CliRunner().isolation(stdin) as (stdout, stderr, _),
        pytest.raises(SystemExit) as end,
    ):
        patch.setattr(sys, "argv", command)
        main()
    return subprocess.CompletedProcess(command, end.value.code, stdout.getvalue().decode(), stderr.getvalue().decode())
