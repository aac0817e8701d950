"""Rate limits and Retry-After are read where they make sense, and are None where they do not."""

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pets.errors import InputError
from pets.openai.headers import REDACTED, RateLimits, Redactor, duration_s, parse_headers, retry_after_s, secrets_of


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


KEY = 'sk-proj/UP+STREAM_secret"123~='
KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=60)


def fully_quoted(key):
    return "".join(f"%{ord(character):02X}" for character in key)


def fully_escaped(key):
    return "".join(f"\\u{ord(character):04x}" for character in key)


FORMS = [
    str,
    quote,
    lambda key: quote(key, safe="").lower() if key == quote(key, safe="").lower() else quote(key, safe=""),
    fully_quoted,
    fully_escaped,
    lambda key: json.dumps(key)[1:-1],
    lambda key: base64.b64encode(key.encode()).decode(),
    lambda key: base64.urlsafe_b64encode(f"Bearer {key}".encode()).decode(),
    lambda key: base64.b64encode(f"{{'authorization': 'Bearer {key}'}}".encode()).decode(),
    lambda key: base64.b64encode(f"u:{key}".encode()).decode(),
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_key_is_replaced(form):
    sent = f'{{"a": "{form(KEY)}", "b": 1}}'
    redacted = Redactor(KEY).text(sent)
    assert form(KEY) not in redacted and REDACTED in redacted
    assert redacted.startswith('{"a": "') and redacted.endswith('", "b": 1}')


@given(KEYS, st.integers(0, len(FORMS) - 1), st.text(max_size=20), st.text(max_size=20))
def test_whatever_the_key_and_its_neighbours(key, number, before, after):
    form = FORMS[number](key)
    redacted = Redactor(key).text(before + form + after)
    assert key in REDACTED or key not in redacted
    assert form in REDACTED or form not in redacted


def streamed(redactor: Redactor, *parts: bytes) -> list[bytes]:
    """What goes on of each part as it comes, and what was held back at the end."""

    async def coming():
        for part in parts:
            yield part

    async def collected():
        return [part async for part in redactor.stream(coming())]

    return asyncio.run(collected())


@given(KEYS, st.integers(0, len(FORMS) - 1), st.lists(st.integers(1, 9), min_size=1, max_size=60))
@example("0000000\\", 4, [1, 1, 1, 1, 1, 8, 9, 9, 9, 9, 9])  # cut inside the escape of the last character
@example("00000000000u", 4, [*[1] * 8, 4, *[9] * 8])  # which a shorter form of it begins
def test_a_stream_is_redacted_wherever_it_is_cut(key, number, sizes):
    content = f'data: {{"key": "{FORMS[number](key)}"}}\n\ndata: [DONE]\n\n'.encode()
    parts, position = [], 0
    for size in [*sizes, len(content)]:
        parts.append(content[position : position + size])
        position += size
    sent = b"".join(streamed(Redactor(key), *parts))
    assert FORMS[number](key).encode() not in sent
    assert sent == Redactor(key).data(content)


def test_whole_events_are_never_held_back():
    event = b'data: {"choices": [{"delta": {"content": "sk-proj"}}]}\n\n'
    assert streamed(Redactor(KEY), event) == [event, b""]


def test_texts_without_the_key_are_the_same():
    words = 'half of a pair \ud83d, 50 % and \\u0041 and \\" and /'
    assert Redactor(KEY).text(words) == words


@pytest.mark.parametrize("key", [None, "", "EMPTY", "dummy"])
def test_no_key_and_no_secret_is_redacted_nowhere(key):
    redactor = Redactor(key)
    assert not redactor and redactor.text("EMPTY dummy") == "EMPTY dummy"
    assert streamed(redactor, b"EMPTY") == [b"EMPTY", b""]


def test_several_secrets_are_replaced():
    redactor = Redactor("sk-1234567890", None, "short", "cookie-4567890")
    assert redactor.text("sk-1234567890, short, cookie-4567890") == f"{REDACTED}, short, {REDACTED}"
    sent = streamed(redactor, b"a cookie-45", b"67890 sk-12345", b"67890")
    assert b"".join(sent) == f"a {REDACTED} {REDACTED}".encode()
