"""JSON by what it says, whatever stands around it."""

import json
import unicodedata
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.json import MAX_CALLS, MAX_CHARS, MAX_DEPTH, Json, canonical_json
from pets.answers.number import Number
from pets.answers.text import Text
from pets.engine.question import reading_of
from pets.errors import InputError
from pets.openai.response import ResponseReader
from pets.prompts import Sampling
from pets.testing import check_answer_type

SAMPLES = [
    '{"a": 1, "b": [1.0, 2]}', '{"b":[1,2.0],"a":1e0}', '```json\n{"a": 1, "b": [1, 2]}\n```', "[1, 2]", "3", '"3"',
    "3.0", "null", "true", "Paris", '"Paris"', '{"answer": "Paris"}', '{"answer": {"answer": 3}}', '{"answer": null}',
    '{"answer": "[1, 2]"}', '{"answer": "\\"x\\""}', "", "{", "1e999999999999", "NaN", '"\\ud800"', '{"answer": ""}',
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}'),
        ("1", "1.0"),
        ("100", "1e2"),
        ("-0.0", "0"),
        ("0.1", "1E-1"),
        ("12345678901234567891", "12345678901234567891.0"),
        ('"caf\u00e9"', '"cafe\u0301"'),
        ('"\\u00e9"', '"é"'),
        ('{"é": 1}', '{"e\u0301": 1}'),
        ('"a\nb"', '"a\\nb"'),
        (" [1 , 2] ", "[1,2]"),
    ],
)
def test_one_value_has_one_spelling(first, second):
    assert canonical_json(first) == canonical_json(second) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.10000000000000001"),
        ("1e400", "1e401"),
        ("[1,2]", "[2,1]"),
        ('"3"', "3"),
        ('"a"', '"A"'),
        ("true", "1"),
        ('{"a": null}', "{}"),
    ],
)
def test_what_differs_stays_apart(first, second):
    assert None is not canonical_json(first) != canonical_json(second) is not None


@pytest.mark.parametrize(
    "text", ["", "x", "{", "NaN", "-Infinity", "null", "1e9999999999", "{'a': 1}", "1 2", '{"a":1,}']
)
def test_what_is_no_json_has_no_form(text):
    assert canonical_json(text) is None


def test_size_and_depth_are_bounded():
    assert canonical_json(f'"{"x" * (MAX_CHARS - 2)}"') is not None
    assert canonical_json(f'"{"x" * (MAX_CHARS - 1)}"') is None
    assert canonical_json("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    assert canonical_json("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2)) is None
    assert canonical_json("[" * 50_000 + "]" * 50_000) is None
    assert canonical_json('"' + "\u0301" * 1000 + '"') is None


def test_fields_are_left_out_by_name_and_path():
    text = '{"id": 7, "calls": [{"id": 1, "x": 2}, {"id": 3}], "meta": {"id": 4}}'
    assert canonical_json(text, ["id"]) == '{"calls":[{"id":1,"x":2},{"id":3}],"meta":{"id":4}}'
    assert canonical_json(text, ["id", "calls.id", "meta", "meta.id"]) == '{"calls":[{"x":2},{}]}'
    assert Json(ignore="id meta calls").extract(text) == "{}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_the_form_says_what_the_text_said(value):
    form = canonical_json(json.dumps(value))
    if value is None:
        assert form is None
    else:
        assert form is not None and composed(json.loads(form)) == composed(value) and canonical_json(form) == form


def composed(value):
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [composed(item) for item in value]
    if isinstance(value, float):
        return Fraction(repr(value))
    if isinstance(value, dict):
        return {composed(key): composed(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"a": 1}', '{"a":1}'),
        ('Here it is:\n```json\n{"a": 1}\n```\nTell me if you need more.', '{"a":1}'),
        ('First {"a": 1}, no: {"a": 2}. Done [1].', '{"a":2}'),
        ('```\n{"a": 1}\n```\nNot {"a": 3}.', '{"a":1}'),
        ("The list is [1, 2.0].", "[1,2]"),
        ('Set {x | x > 0}: {"a": "{"} and {', '{"a":"{"}'),
        ('<think>{"a": 1}</think>{"a": 2}', '{"a":2}'),
        ('<think>{"a": 1}', None),
        ("42", "42"),
        ("The answer is 42.", None),
        ('{"a": 1', None),
        ("null", None),
    ],
)
def test_the_last_complete_value_is_found(text, form):
    assert Json().extract(text) == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"why": "x", "answer": 3.0}', "3"),
        ('{"answer": "3"}', "3"),
        ('{"answer": "New  York"}', "New York"),
        ('{"answer": ["b", 1]}', '["b",1]'),
        ('{"answer": 3} and {"other": 4}', "3"),
        ('{"answer": null}', None),
        ('{"other": 3}', None),
        ("3", None),
    ],
)
def test_one_field_is_voted_on(text, form):
    assert Json(field="answer").extract(text) == form


def test_a_path_leads_further_in():
    assert Json(field="result.total").extract('{"result": {"total": 5, "at": 1}}') == "5"
    assert Json(field="result.total").extract('{"result": [5]}') is None


@pytest.mark.parametrize("answer_type", [Json(), Json(field="answer"), Json(field="answer.answer"), Json(ignore="a")])
def test_laws(answer_type):
    check_answer_type(answer_type, SAMPLES)


def test_a_field_that_is_none_is_refused():
    with pytest.raises(InputError, match="a field is a name"):
        Json(field="a..b")


def test_the_instruction_shows_the_field():
    assert Json(field="result.total").instruction == 'End with one line of JSON: {"result": {"total": ...}}'


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
