"""Hostile requests get a 4xx and cost nothing."""

import json
import re
import socket
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.base import AnswerType
from pets.answers.number import Number
from pets.gateway import Limits, Settings
from pets.gateway.requests import CHAT, parse_request
from pets.openai.errors import ApiError

from .conftest import run_gateway

USER = [{"role": "user", "content": "easy"}]
DEEP = b'{"model": "pets/mock", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def voted(**fields):
    return json.dumps({"model": "pets/mock", "messages": USER, **fields}).encode()


BAD = {
    "not json": (b"{", 400),
    "not an object": (b"[1]", 400),
    "bad utf-8": (b'{"model": "pets/mock", "messages": [{"role": "user", "content": "\xff"}]}', 400),
    "deep": (DEEP, 400),
    "huge number": (b'{"model": "pets/mock", "n": ' + b"9" * 5000 + b"}", 400),
    "not a number": (b'{"model": "pets/mock", "temperature": NaN}', 400),
    "no model": (json.dumps({"messages": USER}).encode(), 400),
    "a model of another type": (json.dumps({"model": ["pets/mock"], "messages": USER}).encode(), 400),
    "no messages": (json.dumps({"model": "pets/mock"}).encode(), 400),
    "messages of another type": (voted(messages=["hello"]), 400),
    "too many messages": (voted(messages=USER * 5000), 400),
    "too many tokens": (voted(max_tokens=10**9), 400),
    "negative tokens": (voted(max_tokens=-5), 400),
    "choices": (voted(n=3), 400),
    "plain, too many choices": (json.dumps({"model": "mock", "messages": USER, "n": 10**6}).encode(), 400),
    "negative traces": (voted(pets={"max_traces": -3}), 400),
    "huge traces": (voted(pets={"max_traces": 10**9}), 400),
    "true is no number": (voted(pets={"max_traces": True}), 400),
    "negative time": (voted(pets={"timeout": -1}), 400),
    "endless time": (b'{"model": "pets/mock", "messages": [{"role": "user"}], "pets": {"timeout": 1e999}}', 400),
    "an answer type that is none": (voted(pets={"answer": "../../etc/passwd"}), 400),
    "comparisons that take an hour": (voted(pets={"answer": "math:seconds=3600"}), 400),
    "an option that is none": (voted(pets={"budget": 10**9}), 400),
    "pets of another type": (voted(pets="all"), 400),
    "functions": (voted(functions=[{"name": "weather"}]), 400),
    "a vote of no model": (voted(model="pets/"), 400),
    "an unknown field": (voted(frobnicate=1), 400),
    "another price": (voted(service_tier="priority"), 400),
    "too large": (voted(user="x" * (1 << 20)), 413),
}


COSTLY = ["best_of", "n_predict", "service_tier", "web_search_options", "prediction", "use_beam_search"]


def request_of(**fields):
    return parse_request(CHAT, voted(**fields), {}, Settings())


def test_one_limit_is_sent_the_smallest_and_by_the_clients_name():
    limits = [
        ({}, None, {}),
        ({}, 500, {"max_tokens": 500}),
        ({"max_tokens": 90}, 90, {"max_tokens": 90}),
        ({"max_completion_tokens": 90}, 90, {"max_completion_tokens": 90}),
        ({"max_completion_tokens": 1, "max_tokens": 32_768}, 1, {"max_tokens": 1}),
        ({"max_completion_tokens": 70, "max_tokens": None}, 70, {"max_completion_tokens": 70}),
    ]
    for fields, limit, sent in limits:
        request = request_of(**fields)
        assert request.max_tokens in (limit, None)
        body = request.sent_fields(limit)
        assert {name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body} == sent


@given(st.dictionaries(st.sampled_from(["max_tokens", "max_completion_tokens"]), st.integers(1, 32_768) | st.none()))
def test_never_more_is_sent_than_the_smallest_that_the_client_wrote(limits):
    request = request_of(**limits)
    smallest = min((limit for limit in limits.values() if limit), default=None)
    assert request.max_tokens == smallest
    body = request.sent_fields(smallest or 777)
    assert [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body] == [smallest or 777]


@pytest.mark.parametrize("name", COSTLY)
def test_what_makes_a_trace_dearer_is_never_sent(name):
    with pytest.raises(ApiError) as error:
        request_of(**{name: 1}).check_cost(restricted=False, priced=False)
    assert error.value.status == 400 and error.value.param == name


def test_an_unknown_field_is_sent_only_where_no_budget_is_to_hold():
    request = request_of(frobnicate=3, min_p=0.1, response_format={"type": "json_object"})
    request.check_cost(restricted=False, priced=False)
    assert request.sent_fields(None)["frobnicate"] == 3
    with pytest.raises(ApiError, match="frobnicate") as error:
        request.check_cost(restricted=True, priced=False)
    assert error.value.param == "frobnicate"
    known = request_of(min_p=0.1, stop=["x"], chat_template_kwargs={"enable_thinking": False}, seed=3, stream=True)
    known.check_cost(restricted=True, priced=True)
    assert known.sent_fields(None).keys() == {"model", "messages", "min_p", "stop", "chat_template_kwargs"}


def test_what_is_no_text_is_not_paid_for_in_tokens():
    texts = [{"role": "user", "content": [{"type": "text", "text": "easy"}]}]
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}]
    request_of(messages=image).check_cost(restricted=True, priced=False)
    request_of(messages=texts).check_cost(restricted=True, priced=True)
    spoken = [{"role": "assistant", "content": None, "audio": {"id": "audio_1"}}]
    for content in (image, spoken, [{"role": "user", "content": {"url": "x"}}]):
        with pytest.raises(ApiError, match="texts alone"):
            request_of(messages=content).check_cost(restricted=True, priced=True)


@pytest.fixture(scope="module")
def shared():
    with run_gateway(total=100) as gateway:
        yield gateway


@pytest.mark.parametrize("name", BAD)
def test_a_bad_body_is_refused_and_costs_nothing(shared, name):
    body, status = BAD[name]
    reply = shared.client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == status
    error = reply.json()["error"]
    assert error["message"] and error["type"] == "invalid_request_error" and "Traceback" not in reply.text
    assert shared.ledger.total.spent == shared.ledger.total.held == 0 and shared.mock.stats.requests == 0


@pytest.mark.parametrize("headers", [{"x-pets-max-traces": "all"}, {"x-pets-timeout": "nan"}, {"x-pets-hurry": "[["}])
def test_a_bad_header_is_refused(shared, headers):
    reply = shared.ask(headers=headers)
    assert reply.status_code == 400 and reply.json()["error"]["param"].startswith("pets.")


def test_a_header_with_a_line_break_is_nobodys_header(shared):
    parts = urlsplit(shared.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as line:
        body = voted()
        injected = b"host: localhost\r\ncontent-type: application/json\r\nx-pets-answer: number\nset-cookie: a=b\r\n"
        line.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n" % (injected, len(body)) + body
        )
        said = line.recv(65536).split(b"\r\n\r\n")[0]
    assert b"set-cookie" not in said.lower()


def test_a_body_that_never_comes_is_given_up():
    with run_gateway(settings=Settings.of(policy="online_grid", limits=Limits(body_seconds=0.2))) as gateway:
        parts = urlsplit(gateway.url)
        with socket.create_connection((parts.hostname, parts.port), timeout=10) as line:
            line.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: 100\r\n\r\n{"
            )
            assert line.recv(65536).startswith(b"HTTP/1.1 408")


def answer_spec(spec, default="text"):
    return parse_request(
        CHAT, voted(pets={"answer": spec}), {}, Settings.of(policy="online_grid", answer=default)
    ).options.answer


def test_a_client_chooses_how_answers_are_read_but_not_what_that_may_cost(monkeypatch):
    assert [answer_spec(spec) for spec in ("number", "choice:options=4", "math", None)] == [
        "number", "choice:options=4", "math", "text",
    ]  # fmt: skip
    assert answer_spec("math", "math:seconds=0.1") == answer_spec("math:seconds=0.1", "math:seconds=0.1")
    for spec in ("math:seconds=0.1", "math:seconds=3600", "math:,seconds=5", "math:seconds"):
        with pytest.raises(ApiError, match="'seconds' of the answer type 'math' is the operator's"):
            answer_spec(spec)
    monkeypatch.setattr(Number, "operator_only", True)
    with pytest.raises(ApiError, match="answer type 'number' is the operator's"):
        answer_spec("number")
    assert answer_spec("number", "number") == answer_spec(None, "number") == "number"


def test_a_client_that_names_no_answer_type_hears_of_those_that_it_may_choose():
    with pytest.raises(ApiError, match=r"There is no answer type 'poem'\. Types: choice, .*, yesno\.$") as caught:
        answer_spec("poem")
    assert not {"python", "regex", "judge"} & set(re.findall(r"\w+", caught.value.message))


def test_a_type_that_does_not_say_otherwise_is_the_operators():
    assert AnswerType.operator_only and not AnswerType.client_options


OPERATORS = ("regex:(a)", "python:os:getcwd", "judge", "judge:model=m", "judge:endpoint=http://127.0.0.1:9/v1")
DISGUISES = (" {}", "{} ", "\t{}", "\u200b{}", "{}\n", "\x00{}")


@pytest.mark.parametrize("spec", [*OPERATORS, *(form.format(spec) for spec in OPERATORS for form in DISGUISES)])
@pytest.mark.parametrize("upper", [False, True])
def test_code_patterns_and_models_are_never_run_at_a_clients_word(shared, spec, upper):
    spec = spec.upper() if upper else spec
    before = shared.mock.stats.requests
    for reply in (
        shared.ask(pets={"answer": spec}),
        shared.ask(response_format={"type": "json_object"}, pets={"answer": spec}),
        *(
            [shared.ask(headers={"x-pets-answer": spec})]
            if spec.isascii() and spec.isprintable() and spec == spec.strip()
            else ()
        ),
    ):
        assert reply.status_code == 400 and reply.json()["error"]["param"] == "pets.answer"
    assert shared.mock.stats.requests == before


def test_the_operator_may_choose_what_clients_may_not():
    assert answer_spec(None, "regex:([A-D])") == answer_spec("regex:([A-D])", "regex:([A-D])") == "regex:([A-D])"
