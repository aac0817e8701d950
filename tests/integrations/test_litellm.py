"""LiteLLM's provider `pets`, in the real proxy: `make integrations` installs it and runs these."""

import asyncio
import json
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

proxy_server = pytest.importorskip("litellm.proxy.proxy_server", reason="`make integrations` installs LiteLLM's proxy")

from litellm import ModelResponse  # noqa: E402
from litellm.llms.custom_llm import CustomLLMError  # noqa: E402

from pets.integrations.litellm import handler  # noqa: E402
from pets.mock import DistributionAnswers, MockModel, running  # noqa: E402

pytestmark = [pytest.mark.integrations, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]
EXAMPLE = Path(__file__).parents[2] / "examples" / "litellm_vote.py"
REQUESTS = 200


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    """What the example printed: 200 requests at once to a proxy of its own."""
    folder = tmp_path_factory.mktemp("proxy")
    done = subprocess.run([sys.executable, EXAMPLE, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_the_budget_is_kept_over_200_requests_at_once(proxy):
    paid = {name: int(number) for name, number in re.findall(r"^(\w+): (\d+) generations", proxy[1], re.M)}
    assert REQUESTS <= paid["after"] <= 5 * REQUESTS and paid["before"] == 8 * REQUESTS


def test_litellms_log_has_the_spend_that_the_answers_say(proxy):
    ours, theirs = map(float, re.findall(r"\$([\d.]+)", proxy[1].splitlines()[-1]))
    assert ours == theirs > 0


def test_answers_are_right_as_often_as_those_of_8_traces_each(proxy):
    right = {name: int(number) for name, number in re.findall(r"^(\w+): .* (\d+) of 200 right", proxy[1], re.M)}
    assert right["after"] > right["before"] - 2 * (0.25 * REQUESTS) ** 0.5  # two standard errors


def complete(fields, answers, settings=None, stream=False):
    """One request of the handler without a proxy; the mock's statistics and what came."""
    mock = MockModel(DistributionAnswers({"Which number?": answers}))
    params = {"metadata": {"model_info": {"id": str(id(mock)), "pets": settings or {}}}}

    async def run(url):
        body = {"api_base": url, "api_key": "none", **fields}
        request = {"model": "openai/mock", "messages": [{"role": "user", "content": "Which number?"}]}
        request |= {"optional_params": body, "litellm_params": params}
        if stream:
            return [chunk async for chunk in handler.astreaming(**request)]
        response = ModelResponse()
        return await handler.acompletion(**request, model_response=response)

    router, proxy_server.llm_router = proxy_server.llm_router, None
    try:
        with running(mock) as url:
            return mock.stats, asyncio.run(run(url))
    finally:
        proxy_server.llm_router = router


def test_the_vote_is_in_the_message_and_in_the_hidden_params():
    stats, response = complete({}, {"4": 0.9, "5": 0.1}, {"budget": "6x", "answer": "number", "horizon": 1})
    vote = attrgetter("_hidden_params")(response)["pets"]  # LiteLLM's own name of what its callbacks read
    assert response.choices[0].message.provider_specific_fields == {"pets": vote}
    assert vote["answer"] == "4" and sum(vote["votes"].values()) == vote["traces"] == stats.traces <= 6
    assert "4" in response.choices[0].message.content and response.usage.completion_tokens > 0


def test_a_stream_has_the_answer_in_one_chunk():
    _, (chunk,) = complete({}, {"4": 1.0}, {"answer": "number"}, stream=True)
    assert "4" in chunk["text"] and chunk["is_finished"]
    assert json.dumps(chunk["provider_specific_fields"]["pets"]["votes"]).startswith('{"4": ')


@pytest.mark.parametrize("field", [{"tools": [{"type": "function"}]}, {"n": 3}, {"logprobs": True}])
def test_what_a_vote_cannot_honour_is_refused(field):
    with pytest.raises(CustomLLMError, match="ask openai/mock itself") as error:
        complete(field, {"4": 1.0})
    assert error.value.status_code == 400


def test_a_wrong_setting_is_the_operators_mistake():
    with pytest.raises(CustomLLMError, match="is no budget") as error:
        complete({}, {"4": 1.0}, {"budget": "lots"})
    assert error.value.status_code == 500
