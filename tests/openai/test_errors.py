"""Errors say in OpenAI's form what is wrong, and in headers whether to come back."""

import json

import pytest

from pets.openai.errors import ApiError


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (503, "server_error"),
    ],
)
def test_the_body_names_the_kind_the_field_and_the_code(status, kind):
    error = ApiError("No.", status=status, param="n", code="why")
    assert json.loads(error.body()) == {"error": {"message": "No.", "type": kind, "param": "n", "code": "why"}}


def test_headers_say_whether_and_when_to_come_back():
    assert ApiError("No.").headers() == []
    soon = ApiError("Busy.", status=503, retry_after=0.2, should_retry=True)
    assert soon.headers() == [(b"retry-after", b"1"), (b"x-should-retry", b"true")]
    assert (b"x-should-retry", b"false") in ApiError("Spent.", status=429, should_retry=False).headers()
    assert any(name == b"www-authenticate" for name, _ in ApiError("Who?", status=401).headers())
