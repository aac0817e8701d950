"""What every path of the API does, whatever becomes of its request."""

import json
import logging

import pytest

from pets.errors import StateError
from pets.gateway.endpoint import ApiEndpoint
from pets.openai.errors import ApiError

from ..simulated_time import run_simulated
from .conftest import ScriptedSampler, build_scripted


def answered(work, caplog):
    """The messages that an endpoint sends whose answer is ``work``, and its row in the log."""

    class Worker(ApiEndpoint):
        async def _answer(self, exchange, body, key, attributes):
            await work(exchange, body)

    async def go():
        endpoint, sent = Worker(build_scripted(ScriptedSampler())), []

        async def receive():
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message):
            sent.append(message)

        await endpoint({"type": "http", "headers": []}, receive, send)
        return sent

    caplog.set_level(logging.INFO, "pets.gateway")
    return run_simulated(go()), caplog.records[-1].fields


@pytest.mark.parametrize(
    ("error", "status", "row"),
    [(ApiError("No.", status=418), 418, {"refused": "No."}), (StateError("odd"), 503, {"error": "StateError: odd"})],
)
def test_what_goes_wrong_is_an_openai_error_and_a_row_in_the_log(error, status, row, caplog):
    async def work(exchange, body):
        assert body == b"{}"
        raise error

    (start, body), fields = answered(work, caplog)
    assert start["status"] == status == fields["status"] and json.loads(body["body"])["error"]["message"]
    assert fields.items() >= row.items() and fields["key"] == "anybody"


def test_what_goes_wrong_in_a_stream_is_its_last_event(caplog):
    async def work(exchange, body):
        await exchange.start_events()
        raise ApiError("No.", status=418)

    (*_, last), fields = answered(work, caplog)
    assert json.loads(last["body"].removeprefix(b"data: "))["error"]["message"] == "No." and not last["more_body"]
    assert fields["status"] == 200
