"""Responses become traces: their tokens, and the confidence of servers that work it out themselves."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.confidence import Confidence
from pets.errors import ReplyError
from pets.openai.response import (
    ALTERNATIVE_TOKENS,
    DONE,
    MAX_CONTAINERS,
    MAX_NUMBERS,
    PARSED_BYTES,
    EventReader,
    ResponseReader,
    UsageReader,
    check_size,
    shares,
)
from pets.samplers import Sampling, Written

SUMMARY = {"mean_confidence": 9.0, "tail_2048_mean_conf": 8.0, "bottom_0.1_sliding_2048_mean_conf": 5.0}


def read(*events):
    reply = ResponseReader(1, Sampling(top_logprobs=20))
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


def tokens(texts, usage, sampling=Sampling(), **settings):  # noqa: B008
    """The tokens of traces with these texts, one per choice."""
    choices = [{"index": i, "finish_reason": "stop", **choice} for i, choice in enumerate(texts)]
    reader = ResponseReader(len(choices), sampling, **settings)
    reader.read(json.dumps({"choices": choices, "usage": usage}))
    return [trace.tokens for trace in reader.completions()]


@given(st.integers(0, 10_000), st.lists(st.integers(0, 500), min_size=1, max_size=9))
def test_shares_add_up_and_none_is_off_by_one_or_more(total, weights):
    parts = shares(total, weights)
    assert sum(parts) == total
    if any(weights):
        assert all(abs(part - total * weight / sum(weights)) < 1 for part, weight in zip(parts, weights, strict=True))


def test_a_usage_of_several_choices_is_shared_out_by_characters():
    assert tokens([{"text": "four"}], {"completion_tokens": 7}) == [7]
    assert tokens([{"text": "xx"}, {"text": "xxxxx"}, {"text": "x"}], {"completion_tokens": 10}) == [3, 6, 1]
    assert tokens([{"text": ""}, {"text": ""}], {"completion_tokens": 3}) == [2, 1]
    assert tokens([{"text": "xx"}, {"text": "x"}], {}) == [None, None]


def test_a_usage_of_nothing_is_no_usage():
    assert tokens([{"text": "four"}], {"completion_tokens": 0}) == [None]
    assert tokens([{"text": "four"}, {"text": ""}], {"completion_tokens": 0, "prompt_tokens": 0}) == [None, None]
    assert tokens([{"text": ""}], {"completion_tokens": 0}) == [0]


@given(st.integers(0, 2**53), st.integers(0, 2**53), st.integers(1, 4), st.integers(1, 4))
def test_no_more_tokens_are_believed_than_the_request_allows(claim, prompt_claim, n, came):
    reader = ResponseReader(n, Sampling(max_tokens=50), prompt_limit=30)
    choices = [{"index": i, "finish_reason": "stop", "text": "x" * 8} for i in range(min(n, came))]
    usage = {"completion_tokens": claim, "prompt_tokens": prompt_claim}
    reader.read(json.dumps({"choices": choices, "usage": usage}))
    traces = reader.completions()
    assert sum(trace.tokens or 0 for trace in traces) <= n * 50
    assert all((trace.prompt_tokens or 0) <= n * 30 for trace in traces)
    if claim <= 50 and prompt_claim <= 30:
        assert not any(trace.claimed_more for trace in traces)
    elif claim > n * 50 or prompt_claim > n * 30:
        assert all(trace.claimed_more for trace in traces)


def test_counted_tokens_are_believed_up_to_the_limit_too():
    reader = ResponseReader(1, Sampling(max_tokens=3))
    reader.read(json.dumps({"choices": [{"finish_reason": "stop", "text": "x", "token_ids": [1] * 9}]}))
    [trace] = reader.completions()
    assert trace.tokens == 3 and trace.claimed_more


def test_a_trace_is_as_large_as_all_that_came():
    message = {"role": "assistant", "content": "4 €", "reasoning": "x" * 100, "tool_calls": [{"arguments": "y" * 50}]}
    reader = ResponseReader(1, Sampling())
    reader.read(json.dumps({"choices": [{"finish_reason": "stop", "message": message}]}))
    [trace] = reader.completions()
    assert trace.tokens is None and 155 <= trace.size <= 200


def test_a_counted_choice_leaves_the_rest_of_the_usage_to_the_others():
    choices = [{"text": "xx", "token_ids": [1, 2, 3]}, {"text": "xxx"}, {"text": "x"}]
    assert tokens(choices, {"completion_tokens": 11}) == [3, 6, 2]


def test_a_usage_that_counts_one_choice_only_is_not_shared_out():
    choices = [{"text": "x" * 40}, {"text": "x" * 40}]
    assert tokens(choices, {"completion_tokens": 10}, usage_of_one=True) == [None, None]
    assert tokens(choices, {"completion_tokens": 9}) == [None, None]  # 80 characters are more than 9 tokens
    assert tokens(choices[:1], {"completion_tokens": 10}, usage_of_one=True) == [10]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"completion_tokens": 80}, 80),
        ({"prompt_tokens": 7, "completion_tokens": 80, "total_tokens": 87}, 80),
        ({"prompt_tokens": 7, "completion_tokens": 10, "total_tokens": 87}, 80),  # hidden reasoning in the total alone
        ({"prompt_tokens": 7, "completion_tokens": 80}, 80),
    ],
)
@pytest.mark.parametrize("logprobs", [None, {"content": [{"token": "4", "top_logprobs": []}] * 3}])
def test_the_tokens_of_all_choices_are_what_the_usage_says(usage, tokens, logprobs):
    reader = ResponseReader(3, Sampling())
    texts = ("4", "four, I think", "")
    choices = [{"index": i, "text": t, "finish_reason": "stop", "logprobs": logprobs} for i, t in enumerate(texts)]
    reader.read(json.dumps({"choices": choices, "usage": usage}))
    counts = [trace.tokens for trace in reader.completions()]
    assert sum(counts) == tokens and all(count >= 0 for count in counts)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * MAX_CONTAINERS,
        b"[" + b"{}," * MAX_CONTAINERS,
        b'{"a":1,' * (MAX_CONTAINERS + 1),
        b'["a",' + b'"b",' * (4 * MAX_CONTAINERS),
        b"[" + b"1," * (MAX_NUMBERS + 1),
        rb'["a\\\\",' + b"[]," * MAX_CONTAINERS,
    ],
)
def test_a_body_with_too_many_parts_is_refused_before_it_is_read(body):
    with pytest.raises(ReplyError, match="objects and lists"):
        check_size(body)


@settings(max_examples=30)
@given(st.recursive(st.text() | st.integers(), lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts)))
def test_a_text_may_say_whatever_it_likes(value):
    check_size(json.dumps(value).encode())
    check_size(json.dumps(["[{," * MAX_CONTAINERS, '"\\"' * MAX_CONTAINERS, value], ensure_ascii=False).encode())


@pytest.mark.parametrize(
    ("details", "cached"),
    [({"cached_tokens": 30}, 30), ({"cached_tokens": 999}, 40), ({"cached_tokens": None}, 0), ({}, 0), (None, 0)],
)
def test_cached_tokens_are_no_more_than_the_prompt_has(details, cached):
    reply, usage = ResponseReader(1, Sampling()), {"prompt_tokens": 40, "completion_tokens": 3}
    choice = {"index": 0, "text": "4", "finish_reason": "stop"}
    reply.read(json.dumps({"choices": [choice], "usage": usage | {"prompt_tokens_details": details}}))
    assert reply.completions()[0].cached_tokens == cached


@pytest.mark.parametrize("told", [True, False])
def test_choices_that_nobody_asked_for_are_paid_for_with_the_first(told):
    reply = ResponseReader(2, Sampling(max_tokens=10))
    choices = [{"index": at, "text": "x" * 30, "finish_reason": "stop"} for at in range(4)]
    reply.read(json.dumps({"choices": choices, "usage": {"completion_tokens": 40} if told else None}))
    first, second = reply.completions()
    assert (first.tokens, second.tokens) == ((30, 10) if told else (None, None)) and first.size == 90
    assert not first.claimed_more and len(reply.completions(surplus=True)) == 4


@pytest.mark.parametrize("details", [{"cached_tokens": -1}, {"cached_tokens": "many"}, [1]])
def test_cached_tokens_that_are_no_number_are_none(details):
    reply, usage = ResponseReader(1, Sampling()), {"prompt_tokens": 40, "completion_tokens": 3}
    choice = {"index": 0, "text": "4", "finish_reason": "stop"}
    reply.read(json.dumps({"choices": [choice], "usage": usage | {"prompt_tokens_details": details}}))
    assert reply.completions()[0].cached_tokens == 0


def test_the_alternatives_of_the_first_tokens_are_kept_in_both_forms():
    content = [{"token": word, "logprob": -0.7, "top_logprobs": [{"token": " B", "logprob": -0.7},
                                                                {"token": " C", "logprob": -0.9}]}
               for word in (" B", ".")]  # fmt: skip
    chat = read({"message": {"content": " B."}, "finish_reason": "stop", "logprobs": {"content": content}})
    assert chat.alternatives[0] == (" B", {" B": -0.7, " C": -0.9})
    assert chat.alternatives[1].logprobs == {" B": -0.7, " C": -0.9, ".": -0.7}  # what was sampled is among them
    logprobs = {"tokens": [" B"], "token_logprobs": [-0.7], "top_logprobs": [{" B": -0.7, " C": -0.9}]}
    completion = read({"text": " B", "finish_reason": "stop", "logprobs": logprobs})
    assert completion.alternatives == chat.alternatives[:1]


def test_a_long_trace_keeps_the_alternatives_of_its_beginning_alone():
    content = [{"token": "x", "logprob": -0.1, "top_logprobs": [{"token": "x", "logprob": -0.1}]}] * 20
    events = [{"delta": {"content": "x" * 20}, "logprobs": {"content": content}} for _ in range(5)]
    trace = read(*events, {"delta": {}, "finish_reason": "stop"})
    assert len(trace.alternatives) == ALTERNATIVE_TOKENS


def event(word, tokens=None, **more):
    usage = {} if tokens is None else {"usage": {"completion_tokens": tokens, "prompt_tokens": 3}}
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": word}, **more}], **usage}).encode()


WORDS = ["It", " is", " 4", " \u2028 ", "[DONE]", " error: none", "."]
STREAM = b"".join(event(word, number) + b"\n\n" for number, word in enumerate(WORDS, 1))
STREAM += event("", len(WORDS), finish_reason="stop") + b"\n\n: a comment\n\ndata: " + DONE + b"\n\n"


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=20), st.booleans())
def test_a_stream_is_read_alike_in_whatever_pieces_it_comes(cuts, raced):
    reader, written = ResponseReader(1, Sampling()), Written() if raced else None
    events, places = EventReader(reader, 10_000, written), [0, *sorted(cuts), len(STREAM)]
    over = [events.add(STREAM[start:end], now=end) for start, end in pairwise(places)]
    (trace,) = reader.completions()
    assert (trace.text, trace.finish, trace.tokens, trace.prompt_tokens) == ("".join(WORDS), "stop", len(WORDS), 3)
    assert over[-1] and events.done
    assert written is None or (written.tokens, written.told, written.prompt_tokens) == (len(WORDS), True, 3)


def test_what_is_written_is_known_from_the_first_token_on_and_whenever_it_is_asked_for():
    written = Written()
    events = EventReader(ResponseReader(1, Sampling()), 10_000, written)
    events.add(b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n', now=1.0)
    assert written.seen and written.begun_at is None
    events.add(event("It", 1) + b"\n\n" + event(" is", 2)[:9], now=2.0)
    events.add(event(" is", 2)[9:] + b"\n\n" + event(" 4", 3) + b"\n", now=5.0)
    events.add(b": still here\n\n", now=9.0)  # which is no token
    events.parse()
    assert (written.tokens, written.told, written.begun_at, written.seen_at) == (3, True, 2.0, 5.0)


@pytest.mark.parametrize("last", [event(" 4", 3)[:-9], b'data: {"error": {"message": "out of memory", "code": 500}}'])
def test_what_came_before_an_event_that_fails_counts_as_written(last):
    written = Written()
    events = EventReader(ResponseReader(1, Sampling()), 10_000, written)
    events.add(event("It", 1) + b"\n", now=1.0)
    events.add(event(" is", 2) + b"\n", now=2.0)
    with pytest.raises(ReplyError):
        events.add(last, now=3.0)
        events.parse(ended=True)
    assert (written.tokens, written.told) == (2, True)


def test_an_error_in_a_stream_is_not_waited_with_and_neither_is_a_full_block():
    events = EventReader(ResponseReader(1, Sampling()), 10_000)
    assert not events.add(event("It") + b"\n\n", now=0.0)
    with pytest.raises(ReplyError, match="out of memory"):
        events.add(b'data: {"error": {"message": "out of memory", "code": 500}}\n\n', now=0.0)
    reader = ResponseReader(1, Sampling())
    events = EventReader(reader, 1 << 20)
    block = event("x" * 1000) + b"\n"
    for _ in range(PARSED_BYTES // len(block)):
        events.add(block, now=0.0)
    assert not reader.usage_of_one  # nothing is parsed yet, and asking harms nothing
    with pytest.raises(ReplyError, match="no choices"):
        reader.completions()
    events.add(block, now=0.0)
    with pytest.raises(ReplyError, match="breaks off"):
        reader.completions()


@pytest.mark.parametrize("part", [b"data: " + b"x" * 200, b"x" * 200, event("It") + b"\n" + b"y" * 200])
def test_a_line_without_an_end_is_refused(part):
    with pytest.raises(ReplyError, match="line of over 150 bytes"):
        EventReader(ResponseReader(1, Sampling()), 150).add(part, now=0.0)


@pytest.mark.parametrize("bad", [b"data: {}", b"data: {", b"data: 1, 2", b"data:", b'data: {"choices": 5}'])
def test_one_event_that_cannot_be_read_fails_the_stream_and_is_quoted(bad):
    events = EventReader(ResponseReader(1, Sampling()), 10_000)
    events.add(event("It") + b"\n" + bad + b"\n" + event(" is") + b"\n", now=0.0)
    with pytest.raises(ReplyError, match=r"has not OpenAI's form|is not JSON") as error:
        events.parse()
    assert bad.removeprefix(b"data:").strip().decode() in str(error.value)


def used(reply, max_tokens=50, **options):
    """The trace that a reply without choices is read as."""
    reader = UsageReader(max_tokens=max_tokens, prompt_limit=9, **options)
    reader.read(json.dumps(reply))
    (trace,) = reader.completions(surplus=True)
    return trace


def output(text):
    return [{"type": "message", "content": [{"type": "output_text", "text": text}]}]


@pytest.mark.parametrize(
    ("usage", "text", "tokens", "prompt_tokens", "claimed_more"),
    [
        ({"input_tokens": 5, "output_tokens": 7}, "It is 4.", 7, 5, False),
        ({"input_tokens": 500, "output_tokens": 7}, "It is 4.", 7, 9, True),
        ({"input_tokens": 5, "output_tokens": 70}, "It is 4.", 50, 5, True),
        ({"input_tokens": 5, "output_tokens": 1}, "It is 4." * 100, None, 5, False),  # it has not counted all
        ({"input_tokens": 5, "output_tokens": 0}, "It is 4.", None, 5, False),
        ({"output_tokens": True, "input_tokens": -5}, "It is 4.", None, None, False),
        ([], "It is 4.", None, None, False),
        (None, "It is 4.", None, None, False),
    ],
)
def test_a_reply_without_choices_is_bounded_as_any_other(usage, text, tokens, prompt_tokens, claimed_more):
    trace = used({"status": "completed", "output": output(text), "usage": usage})
    assert (trace.tokens, trace.prompt_tokens, trace.claimed_more) == (tokens, prompt_tokens, claimed_more)
    assert trace.size == len(text)


def test_an_embedding_says_nothing_and_costs_its_prompt():
    trace = used({"data": [], "usage": {"prompt_tokens": 5, "total_tokens": 5}}, max_tokens=0, speaks=False)
    assert (trace.tokens, trace.prompt_tokens, trace.size) == (0, 5, 0)


def test_the_last_event_of_a_stream_holds_the_reply():
    reader = UsageReader(max_tokens=50, prompt_limit=9, stream=True)
    reply = {"output": output("4"), "usage": {"output_tokens": 7}}
    for event in ("created", "completed"):
        reader.read(json.dumps({"type": f"response.{event}", "response": reply}))
    assert [(trace.tokens, trace.size) for trace in reader.completions()] == [(7, 1)]


@pytest.mark.parametrize("reply", [{}, [], {"status": "in_progress", "output": output("It")}, {"status": "failed"}])
def test_a_reply_without_choices_that_comes_to_no_end_is_broken(reply):
    with pytest.raises(ReplyError):
        used(reply)
