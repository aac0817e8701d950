"""The words of a trace: as many tokens as spec, an answer that every answer type reads, cuts that leave none."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.choice import Choice
from pets.answers.math import Math
from pets.answers.number import Number
from pets.answers.text import Text
from pets.confidence import measure
from pets.mock.traces import TraceSpec, chat_content, completion_form, completion_logprobs, render, top_logprobs

SPECS = st.builds(TraceSpec, st.none() | st.text(min_size=1), st.integers(1, 60))


@given(
    SPECS, st.none() | st.integers(1, 70), st.lists(st.sampled_from(["look", " </think>", "is", "a", "."]), max_size=2)
)
def test_a_trace_ends_at_its_limit_and_before_its_stops(spec, limit, stops):
    trace = render(spec, limit, stops)
    assert trace.tokens <= min(spec.tokens, limit or spec.tokens)
    assert not any(stop in trace.text for stop in stops)


@given(SPECS)
def test_without_limits_a_trace_has_its_tokens(spec):
    trace = render(spec)
    assert trace.tokens == spec.tokens
    assert trace.finish == ("length" if spec.answer is None else "stop")


@pytest.mark.parametrize("tokens", [1, 2, 3, 19, 500])
@pytest.mark.parametrize(
    ("kind", "answer", "read"),
    [
        (Choice(), "C", "C"),
        (Choice(), r"\text{(C)}", "C"),
        (Number(), "-1,234", "-1234"),
        (Math(), r"\frac{\pi}{2}", r"\frac{\pi}{2}"),
        (Math(), "(3,4]", "(3,4]"),
        (Text(), "05/01/2021", "5/1/2021"),
        (Text(), "a {b", "{b"),
        (Text(), "}{", "}{"),
    ],
)
def test_answer_types_read_the_answer(kind, answer, read, tokens):
    assert kind.extract(render(TraceSpec(answer, tokens)).text) == read


@pytest.mark.parametrize("kind", [Choice(), Number(), Math(), Text()])
@pytest.mark.parametrize("tokens", [1, 2, 30])
def test_no_answer_type_finds_one_in_a_trace_that_has_none_or_was_cut(kind, tokens):
    assert kind.extract(render(TraceSpec(None, tokens)).text) is None
    cut = render(TraceSpec("C", tokens + 1), limit=tokens)
    assert cut.finish == "length" and kind.extract(cut.text) is None


def test_the_token_that_a_stop_begins_in_was_made_and_is_cut():
    trace = render(TraceSpec("7", 10), stops=["ok again"])
    assert (trace.text, trace.tokens, trace.finish) == ("<think> so we lo", 4, "stop")


def test_a_stop_beyond_the_limit_stops_nothing():
    assert render(TraceSpec("7", 10), limit=3, stops=["again"]).finish == "length"


def test_a_trace_is_one_line_so_that_a_line_break_stops_nothing():
    assert render(TraceSpec("7", 40), stops=["\n"]).finish == "stop" and "\n" not in render(TraceSpec("7", 40)).text


@given(st.floats(0.0, 60.0), st.integers(1, 20))
def test_their_mean_is_the_confidence(confidence, k):
    values = top_logprobs(confidence, k)
    assert len(values) == k and list(values) == sorted(values, reverse=True) and max(values) <= 0
    assert -sum(values) / k == pytest.approx(confidence, abs=1e-5)


@given(st.floats(math.log(20) + 1e-6, 60.0))
def test_they_are_probabilities_wherever_that_can_be(confidence):
    assert math.fsum(map(math.exp, top_logprobs(confidence, 20))) <= 1 + 1e-4


@pytest.mark.parametrize("k", [1, 5, 20])
def test_both_forms_hold_the_recorded_confidence(k):
    spec = TraceSpec("A", 30, confidence=11.25)
    pieces = render(spec).pieces
    content = [json.loads(entry) for entry in chat_content(spec, pieces, k)]
    plain = json.loads(completion_form(pieces, completion_logprobs(spec, pieces, k)))
    assert [entry["token"] for entry in content] == plain["tokens"] == list(pieces)
    for entry, tops, sampled in zip(content, plain["top_logprobs"], plain["token_logprobs"], strict=True):
        assert {top["token"]: top["logprob"] for top in entry["top_logprobs"]} == tops
        assert len(tops) == k and tops[entry["token"]] == sampled == entry["logprob"]
        assert sampled == max(tops.values())
        assert bytes(entry["bytes"]).decode() == entry["token"]
    result = measure((tops.values() for tops in plain["top_logprobs"]), window=8, top=k)
    assert (result.mean, result.tail, result.lowest, result.bottom) == pytest.approx((11.25,) * 4, abs=1e-5)


def test_a_confidence_that_was_not_recorded_rises_and_falls():
    spec = TraceSpec("A", 100, mood=0.5)
    pieces = render(spec).pieces
    entries = (json.loads(tops) for _, tops in completion_logprobs(spec, pieces, 20))
    result = measure((tops.values() for tops in entries), window=8)
    assert 8 < result.lowest < result.bottom + 1e-9 < result.mean < 16 and result.tail != result.mean


def test_offsets_are_where_the_tokens_start():
    pieces = render(TraceSpec("A", 9)).pieces
    form = json.loads(completion_form(pieces, completion_logprobs(TraceSpec("A", 9), pieces, 0), offset=4))
    assert [("____" + "".join(pieces)).index(piece, at) for piece, at in zip(pieces, form["text_offset"], strict=True)]
    assert form["text_offset"][:3] == [4, 11, 14] and all(len(tops) == 1 for tops in form["top_logprobs"])


def test_without_top_the_chat_form_has_an_empty_list():
    entries = [json.loads(entry) for entry in chat_content(TraceSpec("A", 2), ["x", "y"], 0)]
    assert [entry["top_logprobs"] for entry in entries] == [[], []] and all(entry["logprob"] <= 0 for entry in entries)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_a_trace_that_is_its_answer_alone_shows_the_chances_of_the_others(k):
    spec = TraceSpec("B", 1, shares=(("A", 0.5), ("B", 0.3), ("C", 0.2), ("D", 0.0)))
    pieces = render(spec).pieces
    [entry] = [json.loads(entry) for entry in chat_content(spec, pieces, k)]
    chances = {top["token"]: math.exp(top["logprob"]) for top in entry["top_logprobs"]}
    assert entry["token"] == pieces[0] and chances[pieces[0]] == pytest.approx(0.3, abs=1e-5)
    assert len(chances) == min(3, k + 1) and sum(chances.values()) <= 1 + 1e-5
    [(sampled, mapping)] = completion_logprobs(spec, pieces, k)
    assert float(sampled) == entry["logprob"] and set(json.loads(mapping)) == set(chances)
