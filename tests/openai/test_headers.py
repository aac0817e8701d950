"""Rate limits and Retry-After are read where they make sense, and are None where they do not."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pets.errors import InputError
from pets.openai.headers import RateLimits, duration_s, parse_headers, retry_after_s, secrets_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("6m0s", 360.0), ("20ms", 0.02), ("1m30.5s", 90.5), ("2h", 7200.0), ("1.5", 1.5), ("0", 0.0)],
)
def test_durations(text, seconds):
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "1x", "s", "1m 30s", "inf", "nan", "9" * 400 + "s", "9" * 400])
def test_durations_that_make_no_sense(text):
    assert duration_s(text) is None


def test_rate_limits_of_requests_and_tokens():
    headers = {
        f"x-ratelimit-{what}-{kind}": text
        for kind, texts in {"requests": ("60", "59", "1s"), "tokens": ("150000", "149984", "6m0s")}.items()
        for what, text in zip(("limit", "remaining", "reset"), texts, strict=True)
    }
    assert RateLimits.from_headers(headers) == RateLimits(60, 59, 1.0, 150000, 149984, 360.0)


@pytest.mark.parametrize("headers", [{}, {"x-ratelimit-limit-requests": "many"}, {"x-ratelimit-limit-requests": "-1"}])
def test_a_server_that_says_nothing_of_rate_limits(headers):
    assert RateLimits.from_headers(headers) is None


def test_retry_after_in_seconds_and_as_a_date():
    assert retry_after_s({"retry-after": "7"}) == 7.0
    assert retry_after_s({"retry-after": "-3"}) == 0.0
    now = datetime.now(UTC)
    assert 0 < retry_after_s({"retry-after": format_datetime(now + timedelta(hours=1), usegmt=True)}) <= 3600
    assert retry_after_s({"retry-after": format_datetime(now - timedelta(hours=1), usegmt=True)}) == 0.0


@pytest.mark.parametrize(
    "text", ["soon", "inf", "nan", "", "1e300", "9" * 400, "Fri, 31 Dec 9999 23:59:59 -2300", "Mon, 1 Jan 99999 0:0:0"]
)
def test_a_retry_after_that_makes_no_sense(text):
    assert retry_after_s({"retry-after": text}) is None


def test_headers_as_a_user_writes_them():
    assert parse_headers(["X-Team:  blue ", "X-Empty:"]) == {"X-Team": "blue", "X-Empty": ""}
    for text in ("X-Team", "X Team: blue", ": blue", "X-Team: bl\nue", "X-Team: größe", "Host: x", "content-length: 3"):
        with pytest.raises(InputError) as caught:
            parse_headers([text])
        assert "blue" not in str(caught.value)


def test_only_headers_that_guard_something_are_secrets():
    headers = {"Authorization": "Bearer abc", "X-API-Key": "k", "Cookie": "a=1; b=2", "X-Env": "production"}
    assert secrets_of(headers) == ["Bearer", "abc", "k", "a=1;", "b=2"]
