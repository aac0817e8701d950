"""The words of a trace: as many tokens as spec, an answer that every answer type reads, cuts that leave none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.choice import Choice
from pets.answers.math import Math
from pets.answers.number import Number
from pets.answers.text import Text
from pets.mock.text import TraceSpec, render

SPECS = st.builds(TraceSpec, st.none() | st.text(min_size=1), st.integers(1, 60))


@given(
    SPECS, st.none() | st.integers(1, 70), st.lists(st.sampled_from(["look", " </think>", "is", "a", "."]), max_size=2)
)
def test_the_pieces_are_the_text_and_as_many_as_the_tokens(spec, limit, stops):
    trace = render(spec, limit, stops)
    assert "".join(trace.pieces()) == trace.text and len(trace.pieces()) == trace.tokens
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
