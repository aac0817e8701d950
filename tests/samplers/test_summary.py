"""Servers that work out the confidence themselves and send a summary."""

import json

import pytest

from pets.confidence import Confidence
from pets.errors import ReplyError
from pets.samplers import Sampling
from pets.samplers.replies import Reply

SUMMARY = {"mean_confidence": 9.0, "tail_2048_mean_conf": 8.0, "bottom_0.1_sliding_2048_mean_conf": 5.0}


def read(*events):
    reply = Reply(1, Sampling(top_logprobs=20))
    for event in events:
        reply.read(json.dumps({"choices": [{"index": 0, **event}], "usage": {"completion_tokens": 70}}))
    return reply.completions()[0]


def test_a_summary_is_taken_from_a_body():
    one = read({"text": "4", "finish_reason": "stop", "logprobs": {"confidence_summary": SUMMARY}})
    assert one.confidence == Confidence(mean=9.0, tail=8.0, lowest=5.0, bottom=5.0, tokens=70)


def test_a_summary_comes_at_the_end_of_a_stream_and_our_names_do_too():
    kinds = {"mean": 4.0, "tail": 3.0, "lowest": 1.0, "bottom": 2.0}
    one = read(
        {"delta": {"content": "4"}, "logprobs": {"content": []}},
        {"delta": {}, "finish_reason": "stop", "logprobs": {"confidence_summary": kinds}},
    )
    assert one.confidence == Confidence(**kinds, tokens=70)


@pytest.mark.parametrize("summary", [{"mean": 1.0}, SUMMARY | {"mean_confidence": -1.0}, SUMMARY | {"tail": "x"}, [1]])
def test_a_summary_that_makes_no_sense_is_a_broken_reply(summary):
    with pytest.raises(ReplyError):
        read({"text": "4", "finish_reason": "stop", "logprobs": {"confidence_summary": summary}})
