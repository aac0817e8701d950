"""A hostile upstream, misbehaviour by misbehaviour: whoever asks gets an answer or a clear error, and nothing leaks."""

import base64
import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from pets.cli import main as cli
from pets.gateway import Settings, build_gateway
from pets.gateway import running as gateway_running
from pets.mock import DistributionAnswers, MockModel, running

from .hostile_server import BIG, MISBEHAVIOURS, HostileServer

KEY = "sk-UPSTREAM/secret+123~456"
FORMS = [KEY, base64.b64encode(KEY.encode()).decode(), quote(KEY), quote(KEY, safe=""), KEY.replace("/", "\\/")]
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SMALL = sorted(set(MISBEHAVIOURS) - BIG)
FAMILIES = [list(names) for _, names in groupby(SMALL, lambda name: name.split("_")[0])]
SOME = [name for family in FAMILIES for name in family[:: -(-len(family) // 3)]]
"""Up to three of each family: what is read in one place alone is tried there with all."""
TIMEOUT_S = 0.5  # of a request to the hostile server
MAX_RSS_KB = 400_000
pytestmark = pytest.mark.timeout(60)  # nothing hangs


@pytest.fixture(scope="module")
def upstream():
    with running(HostileServer(MockModel(DistributionAnswers({"q": {"4": 1.0}})))) as url:
        yield url


@pytest.fixture(scope="module")
def served(upstream, tmp_path_factory):
    """A gateway, a client of it and the folder of its store."""
    folder = tmp_path_factory.mktemp("gateway")
    settings = Settings.of(policy="online_grid", answer="number", tries=1, timeout=TIMEOUT_S)
    state = build_gateway(upstream, settings=settings, key=KEY, store=folder / "gateway.db")
    with gateway_running(state) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        yield state, client, folder


@pytest.fixture
def gateway(served):
    """A client of a gateway that has forgotten how often its server failed: it would let that one rest for a while."""
    state, client, _ = served
    (endpoint,) = state.driver.fetcher.pool.endpoints
    endpoint.failures, endpoint.rest_until, endpoint.blocked_until = 0, 0.0, 0.0
    return client


@pytest.fixture
def store(served):
    return served[2]


def assert_no_key(content):
    for form in FORMS:
        assert form.encode() not in content
    with contextlib.suppress(ValueError, RecursionError):
        assert KEY not in json.dumps(json.loads(content), ensure_ascii=False)  # whatever escapes hide


def ask(client, model, **fields):
    """Status and bytes of a reply, as far as it comes; status 0 where the connection is closed before."""
    body = {"model": model, "messages": [{"role": "user", "content": "q"}], **fields}
    status, content = 0, b""
    try:
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            status = response.status_code
            assert_no_key(repr(response.headers.raw).encode())
            for part in response.iter_raw():
                content += part
                if len(content) > 1 << 20:
                    break
    except httpx.RemoteProtocolError:
        pass
    assert_no_key(content)
    return status, content


def assert_alive(client, caplog, store):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert_no_key("".join(repr(record.__dict__) for record in caplog.records).encode())
    for path in store.iterdir():
        assert_no_key(path.read_bytes())


def refuse(name):
    raise ValueError(f"{name} is not JSON")


@pytest.mark.parametrize("name", SMALL)
def test_a_vote_is_an_answer_or_a_clear_error(name, gateway, caplog, store):
    caplog.set_level(logging.INFO)
    status, content = ask(gateway, f"pets/hostile/{name}", pets={"max_traces": 4})
    reply = json.loads(content, parse_constant=refuse)
    if status == 200:
        assert reply["choices"][0]["index"] == 0 and reply["pets"]["traces"] >= 1
    else:
        assert status in (400, 404, 413, 422, 429, 502, 503, 504) and reply["error"]["message"]
    assert_alive(gateway, caplog, store)


@pytest.mark.parametrize("name", SOME)
def test_a_plain_model_passes_through_without_the_key(name, gateway, caplog, store):
    caplog.set_level(logging.INFO)
    for stream in (False, True):
        ask(gateway, f"hostile/{name}", stream=stream)
    assert_alive(gateway, caplog, store)


@pytest.mark.parametrize("name", SOME)
def test_a_run_ends_with_answers_or_one_line(name, upstream, tmp_path, monkeypatch, capfdbinary):
    questions, runs = tmp_path / "q.jsonl", tmp_path / "runs.db"
    questions.write_text('{"id": "q", "question": "What is 2 + 2?", "answer_type": "number"}\n')
    words = ["solve", str(questions), "--endpoint", upstream, "--model", f"hostile/{name}", "--store", str(runs)]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(sys, "argv", ["pets", *words, "--budget", "4", "--tries", "1", "--timeout", str(TIMEOUT_S)])
    code = 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code
    out, err = capfdbinary.readouterr()
    assert code in (0, None, 2) or (code == 1 and b"0 of 1 question answered" in err), err
    assert b"Traceback" not in err and not STEERING.search((out + err).decode())
    for content in (out, err, *(path.read_bytes() for path in tmp_path.iterdir())):
        assert_no_key(content)


def test_the_misbehaviours_are_models(upstream):
    names = {model["id"] for model in httpx.get(f"{upstream}/models", trust_env=False).json()["data"]}
    assert names == {"mock", *(f"hostile/{name}" for name in MISBEHAVIOURS)} and len(MISBEHAVIOURS) >= 100


@contextlib.contextmanager
def serving(*words, **environment):
    """A module that serves, in a process of its own: the process and its URL."""
    command = [sys.executable, "-m", *words, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    try:
        line = next(line for line in process.stderr if "http://" in line)
        yield process, line[line.index("http://") :].split()[0]
    finally:
        process.send_signal(signal.SIGTERM)
        assert_no_key(process.communicate(timeout=30)[1].encode())


@pytest.mark.slow
def test_a_served_gateway_logs_prints_and_stores_no_key(tmp_path):
    store = ["--store", str(tmp_path / "gateway.db"), "--timeout", "1"]
    echoes = [name for name in SMALL if name.startswith("echo_")]
    assert len(echoes) > 20
    with (
        serving("tests.hostile_server") as (_, upstream),
        serving("pets", "serve", "--endpoint", upstream, *store, PETS_UPSTREAM_KEY=KEY) as (_, url),
        httpx.Client(base_url=url.removesuffix("/v1"), timeout=30, trust_env=False) as client,
    ):
        statuses = {ask(client, prefix + name)[0] for name in echoes for prefix in ("hostile/", "pets/hostile/")}
        assert {200, 400, 401, 500} <= statuses
        for path in tmp_path.iterdir():
            assert_no_key(path.read_bytes())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.timeout(600)
def test_what_has_no_end_takes_no_memory_and_others_are_served():
    options = ["--answer", "number", "--timeout", "5"]
    with (
        serving("tests.hostile_server") as (_, upstream),
        serving("pets", "serve", "--endpoint", upstream, *options, PETS_UPSTREAM_KEY=KEY) as (process, url),
        httpx.Client(base_url=url.removesuffix("/v1"), timeout=120, trust_env=False) as client,
    ):
        for name in sorted(BIG):
            for model in (f"pets/hostile/{name}", f"hostile/{name}"):
                ask(client, model, **({"pets": {"max_traces": 4}} if model.startswith("pets/") else {}))
                assert client.get("/healthz").json() == {"status": "ok"}
            peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
            assert int(peak[1]) < MAX_RSS_KB, name
        assert ask(client, "pets/mock", pets={"max_traces": 4})[0] == 200
