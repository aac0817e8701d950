"""Responses to voted requests: whole, in events, and what PETS says in them."""

import json
import math
from dataclasses import replace

from ..simulated_time import run_simulated
from .conftest import ScriptedSampler, ask_in_process, build_scripted


def events(gateway, question="torn", **fields):
    """The response's events, decoded; the last one is [DONE]."""
    text = gateway.ask(question, stream=True, **fields).text
    *data, done = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert done == "[DONE]"
    return [json.loads(event) for event in data]


def test_the_best_traces_choice_comes_as_the_server_gave_it(gateway):
    body = gateway.ask("torn").json()
    (choice,) = body["choices"]
    assert f"\\boxed{{{body['pets']['answer']}}}" in choice["message"]["content"]
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    assert body["object"] == "chat.completion" and body["model"] == "pets/mock"


def test_events_hold_the_same_as_one_body(gateway):
    chunks = events(gateway, seed=1, stream_options={"include_usage": True})
    whole = gateway.ask("torn", seed=1, pets={"max_traces": chunks[-2]["pets"]["traces"]}).json()
    text = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    assert text == whole["choices"][0]["message"]["content"]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop" and chunks[-2]["pets"]["votes"] == whole["pets"]["votes"]
    assert chunks[-1]["usage"] == whole["usage"] and chunks[-1]["choices"] == []


def test_usage_comes_in_events_only_where_it_was_asked_for(gateway):
    assert all("usage" not in chunk for chunk in events(gateway))


def test_log_probabilities_come_only_where_they_were_asked_for(gateway):
    weighted = {"weighted": True}
    assert gateway.ask("torn", pets=weighted).json()["choices"][0]["logprobs"] is None
    assert gateway.ask("torn", pets=weighted, logprobs=True).json()["choices"][0]["logprobs"]["content"]


class NoNumbers(ScriptedSampler):
    """Log-probabilities that are no numbers."""

    async def sample(self, prompt, n, seed, sampling):
        logprobs = {"content": [{"logprob": math.nan, "bytes": (math.inf, 1.5)}]}
        completions = await super().sample(prompt, n, seed, sampling)
        return [replace(completion, raw={**completion.raw, "logprobs": logprobs}) for completion in completions]


def test_what_json_has_no_word_for_is_null():
    async def work():
        state = build_scripted(NoNumbers())
        replies = [await ask_in_process(state, logprobs=True, stream=stream) for stream in (False, True)]
        await state.close()
        return replies

    whole, streamed = run_simulated(work())
    assert whole.json()["choices"][0]["logprobs"] == {"content": [{"logprob": None, "bytes": [None, 1.5]}]}
    assert streamed.status_code == 200 and "NaN" not in streamed.text and "Infinity" not in streamed.text


def test_traces_that_are_all_cut_are_told_and_no_more_are_bought(gateway):
    about = gateway.ask("torn", max_tokens=2).json()["pets"]
    assert about["stopped"] == "cut" and about["traces"] == about["cut"] == 4 and about["answer"] is None
    assert about["remark"] == "4 of 4 traces (100 %) cast no vote: cut at 2 tokens; raise max_tokens."
    assert gateway.ask("clear").json()["pets"]["remark"] is None
