"""The application: stopping in good order, models, unknown paths, and what becomes of every request."""

import asyncio
import contextlib
import json
import logging
import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from pets.core.certificate import Decision
from pets.core.tally import Tally
from pets.engine.progress import policy_certificate
from pets.errors import InputError, StateError
from pets.gateway import Settings, build_gateway, ledger_backend, running
from pets.gateway.app import ApiEndpoint
from pets.gateway.requests import CHAT
from pets.mock import DistributionAnswers, MockModel
from pets.mock import running as mock_running
from pets.openai.asgi import ClientGoneError
from pets.openai.errors import ApiError
from pets.policies.price import PriceRule

from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S, wait_until
from .conftest import BOOK, ScriptedSampler, build_scripted, hold_upstream, run_gateway


def listens(url):
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S).close()
    except ConnectionError:
        return False
    return True


def test_open_requests_are_answered_when_it_stops_and_no_new_one_begins(tmp_path):
    body = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}]}
    released = threading.Event()
    with mock_running(MockModel(BOOK)) as upstream, ThreadPoolExecutor(2) as pool:
        settings = Settings.of(policy="online_grid", answer="choice")
        state = build_gateway(upstream, settings=settings, store=tmp_path / "g.db")
        waiting = hold_upstream(state, released)
        with running(state, grace=60) as url, httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
            assert client.get("/readyz").status_code == 200
            first = pool.submit(
                httpx.post, f"{url}/v1/chat/completions", json=body, timeout=PATIENCE_S, trust_env=False
            )
            assert waiting.wait(PATIENCE_S)
            state.stopping = True
            assert client.get("/readyz").json() == {"ledger": True, "queue": True, "running": False}
            late = client.post("/v1/chat/completions", json=body)
            assert late.status_code == 503 and late.json()["error"]["code"] == "stopping"
            stopped = pool.submit(wait_until, lambda: not listens(url))
            stopped.add_done_callback(lambda _: released.set())  # only when it takes no connections any more
        reply = first.result(PATIENCE_S)
        stopped.result(PATIENCE_S)
    assert reply.status_code == 200 and reply.json()["pets"]["answer"] == "A"
    again = build_gateway(
        "http://127.0.0.1:9/v1", Settings.of(policy="online_grid"), store=tmp_path / "g.db"
    )  # the store was released
    assert again.ledger.total.spent == reply.json()["pets"]["traces"]
    asyncio.run(again.close())


def test_unknown_paths_and_methods_are_openai_errors(gateway):
    assert gateway.client.get("/v1/chat/completions").status_code == 405
    assert gateway.client.get("/v2/nothing").json()["error"]["code"] == "unknown_url"


def test_models_are_there_plain_and_voted(openai, gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as sdk:
        assert [model.id for model in sdk.models.list()] == ["pets/mock", "mock"]
        assert sdk.models.retrieve("pets/mock").id == "pets/mock"
        with pytest.raises(openai.NotFoundError):
            sdk.models.retrieve("pets/other")


def test_certificates_go_by_the_policys_belief():
    policy = PriceRule(rounds=2)  # untrained
    with run_gateway(
        MockModel(DistributionAnswers({"clear": {"A": 1.0}}, tokens=8)), policy=policy, mean_budget=8
    ) as gateway:
        about = gateway.ask("clear").json()["pets"]
    tally = Tally((4,), mean_tokens=about["tokens"] / 4)
    assert about["votes"] == {"A": 4} and about["certificate"] == round(policy_certificate(policy, Decision(tally)), 6)


@pytest.mark.parametrize(
    ("policy", "mean_budget", "reason"), [("okg", 8, "not for a stream"), ("online_grid", 3, "warm-up")]
)
def test_policies_and_budgets_that_cannot_serve_are_refused(policy, mean_budget, reason):
    with pytest.raises(InputError, match=reason):
        build_gateway("http://127.0.0.1:9/v1", Settings.of(policy=policy), mean_budget=mean_budget)


def test_a_gateway_needs_a_server():
    with pytest.raises(InputError, match="no address of a server"):
        build_gateway("localhost:8000", Settings.of(policy="online_grid"))
    with pytest.raises(InputError, match="needs a server"):
        build_gateway([], Settings.of(policy="online_grid"))


def served_memory():
    """What this process, in which the gateway runs, has in memory, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


@pytest.mark.slow
def test_two_thousand_silent_connections_and_heads_without_an_end_leave_room_for_others(gateway):
    parts = urlsplit(gateway.url)
    before = served_memory()
    with contextlib.ExitStack() as stack:

        def connect():
            return stack.enter_context(
                contextlib.closing(socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S))
            )

        silent = [connect() for _ in range(2000)]
        for start in (b"GET / HTTP/1.1\r\nx: ", b"GET /"):
            client = connect()
            client.sendall(start)
            with contextlib.suppress(ConnectionError):
                for _ in range(300):
                    client.sendall(b"x" * (1 << 20))
        assert gateway.client.get("/healthz").status_code == 200
        assert gateway.ask("easy").json()["pets"]["answer"] == "A"
        assert served_memory() - before < 250
        assert len(silent) == 2000


def test_forty_pipelines_that_nobody_reads_cost_little_and_hold_up_no_other(gateway):
    parts, before = urlsplit(gateway.url), served_memory()
    request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        pipelines = [
            stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S))
            for _ in range(40)
        ]
        for pipeline in pipelines:
            pipeline.setblocking(False)
        for _ in range(20):
            for pipeline in pipelines:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    pipeline.send(request * 1000)
            assert gateway.client.get("/healthz").status_code == 200
        assert served_memory() - before < 100


def test_a_full_disk_is_a_503_with_a_reason_until_it_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_backend, "RETRY_S", 0.01)
    with run_gateway(store=tmp_path / "g.db", mean_budget=4) as gateway, ThreadPoolExecutor(8) as pool:
        database = gateway.ledger.backend.store.database

        def ask_many(count):
            return list(pool.map(lambda _: gateway.ask("easy"), range(count)))

        (pages,) = database.one("PRAGMA page_count")
        database.one(f"PRAGMA max_page_count = {pages}")
        refused = []
        while not refused:
            refused = [reply for reply in ask_many(64) if reply.status_code != 200]
        assert {reply.status_code for reply in refused} == {503}
        assert "disk is full" in refused[0].json()["error"]["message"]
        ready = gateway.client.get("/readyz")
        assert ready.status_code == 503 and "disk is full" in ready.json()["reason"]
        database.one("PRAGMA max_page_count = 1000000")
        wait_until(lambda: gateway.client.get("/readyz").status_code == 200)
        assert {reply.status_code for reply in ask_many(16)} == {200}
        wait_until(lambda: gateway.ledger.total.held == 0)
        spent, mock = gateway.ledger.total.spent, gateway.mock
        assert gateway.ledger.total.held == 0 and spent == mock.stats.traces
    again = build_gateway("http://127.0.0.1:9/v1", Settings.of(policy="online_grid"), store=tmp_path / "g.db")
    assert again.ledger.total.spent == spent
    asyncio.run(again.close())


def answered(work, caplog):
    """The messages that an endpoint sends whose answer is ``work``, its row in the log, and what the dashboard has."""

    class Worker(ApiEndpoint):
        async def _answer(self, exchange, body, key, attributes):
            await work(exchange, body)

    async def go():
        state, sent = build_scripted(ScriptedSampler()), []

        async def receive():
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message):
            sent.append(message)

        await Worker(state, CHAT)({"type": "http", "headers": []}, receive, send)
        share = state.metrics.share_of("anybody")
        await state.close()
        return sent, share

    caplog.set_level(logging.INFO, "pets.gateway")
    sent, share = run_simulated(go())
    return sent, next(record.fields for record in caplog.records if record.message == "request"), share


def outcomes(share):
    return {name: count for name, count in share.now()["totals"].items() if count}


@pytest.mark.parametrize(
    ("error", "status", "row"),
    [(ApiError("No.", status=418), 418, {"refused": "No."}), (StateError("odd"), 503, {"error": "StateError: odd"})],
)
def test_what_goes_wrong_is_an_openai_error_and_a_row_in_the_log(error, status, row, caplog):
    async def work(exchange, body):
        assert body == b"{}"
        raise error

    (start, body), fields, share = answered(work, caplog)
    assert start["status"] == status == fields["status"] and json.loads(body["body"])["error"]["message"]
    assert fields.items() >= row.items() and fields["key"] == "anybody"
    assert share.errors[0]["status"] == status
    assert "odd" not in share.errors[0]["reason"]  # what only the operator may read is in the log


def test_what_goes_wrong_in_a_stream_is_its_last_event(caplog):
    async def work(exchange, body):
        await exchange.start_events()
        raise ApiError("No.", status=418)

    (*_, last), fields, share = answered(work, caplog)
    assert json.loads(last["body"].removeprefix(b"data: "))["error"]["message"] == "No." and not last["more_body"]
    assert (fields["status"], fields["stream_status"]) == (200, 418)
    assert outcomes(share) == {"refused": 1}


def test_a_client_that_goes_in_the_middle_of_a_stream_was_not_answered(caplog):
    async def work(exchange, body):
        await exchange.start_events()
        raise ClientGoneError

    _, fields, share = answered(work, caplog)
    assert fields["status"] == 200 and fields["gone"]
    assert outcomes(share) == {"gone": 1}
