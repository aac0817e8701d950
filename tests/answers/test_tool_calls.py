"""What a trace calls is its answer, whether its reply came whole or in parts."""

import json

import pytest

from pets.answers.json import Json
from pets.answers.number import Number
from pets.answers.text import Text
from pets.answers.tool_calls import MAX_CALLS, reading_of
from pets.openai.response import ResponseReader
from pets.prompts import Sampling


def replied(message, finish="tool_calls"):
    reader = ResponseReader(1, Sampling())
    reader.read(json.dumps({"choices": [{"message": message, "finish_reason": finish}]}))
    (trace,) = reader.completions()
    return trace


def form(answer_type, trace):
    reading = reading_of(answer_type, trace.text, trace.finish)
    return None if reading is None else reading.form


def called(*functions, text=""):
    calls = [function if isinstance(function, str) else {"id": "1", "function": function} for function in functions]
    return replied({"content": text, "tool_calls": calls})


def call(name, arguments="{}"):
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (called(call("b", '{"x": 1.0}'), call("a", '{ "y":"é" }')), 'call a({"y":"é"}), b({"x":1})'),
        (called(call("a"), text="I look\nfor it."), "call a({})"),
        (called(call("a", "")), "call a({})"),
        (called(call("a", {"x": 1})), 'call a({"x":1})'),
        (called(call("a", None)), "call a({})"),
        (called(call("a", "no JSON")), None),
        (called(call("a"), call("b", "{")), None),
        (called("a text"), None),
        (called(call("")), None),
        (called(*[call("a")] * (MAX_CALLS + 1)), None),
        (called(call("a", '"' + "x" * 200_000 + '"')), None),
        (replied({"content": "Paris"}, "stop"), "paris"),
        (replied({"content": "Paris", "tool_calls": []}, "stop"), "paris"),
        (replied({"content": None, "tool_calls": [{"function": call("a")}]}, "stop"), "call a({})"),
        (replied({"content": "Paris", "tool_calls": [{"function": call("a")}]}, "length"), None),
        (replied({"content": "Paris"}), None),
        (replied({"tool_calls": "odd"}), None),
    ],
)
def test_every_message_has_its_form(trace, expected):
    assert form(Text(), trace) == expected


def test_chunks_of_a_stream_are_the_calls_of_a_whole_reply():
    reader = ResponseReader(1, Sampling())
    functions = [(0, call("a", '{"x"')), (1, call("b", "")), (0, {"arguments": ": 1}"})]
    for index, function in functions:
        calls = [{"index": index, "function": function}]
        reader.read(json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}))
    reader.read(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}))
    (trace,) = reader.completions()
    assert form(Text(), trace) == 'call a({"x":1}), b({})'


def test_a_json_answer_ignores_fields_of_arguments():
    trace = called(call("a", '{"x": 1, "why": "so"}'))
    assert form(Json(ignore="why"), trace) == 'call a({"x":1})'


def test_calls_are_no_numbers():
    classes = Number().classes()
    assert classes.add("call a({})") == classes.add('call a({"x":1})') == classes.add("7") == []
