"""What every path of the API does, whatever becomes of its request."""

import json
import logging

import pytest

from pets.errors import StateError
from pets.gateway.endpoint import ApiEndpoint
from pets.gateway.requests import CHAT
from pets.openai.asgi import ClientGoneError
from pets.openai.errors import ApiError

from ..simulated_time import run_simulated
from .conftest import ScriptedSampler, build_scripted


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
