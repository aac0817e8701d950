"""The forms in which a real vLLM sends traces, log-probabilities and refusals, as the sampler reads them.

`tests/samplers/test_vllm.py` holds these forms without a server.
"""

import asyncio

import pytest

from pets.errors import RefusedError
from pets.samplers import Prompt, Sampling
from pets.samplers.openai import OpenAISampler

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

CHAT, TEXT = Prompt.chat("Name a colour."), Prompt("The colours of the rainbow are")
PROMPTS = pytest.mark.parametrize("prompt", [pytest.param(CHAT, id="chat"), pytest.param(TEXT, id="text")])
STREAMS = pytest.mark.parametrize("stream", [pytest.param(False, id="whole"), pytest.param(True, id="stream")])
SHORT = {"max_tokens": 12, "temperature": 0.8, "window": 4}


def sample(vllm, prompt, n, seed=5, stream=False, **sampling):
    async def go():
        async with OpenAISampler(vllm.url, vllm.model, stream=stream, loopback=True) as sampler:
            return await sampler.sample(prompt, n, seed, Sampling(**SHORT | sampling))

    return asyncio.run(go())


@PROMPTS
@STREAMS
@pytest.mark.parametrize("logprobs", [None, 20])
def test_every_choice_of_a_request_tells_its_tokens(vllm, prompt, stream, logprobs):
    with vllm.counting() as work:
        traces = sample(vllm, prompt, 3, stream=stream, top_logprobs=logprobs, stop=(".",))
    assert work["requests"] == 1 and len(traces) == 3
    assert sum(trace.tokens for trace in traces) == work["tokens"]
    assert all(trace.finish == "stop" or (trace.finish, trace.tokens) == ("length", 12) for trace in traces)
    assert all((trace.confidence is not None) == (logprobs is not None) for trace in traces)


@PROMPTS
def test_a_stream_and_a_whole_body_hold_the_same(vllm, prompt):
    whole, streamed = (sample(vllm, prompt, 1, stream=stream, top_logprobs=20)[0] for stream in (False, True))
    assert (whole.text, whole.tokens, whole.prompt_tokens) == (streamed.text, streamed.tokens, streamed.prompt_tokens)
    for kind in ("mean", "tail", "lowest", "bottom"):
        assert getattr(whole.confidence, kind) == pytest.approx(getattr(streamed.confidence, kind), rel=1e-3)


def test_choice_i_is_drawn_with_seed_plus_i(vllm):
    together = [trace.text for trace in sample(vllm, CHAT, 3, seed=5)]
    assert together == [sample(vllm, CHAT, 1, seed=5 + i)[0].text for i in range(3)]
    assert len(set(together)) > 1


def test_a_completion_gives_one_more_log_probability_where_an_unlikely_token_was_drawn_and_a_chat_does_not(vllm):
    fields = {"model": vllm.model, "max_tokens": 24, "temperature": 1.0, "seed": 1}
    body = vllm.http.post("/completions", json=fields | {"prompt": TEXT.content, "logprobs": 2}).json()
    logprobs = body["choices"][0]["logprobs"]
    assert {len(tops) for tops in logprobs["top_logprobs"]} == {2, 3}
    assert all(token in tops for token, tops in zip(logprobs["tokens"], logprobs["top_logprobs"], strict=True))
    messages = {"messages": [{"role": "user", "content": "Name a colour."}]}
    body = vllm.http.post("/chat/completions", json=fields | messages | {"logprobs": True, "top_logprobs": 2}).json()
    tokens = body["choices"][0]["logprobs"]["content"]
    assert {len(token["top_logprobs"]) for token in tokens} == {2}
    assert all(token["token"] in [top["token"] for top in token["top_logprobs"]] for token in tokens)


@STREAMS
@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"top_logprobs": 21}, "max allowed: 20"),  # said inside a stream that had begun well
        ({"max_tokens": 4000}, "max_model_len=2048"),
        ({"temperature": 0.0}, "n must be 1 when using greedy sampling"),
    ],
)
def test_refusals(vllm, stream, sampling, words):
    with pytest.raises(RefusedError, match=words) as caught:
        sample(vllm, CHAT, 2, stream=stream, **sampling)
    assert caught.value.status == 400


def test_an_unknown_model_and_a_wrong_address(vllm):
    async def go(url, model):
        async with OpenAISampler(url, model, loopback=True) as sampler:
            await sampler.sample(TEXT, 1, 0, Sampling(**SHORT))

    with pytest.raises(RefusedError, match="404: The model `large` does not exist"):
        asyncio.run(go(vllm.url, "large"))
    with pytest.raises(RefusedError, match=r"404: Not Found .*usually ends in /v1"):
        asyncio.run(go(vllm.url.removesuffix("/v1"), vllm.model))
