"""The OpenAI Python SDK, unmodified, against the gateway."""

import threading

import openai
import pytest

from pets.gateway import Settings

from ..waiting import PATIENCE_S
from .conftest import add_key, hold_upstream, run_gateway

EASY = [{"role": "user", "content": "Question easy"}]
TORN = [{"role": "user", "content": "Question torn"}]


@pytest.fixture
def sdk(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_a_voted_answer(sdk, gateway):
    reply = sdk.chat.completions.create(model="pets/mock", messages=TORN, extra_body={"pets": {"answer": "choice"}})
    about = reply.pets
    assert about["answer"] in ("A", "B") and sum(about["votes"].values()) == about["traces"] > 4
    assert f"\\boxed{{{about['answer']}}}" in reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop" and reply.model == "pets/mock"
    assert 0.3 < about["certificate"] < 1 and about["grid"] in {"4", "3-1", "2-2", "2-1-1"}
    assert reply.usage.completion_tokens == gateway.mock.stats.completion_tokens
    assert reply.usage.total_tokens == reply.usage.completion_tokens + reply.usage.prompt_tokens
    assert gateway.mock.stats.traces == about["traces"] == gateway.ledger.total.spent


def test_a_streamed_voted_answer_with_usage(sdk):
    text, last, usage = "", None, None
    with sdk.chat.completions.create(
        model="pets/mock", messages=TORN, stream=True, stream_options={"include_usage": True}
    ) as stream:
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                if choice.finish_reason:
                    last = chunk
    assert last.choices[0].finish_reason == "stop" and last.pets["answer"] in text
    assert usage.completion_tokens > 0


def test_a_slow_streamed_vote_sends_signs_of_life():
    released = threading.Event()
    with run_gateway(settings=Settings(answer="choice", keepalive=0.02)) as gateway:
        hold_upstream(gateway.state, released)
        body = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}], "stream": True}
        with gateway.client.stream("POST", "/v1/chat/completions", json=body, timeout=PATIENCE_S) as reply:
            lines = reply.iter_lines()
            for _ in range(3):
                assert (next(lines), next(lines)) == (": voting", "")
            released.set()
            assert [line for line in lines if line.startswith("data")][-1] == "data: [DONE]"
        with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:  # it reads past them
            chunks = list(client.chat.completions.create(model="pets/mock", messages=EASY, stream=True))
        assert chunks[-1].pets["answer"] == "A"


def test_a_plain_model_passes_through(sdk, gateway):
    reply = sdk.chat.completions.create(model="mock", messages=TORN, n=3, seed=1)
    assert len(reply.choices) == 3 and reply.model == "mock" and not hasattr(reply, "pets")
    assert gateway.ledger.total.spent == 0 and gateway.mock.stats.traces == 3
    chunks = list(sdk.chat.completions.create(model="mock", messages=TORN, stream=True))
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_errors_are_openai_errors(sdk, tmp_path):
    with pytest.raises(openai.NotFoundError):
        sdk.chat.completions.create(model="pets/other", messages=TORN)
    with pytest.raises(openai.BadRequestError, match="max_traces") as error:
        sdk.chat.completions.create(model="pets/mock", messages=TORN, extra_body={"pets": {"max_traces": -1}})
    assert error.value.param == "pets.max_traces" and error.value.type == "invalid_request_error"
    add_key(tmp_path / "g.db", "alice")
    with (
        run_gateway(store=tmp_path / "g.db") as gateway,
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="pets-guess") as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()


def test_a_used_up_budget_is_a_rate_limit_error():
    with run_gateway(total=5) as gateway, openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="x") as client:
        first = client.chat.completions.create(model="pets/mock", messages=TORN)
        assert first.pets["traces"] <= 5
        with pytest.raises(openai.RateLimitError) as error:
            client.chat.completions.create(model="pets/mock", messages=TORN)
        assert error.value.code == "insufficient_quota" and int(error.value.response.headers["retry-after"]) >= 1
        assert gateway.ledger.total.spent <= 5


def test_a_used_up_budget_may_fall_back_to_one_trace():
    settings = Settings(answer="choice", exhausted="single")
    with run_gateway(total=0, settings=settings) as gateway:
        about = gateway.ask("torn").json()["pets"]
        assert about["stopped"] == "fallback" and about["traces"] == 1 and gateway.ledger.total.spent == 0
