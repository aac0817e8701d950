"""vLLM's own ways, in bodies of the form that its server (0.32) sends."""

import asyncio
import json

import httpx
import pytest

from pets.confidence import FLOOR
from pets.errors import BusyError, RefusedError, ReplyError
from pets.mock import DistributionAnswers, Faults, MockModel, running
from pets.samplers import Prompt, Sampling
from pets.samplers.openai import OpenAISampler

from ..network import answered_by
from ..other_hosts import ReasoningParserMock

CHAT, TEXT = Prompt.chat("2 + 2?"), Prompt("2 + 2 =")
PLAIN, TOPS = Sampling(), Sampling(top_logprobs=2)
HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m", "system_fingerprint": None}


def sample(handler, prompt=CHAT, n=1, sampling=PLAIN, **settings):
    async def go():
        async with OpenAISampler("http://server/v1", "m", **settings) as sampler:
            return await sampler.sample(prompt, n, 5, sampling)

    with answered_by(handler):
        return asyncio.run(go())


def whole(*choices, **usage):
    body = HEAD | {"object": "chat.completion", "choices": choices, "usage": usage, "prompt_logprobs": None}
    return lambda _: httpx.Response(200, json=body)


def events(*parts):
    lines = ": keep-alive\n\n" + "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
    return lambda _: httpx.Response(200, text=lines)


def said(index, content, reasoning=None, finish="stop", **more):
    message = {"role": "assistant", "content": content, "refusal": None, "function_call": None, "reasoning": reasoning}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": finish, "stop_reason": None, **more}


def chunk(index, delta, finish=None, **more):
    return HEAD | {"choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish, **more}]}


def error(code, message="the words", kind="BadRequestError"):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def test_thoughts_apart_are_not_the_text():
    [trace] = sample(whole(said(0, "It is 4.", "2, 3, 4: so \\boxed{5}? no"), completion_tokens=12))
    assert (trace.text, trace.tokens) == ("It is 4.", 12)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("content", [None, "", "\n\n"])
def test_a_trace_of_nothing_but_thoughts_is_its_thoughts(name, content):
    one = said(0, content)
    del one["message"]["reasoning"]
    one["message"][name] = "It is 4."
    assert sample(whole(one))[0].text == "It is 4."
    parts = [chunk(0, {"role": "assistant", "content": ""}), chunk(0, {name: "It "}), chunk(0, {name: "is 4."}, "stop")]
    assert sample(events(*parts), stream=True)[0].text == "It is 4."


def test_thoughts_that_were_cut_stay_cut():
    [trace] = sample(whole(said(0, None, "2, 3, so \\boxed{5}, or", "length")))
    assert trace.finish == "length"  # and so casts no vote


def test_a_stream_of_several_choices_tells_the_tokens_of_each():
    def handler(request):
        asked = json.loads(request.content)
        assert asked["return_token_ids"] is True and asked["stream_options"] == {"include_usage": True}
        return events(
            chunk(0, {"role": "assistant", "content": ""}) | {"prompt_token_ids": [7, 7]},
            chunk(1, {"role": "assistant", "content": ""}) | {"prompt_token_ids": [7, 7]},
            chunk(1, {"reasoning": "hm"}, token_ids=[1, 2]),
            chunk(0, {"content": "4"}, token_ids=[3]),
            chunk(1, {"reasoning": " so", "content": " five"}, token_ids=[4, 5, 6]),
            chunk(0, {}, "stop", token_ids=[7], stop_reason=None),
            chunk(1, {"content": "."}, "stop", token_ids=[8], stop_reason=None),
            HEAD | {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 8, "total_tokens": 10}},
        )(request)

    traces = sample(handler, n=2, stream=True)
    assert [(one.text, one.tokens, one.prompt_tokens) for one in traces] == [("4", 2, 2), (" five.", 6, 2)]


def test_token_ids_are_asked_for_only_where_nothing_else_tells():
    def asked(**settings):
        seen = []

        def handler(request):
            seen.append(json.loads(request.content))
            return whole(said(0, "4"))(request)

        sample(handler, **settings)
        return "return_token_ids" in seen[0]

    assert asked(n=2)
    assert not asked(n=1) and not asked(n=2, sampling=TOPS) and not asked(n=2, dialect="openai")


def test_thoughts_apart_are_counted_where_the_usage_is_a_sum():
    both = [said(0, "4", "x" * 396), said(1, "5", "x" * 1196)]
    assert [one.tokens for one in sample(whole(*both, completion_tokens=800), n=2)] == [199, 601]
    # A server that counts the first choice alone: the tokens are not told, the size of all that came is.
    traces = sample(whole(*both, completion_tokens=100), n=2)
    assert [(trace.tokens, trace.size) for trace in traces] == [(None, 397), (None, 1197)]


@pytest.mark.parametrize("old", [False, True])
def test_what_is_refused_after_a_stream_has_begun_is_refused(old):
    refusal = {"object": "error", **error(400)["error"]} if old else error(400)
    with pytest.raises(RefusedError, match="says 400: the words") as caught:
        sample(events(refusal), stream=True)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "parts",
    [
        [error(500, kind="InternalServerError")],
        [error(429)],
        [error("overloaded")],
        [{"error": "the words"}],
        [chunk(0, {"content": "4"}), error(400)],  # it has worked, and will be paid
    ],
)
def test_what_breaks_in_a_stream_may_be_tried_again(parts):
    with pytest.raises(ReplyError, match="broke off: the words"):
        sample(events(*parts), stream=True)


@pytest.mark.parametrize("finish", ["abort", "error"])
def test_a_trace_that_the_server_gave_up_is_no_trace(finish):
    with pytest.raises(ReplyError, match=f'given up by the server .*"{finish}"'):
        sample(whole(said(0, "It is", finish=finish)))


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"error": "Unauthorized"}, "says 401: Unauthorized. No key was sent: set OPENAI_API_KEY"),
        (404, error(404, "The model `x` does not exist. Valid aliases: y."), r"404: The model `x` .* aliases: y\.$"),
        (404, error(404, "Not Found"), r"404: Not Found \(is the address right\? It usually ends in /v1\)"),
        (404, {"detail": "Not Found"}, r"404: Not Found \(is the address right"),
        (400, {"object": "error", "message": "max_tokens is too large", "code": 400}, "400: max_tokens is too large$"),
    ],
)
def test_refusals_in_every_form_that_vllm_has_had(status, body, words):
    with pytest.raises(RefusedError, match=words):
        sample(lambda _: httpx.Response(status, json=body))


def test_a_full_queue_may_pass():
    with pytest.raises(BusyError, match="503"):
        sample(lambda _: httpx.Response(503, json=error(503, kind="ServiceUnavailableError")))


def test_the_sampled_token_beside_the_top_ones_and_impossible_tokens():
    logprobs = {"tokens": ["4"], "token_logprobs": [-8.0], "text_offset": [0]}
    logprobs["top_logprobs"] = [{"4": -8.0, "5": -0.5, "6": -9999.0}]
    one = {"index": 0, "text": "4", "logprobs": logprobs, "finish_reason": "stop"}
    [trace] = sample(whole(one), TEXT, sampling=TOPS)
    assert trace.confidence.mean == pytest.approx(4.25)  # the k largest
    logprobs["top_logprobs"] = [{"5": -0.5, "6": -9999.0}]
    [trace] = sample(whole(one), TEXT, sampling=TOPS)
    assert trace.confidence.mean == pytest.approx((0.5 - FLOOR) / 2)


def test_a_token_without_log_probabilities_is_counted_and_ends_the_confidence():
    known = {"token": "4", "logprob": -1.0, "top_logprobs": [{"token": "4", "logprob": -1.0}]}
    parts = [
        chunk(0, {"content": "4"}, logprobs={"content": [known]}),
        chunk(0, {}, "stop", logprobs={"content": [{"token": "", "bytes": []}]}),
    ]
    [trace] = sample(events(*parts), sampling=TOPS, stream=True)
    assert (trace.tokens, trace.confidence) == (2, None)


def of_the_mock(kind=MockModel, faults=None, n=2, stream=False, **settings):
    async def go(url):
        async with OpenAISampler(url, "mock", stream=stream, loopback=True) as sampler:
            return await sampler.sample(Prompt.chat("Capital?"), n, 3, Sampling(**settings))

    with running(kind(DistributionAnswers({"Capital?": {"Paris": 1.0}}, tokens=12), faults=faults)) as url:
        return asyncio.run(go(url))


@pytest.mark.parametrize("stream", [False, True])
def test_a_mock_that_parts_thoughts_and_tells_token_ids(stream):
    apart, together = (of_the_mock(kind, stream=stream) for kind in (ReasoningParserMock, MockModel))
    assert [one.text for one in apart] == [" The answer is \\boxed{Paris}."] * 2
    assert all(one.text.startswith("<think> so we") for one in together)
    assert [one.tokens for one in apart] == [one.tokens for one in together] and all(one.tokens for one in apart)
    cut = of_the_mock(ReasoningParserMock, stream=stream, max_tokens=4)
    assert [(one.text, one.finish, one.tokens) for one in cut] == [(" so we look", "length", 4)] * 2


@pytest.mark.parametrize(("stream", "kind"), [(False, BusyError), (True, ReplyError)])
def test_a_mock_that_breaks_off_with_an_error(stream, kind):
    with pytest.raises(kind, match="on purpose"):
        of_the_mock(faults=Faults(error_event=1), stream=stream)
