"""Fields that servers refuse: their own words are read, and the request goes without what may be left out."""

import json

import pytest

from pets.errors import RefusedError
from pets.openai.refusals import FieldsRefusedError, RefusedFields, named_fields

SENT = ["model", "messages", "n", "seed", "max_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
        "frequency_penalty", "logprobs", "top_logprobs", "repetition_penalty", "return_token_ids"]  # fmt: skip


def openai(message, param=None, code=None):
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead.", "max_tokens", "unsupported_parameter"), {"max_tokens"}),
        (openai("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is "
                "supported.", "temperature", "unsupported_value"), {"temperature"}),
        (openai("Unrecognized request argument supplied: top_k"), {"top_k"}),
        (openai("Unrecognized request arguments supplied: min_p, repetition_penalty"), {"min_p", "repetition_penalty"}),
        (openai("Unknown parameter: 'min_p'.", "min_p", "unknown_parameter"), {"min_p"}),
        (openai("Unsupported value: 'n' does not support 8 with this model.", "n", "unsupported_value"), {"n"}),
        ({"object": "error", "message": {"detail": [
            {"type": "extra_forbidden", "loc": ["body", "top_k"], "msg": "Extra inputs are not permitted", "input": -1},
            {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 5},
        ]}, "type": "invalid_request_error"}, {"top_k", "seed"}),
        ({"object": "error", "message": json.dumps({"detail": [
            {"type": "extra_forbidden", "loc": ["body", "frequency_penalty"], "msg": "Extra inputs are not permitted"},
        ]})}, {"frequency_penalty"}),
        ([{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "frequency_penalty": Cannot '
                     'find field.\nInvalid JSON payload received. Unknown name "seed": Cannot find field.'}}],
         {"frequency_penalty", "seed"}),
        ({"code": "invalid argument", "error": "Argument not supported on this model: presencePenalty"},
         {"presence_penalty"}),
        ({"error": "Model grok-4 does not support parameter topLogprobs."}, {"top_logprobs"}),
        ({"error": {"message": "property 'top_k' is unsupported"}}, {"top_k"}),
        ({"error": {"message": "Extra inputs are not permitted, field: 'return_token_ids', value: True"}},
         {"return_token_ids"}),
        # No refusals of fields: a value that is too large, a prompt, a model, an error that repeats what was sent.
        (openai("'max_tokens' or 'max_completion_tokens' is too large: 40960. This model's maximum context length is "
                "40960 tokens and your request has 12 input tokens.", "max_tokens"), set()),
        (openai("'n' is 8; this server has 3 slots.", "n"), set()),
        (openai("This prompt is too long (on purpose).", code="context_length_exceeded"), set()),
        ({"detail": [{"type": "unknown", "loc": ["body", "messages", 0], "input": {"seed": "top_k"}}]}, {"messages"}),
        ({"error": "the temperature of the server is not supported by its fan"}, set()),
    ],
)  # fmt: skip
def test_the_fields_that_an_error_names(error, names):
    assert named_fields(json.dumps(error).encode(), SENT) == names


def test_an_error_that_is_no_json_is_read_as_it_is():
    assert named_fields(b"unknown field `top_k`, expected one of `model`", ["top_k", "n"]) == {"top_k"}
    assert named_fields(b"\xff unsupported", SENT) == set()


def refuse(fields, names, body, optional=()):
    fields.add(FieldsRefusedError("the server says 400: no.", names, 400), body, set(optional))
    return fields.news()


def test_what_was_asked_for_is_never_left_out():
    fields, body = RefusedFields(), {"temperature": 0.2, "top_k": -1}
    with pytest.raises(RefusedError, match=r"says 400: no. temperature was asked for \(0.2\): leave it out."):
        refuse(fields, ["temperature", "top_k"], body, ["top_k"])
    assert fields.without(body) == body


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("messages", [{"role": "system", "content": "SECRET"}], "the server says 400: no."),
        ("prompt", "SECRET", "the server says 400: no."),
        ("model", "SECRET", "the server says 400: no."),
        ("guided_key", "SECRET", "the server says 400: no."),  # of an extra body
        ("stream_options", {"key": "SECRET"}, "the server says 400: no. stream_options was asked for: leave it out."),
        ("logprobs", True, "the server says 400: no. logprobs was asked for (True): leave it out."),
    ],
)
def test_an_error_repeats_nothing_that_was_sent_but_numbers(name, value, words):
    with pytest.raises(RefusedError) as refused:
        refuse(RefusedFields(), [name], {name: value})
    assert str(refused.value) == words and refused.value.status == 400


def test_a_token_limit_goes_under_its_other_name_and_is_never_dropped():
    fields, body = RefusedFields(), {"max_tokens": 9}
    refuse(fields, ["max_tokens"], body)
    assert fields.without(body) == {"max_completion_tokens": 9}
    with pytest.raises(RefusedError, match="max_completion_tokens was asked for"):
        refuse(fields, ["max_completion_tokens"], fields.without(body))


def test_log_probabilities_go_with_their_alternatives():
    fields, body = RefusedFields(), {"logprobs": True, "top_logprobs": 20, "n": 2}
    said = refuse(fields, ["top_logprobs"], body, ["logprobs", "top_logprobs"])
    assert fields.without(body) == {"n": 2} and "no confidence" in said


def test_a_refusal_is_said_once():
    fields, body = RefusedFields(), {"seed": 5, "n": 2}
    assert refuse(fields, ["seed"], body, ["seed"]) and not refuse(fields, ["seed"], body, ["seed"])


@pytest.mark.parametrize(
    "name", ["(", "[", "\\", "a|", "(?P<a", "(a+)+$", "(a|a)*b", "x" * 10_000, "max_(tokens", "é_ß", ""]
)
def test_the_name_of_a_field_is_no_pattern(name):
    """Clients name fields as they like, and a server's error may repeat it all."""
    content = json.dumps({"error": f"Unsupported parameter: '{name}' and {'a' * 40}!"}).encode()
    assert named_fields(content, [name, "n"]) <= {name}
    assert named_fields(content, ["seed"]) == set()
