"""Headers: what a user adds to requests, and what responses say of time and rate limits.

Keys, and other secrets of requests, are kept out of whatever a server sends: replaced before anything else reads it.
"""

import base64
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self

from pets.errors import InputError
from pets.patterns import Pattern, bytes_pattern, escape

LONGEST_WAIT_S = 366 * 24 * 3600.0  # a longer wait is taken for a mistake
UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
HEADER_NAME = Pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
OWN_HEADERS = {"content-type", "content-length", "accept-encoding", "host", "transfer-encoding", "connection"}
SECRET_HEADER = Pattern(r"(?i)key|token|secret|auth|cookie|password|credential|signature")
RATE_LIMIT_HEADERS = [
    f"x-ratelimit-{what}-{unit}" for unit in ("requests", "tokens") for what in ("limit", "remaining", "reset")
]
DURATION = Pattern(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|us|µs|ns|d|h|m|s))+")
DURATION_PART = Pattern(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|d|h|m|s)")

REDACTED = "[redacted]"
MIN_KEY_CHARACTERS = 8  # a shorter one, such as EMPTY, guards nothing and stands in ordinary words
ESCAPE_BYTES = 6  # of one character, as JSON escapes it
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="


@dataclass(frozen=True, slots=True)
class RateLimits:
    """A server's ``x-ratelimit-*`` headers, by their own names; resets in seconds, ``None`` where it says nothing.

    >>> RateLimits.from_headers({"x-ratelimit-limit-requests": "60", "x-ratelimit-reset-requests": "6m0s"})
    RateLimits(limit_requests=60, remaining_requests=None, reset_requests_s=360.0,
               limit_tokens=None, remaining_tokens=None, reset_tokens_s=None)
    """

    limit_requests: int | None = None
    remaining_requests: int | None = None
    reset_requests_s: float | None = None
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_tokens_s: float | None = None

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> Self | None:
        """``headers`` is asked for lower-case names. ``None`` where there is not one of these headers."""
        values = list(map(headers.get, RATE_LIMIT_HEADERS))
        if not any(values):
            return None
        counts, resets = [_count(value or "") for value in values], [duration_s(value or "") for value in values]
        limits = cls(counts[0], counts[1], resets[2], counts[3], counts[4], resets[5])
        return None if limits == cls() else limits


def parse_headers(texts: Iterable[str]) -> dict[str, str]:
    """Headers as a user writes them, ``Name: value``.

    >>> parse_headers(["X-Team: blue", "api-version:2"])
    {'X-Team': 'blue', 'api-version': '2'}
    """
    headers = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon:
            raise InputError(f"a header is 'Name: value'; {name[:20]!r} has no colon.")
        headers[name.strip()] = value.strip()
    return check_headers(headers)


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The same headers, if they can be sent; their values are never shown."""
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise InputError(f"the header {name[:60]!r} holds a character that no header has.")
        if name.lower() in OWN_HEADERS:
            raise InputError(f"the header {name} is set for every request already; leave it out.")
    return dict(headers)


def secrets_of(headers: Mapping[str, str]) -> list[str]:
    """The words of headers that guard something, by their names: keys, tokens, cookies.

    >>> secrets_of({"Authorization": "Token abc-123", "X-Team": "blue"})
    ['Token', 'abc-123']
    """
    return [word for name, value in headers.items() if SECRET_HEADER.search(name) for word in value.split()]


def duration_s(text: str) -> float | None:
    """A duration as rate limits give it, in seconds; ``None`` where it makes no sense.

    >>> [duration_s(text) for text in ("1s", "6m0s", "20ms", "1m30.5s", "2.5", "soon")]
    [1.0, 360.0, 0.02, 90.5, 2.5, None]
    """
    text = text.strip()
    if DURATION.fullmatch(text):
        seconds = sum(float(number) * UNITS_S[unit] for number, unit in DURATION_PART.findall(text))
        return seconds if seconds <= LONGEST_WAIT_S else None
    return _seconds(text)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds from now, be it a number or a date; ``None`` where it is missing or makes no sense.

    >>> retry_after_s({"retry-after": "7"}), retry_after_s({"retry-after": "1e99"}), retry_after_s({})
    (7.0, None, None)
    """
    text = headers.get("retry-after", "")
    if (seconds := _seconds(text)) is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds) if seconds <= LONGEST_WAIT_S else None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) and seconds <= LONGEST_WAIT_S else None


def _count(text: str) -> int | None:
    return int(text) if len(text) < 19 and text.isascii() and text.isdecimal() else None


class Redactor:
    """Replaces ``secrets`` as they are, in base64 (alone or within more), URL-encoded, or escaped as JSON escapes.

    Other ciphers of a hostile server are beyond it. It does nothing without a secret, nor for one under 8 characters.

    >>> redactor = Redactor("sk-1234567890")
    >>> redactor.text("Bearer sk-1234567890"), redactor.data(b"sk%2D1234567890 and c2stMTIzNDU2Nzg5MA==")
    ('Bearer [redacted]', b'[redacted] and [redacted]A==')
    """

    def __init__(self, *secrets: str | None) -> None:
        known = {secret.encode() for secret in secrets if secret is not None and len(secret) >= MIN_KEY_CHARACTERS}
        forms = list[bytes]()
        for key in sorted(known, key=len, reverse=True):
            forms += [b"".join(map(_escaped_forms, key)), *map(escape, _base64_forms(key))]
        self._longest = ESCAPE_BYTES * max(map(len, known), default=0)
        self._secrets = bytes_pattern(b"|".join(forms)) if forms else None
        self._alphabet = b"".join([BASE64, *known, b"%\\"])  # all that a form is made of

    def __bool__(self) -> bool:
        return self._secrets is not None

    def data(self, content: bytes) -> bytes:
        return content if self._secrets is None else self._secrets.sub(REDACTED.encode(), content)

    def text(self, words: str) -> str:
        if self._secrets is None:
            return words
        return self.data(words.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    async def stream(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same for bytes that come in parts: what may be the beginning of a secret at a part's end is held back, or
        a secret whose last escape may go on, no more than twice a key's length."""
        rest = b""
        async for part in parts:
            content = rest + part
            matches = self._secrets.finditer(content) if self._secrets else ()
            end = next((match.start() for match in matches if self._may_go_on(content[match.end() :])), len(content))
            held, content = content[end:], self.data(content[:end])
            tail = content[1 - self._longest :] if self._secrets else b""
            border = len(content) - len(tail) + len(tail.rstrip(self._alphabet))
            rest = content[border:] + held
            yield content[:border]
        yield self.data(rest)

    def _may_go_on(self, after: bytes) -> bool:
        """Whether the last character of a secret, with what has come after it, may begin a longer escape."""
        return len(after) < ESCAPE_BYTES and not after.strip(self._alphabet)


def _escaped_forms(character: int) -> bytes:
    """A pattern of one character of a key: plain, with a backslash, as JSON's escape, or URL-encoded."""
    code = f"{character:02x}"
    digits = "".join(f"[{digit}{digit.upper()}]" for digit in code)
    return rb"(?:\\u00%b|%%%b|\\?%b)" % (digits.encode(), digits.encode(), escape(bytes([character])))


def _base64_forms(key: bytes) -> Iterator[bytes]:
    """What base64 makes of a key behind 0, 1 or 2 other bytes, without the characters that its neighbours change."""
    for before in range(3):
        kept = slice((0, 2, 3)[before], (len(key) + before) * 8 // 6)
        yield from {encode(bytes(before) + key)[kept] for encode in (base64.b64encode, base64.urlsafe_b64encode)}
