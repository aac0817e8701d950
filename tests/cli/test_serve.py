"""``pets serve`` from the shell."""

import json
import os
import re
import signal
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.cli.serve import SpendOptions
from pets.engine import TokenPrice
from pets.errors import BudgetError, InputError
from pets.gateway.ledger_store import SpendRateLimit
from pets.mock import DistributionAnswers, MockModel, running

from ..command import pets
from ..waiting import PATIENCE_S

MAIN = [sys.executable, "-c", "from pets.cli.main import main; main()"]
ASK = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}]}


def test_served_stopped_and_remembered(popen, tmp_path):
    store = tmp_path / "g.db"
    made = pets("keys", "add", "alice", "--store", store)
    headers = {"authorization": f"Bearer {made.stdout.strip()}"}
    with running(MockModel(DistributionAnswers({"easy": {"A": 1.0}}, tokens=8), api_key="sk-up")) as upstream:
        command = [*MAIN, "serve", "--endpoint", upstream, "--policy", "online_grid", "--answer", "choice"]
        command += ["--store", str(store), "--port", "0", "--budget", "6", "--grace", "5"]
        environment = os.environ | {"PETS_UPSTREAM_KEY": "sk-up"}
        for turn in range(2):
            process = popen(command, stderr=subprocess.PIPE, env=environment)
            url = process.stderr.readline().split()[0]
            with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
                assert client.post("/chat/completions", json=ASK).status_code == 401
                reply = client.post("/chat/completions", json=ASK, headers=headers)
            assert reply.status_code == (200, 429)[turn]  # what was spent is remembered
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=PATIENCE_S)
            assert process.returncode in (0, -signal.SIGTERM) and "sk-up" not in log
            assert re.search(r'"status": (200|429)', log) and headers["authorization"][7:] not in log


MOCK = MockModel(DistributionAnswers({"easy": {"A": 1.0}}, tokens=8), api_key="sk-upstream")


@pytest.mark.parametrize("keys", [False, True])
def test_the_start_says_how_to_ask_and_the_line_works_as_pasted(popen, tmp_path, keys):
    store, environment = tmp_path / "g.db", os.environ | {"PETS_UPSTREAM_KEY": "sk-upstream"}
    if keys:
        environment["PETS_KEY"] = pets("keys", "add", "a", "--store", store).stdout.strip()
    with running(MOCK) as upstream:
        command = [*MAIN, "serve", "--endpoint", upstream, "--store", str(store), "--port", "0", "--answer", "choice"]
        process = popen(command, stderr=subprocess.PIPE, env=environment)
        first, dashboard, models, curl = [process.stderr.readline() for _ in range(4)]
        url = first.split()[0]
        assert ("Requests need a key" in first) is keys and url.endswith("/v1")
        assert dashboard == f"Dashboard: {url.removesuffix('v1')}\n"
        assert models == "Models: pets/mock; without pets/ they pass through\n"
        pasted = curl.removeprefix("Try: ").replace("curl", "curl -s --noproxy '*'").replace("17 x 23", "easy")
        done = subprocess.run(
            ["sh", "-c", pasted], capture_output=True, env=environment, check=True, timeout=PATIENCE_S
        )
        assert json.loads(done.stdout)["pets"]["answer"] == "A"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        (lambda url: url.removesuffix("/v1"), "sk-upstream", "its address is"),
        (lambda url: url, "sk-wrong123", "refuses this key (401)"),
        (lambda url: url, "", "wants a key (401). Give it as PETS_UPSTREAM_KEY"),
        (lambda url: "http://127.0.0.1:9/v1", "", "--no-check starts without it"),
    ],
)
def test_an_upstream_that_cannot_serve_is_one_line_before_anything_is_served(monkeypatch, change, key, says):
    monkeypatch.setenv("PETS_UPSTREAM_KEY", key)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with running(MOCK) as upstream:
        result = CliRunner().invoke(cli, ["serve", "--endpoint", change(upstream), "--port", "0"])
    assert isinstance(result.exception, InputError) and says in str(result.exception)
    assert "sk-" not in str(result.exception) and "\n" not in str(result.exception)


def test_limits_as_people_write_them():
    assert SpendOptions().limits(100) == {}
    limits = SpendOptions(budget=("8x", "2Mtok", "50ktok/30m")).limits(100)
    assert (limits["mean_budget"], limits["total"], limits["currency"].unit) == (8, 2_000_000, "tokens")
    assert limits["rate_limit"] == SpendRateLimit(50_000, 1800)
    money = SpendOptions(budget=("5usd",)).limits(100, TokenPrice(1, 2))
    assert money["total"] == 5 * 10**12 and money["currency"].per_token == 2_000_000
    seconds = [SpendOptions(budget=(text,)).limits(100)["rate_limit"].seconds for text in ("5/d", "5/1.5m")]
    assert seconds == [86400, 90]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (("16x", "8x"), BudgetError),
        (("5", "6"), BudgetError),
        (("16x/h",), BudgetError),
        (("5", "2Mtok/h"), BudgetError),
        (("5usd",), BudgetError),
        (("5/week",), InputError),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(wrong, error):
    with pytest.raises(error):
        SpendOptions(budget=wrong).limits(100)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--endpoint", "localhost:8000"], "no address"),
        (["--endpoint", "http://x/v1", "--model", "m.gguf"], "for a local model"),
        (["--model", "nowhere.gguf"], "nowhere.gguf"),
        (["--model", "a", "--model", "b"], "several models vote at servers"),
        (["--endpoint", "c=http://x/v1", "--model", "a", "--model", "b"], "--endpoint names c, which is none of"),
        (["--endpoint", "http://x/v1", "--answer", "numbr"], "numbr"),
        (["--endpoint", "http://x/v1", "--policy", "okg"], "not for a stream"),
        (["--endpoint", "http://x/v1", "--policy", "online_grid", "--budget", "2x"], "warm-up"),
        (["--endpoint", "http://x/v1", "--policy", "price", "--plan", "p.json"], "leave --policy out"),
        (["--endpoint", "http://x/v1", "--timeout", "nan"], "timeout is more than 0; got nan."),
        (["--endpoint", "http://x/v1", "--price", "in=1,out=2", "--price", "in=1,out=3"], "give one --price"),
        (["--endpoint", "http://x/v1", "--store", ""], "--store is empty."),
        (["--endpoint", "http://x/v1", "--budget", "5/"], "is no span of time; write s, 30s, m, 5m, h or d"),
        (["--endpoint", "http://x/v1", "--budget", "/h"], "is no budget"),
    ],
)
def test_a_mistake_is_one_line(words, says):
    result = CliRunner().invoke(cli, ["serve", *words, "--port", "0"])
    assert says in str(result.exception) and "\n" not in str(result.exception)
