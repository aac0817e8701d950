"""Keeps keys, and other secrets of requests, out of whatever a server sends: replaced before anything else reads it."""

import base64
from collections.abc import Iterator

from pets.patterns import bytes_pattern, escape

REDACTED = "[redacted]"
MIN_KEY_CHARACTERS = 8  # a shorter one, such as EMPTY, guards nothing and stands in ordinary words
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="


class Redactor:
    """Replaces ``secrets`` as they are, in base64 (alone or within more), URL-encoded, or escaped as JSON escapes.

    Other ciphers of a hostile server are beyond it. It does nothing without a secret, nor for one under 8 characters.

    >>> redactor = Redactor("sk-1234567890")
    >>> redactor.text("Bearer sk-1234567890"), redactor.data(b"sk%2D1234567890 and c2stMTIzNDU2Nzg5MA==")
    ('Bearer [redacted]', b'[redacted] and [redacted]A==')
    """

    def __init__(self, *secrets: str | None) -> None:
        known = {secret for secret in secrets if secret is not None and len(secret) >= MIN_KEY_CHARACTERS}
        self._secrets = [_Secret(secret.encode()) for secret in sorted(known, key=len, reverse=True)]

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def data(self, content: bytes) -> bytes:
        """The bytes without the secrets."""
        for secret in self._secrets:
            content = secret.redacted(content)
        return content

    def text(self, words: str) -> str:
        """The text without the secrets; halves of surrogate pairs stay as they are."""
        if not self._secrets:
            return words
        content = words.encode("utf-8", "surrogatepass")
        redacted = self.data(content)
        return words if redacted is content else redacted.decode("utf-8", "surrogatepass")

    def stream(self) -> "StreamRedactor":
        """The same for bytes that come in parts."""
        return StreamRedactor(self)

    def undecided(self, content: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret."""
        return max((secret.undecided(content) for secret in self._secrets), default=0)


class _Secret:
    """One secret in all its forms."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._encoded = tuple(_base64_forms(key))
        self._escaped = bytes_pattern(b"".join(map(_escaped_forms, key)))
        self._marks = (b"%", b"\\u00", *((b"\\",) if set(key) & set(b'"\\/') else ()))  # of escapes of this key
        self._alphabet = BASE64 + key + b"%\\"  # all that a form is made of
        self._longest = max(6 * len(key), *map(len, self._encoded))

    def redacted(self, content: bytes) -> bytes:
        for form in (self._key, *self._encoded):
            if form in content:
                content = content.replace(form, REDACTED.encode())
        if any(mark in content for mark in self._marks):
            content = self._escaped.sub(REDACTED.encode(), content)
        return content

    def undecided(self, content: bytes) -> int:
        tail = content[-(self._longest - 1) :]
        return len(tail) - len(tail.rstrip(self._alphabet))


class StreamRedactor:
    """Redacts across the borders of parts: holds back the word at a part's end, and no more than a key's length.

    >>> stream = Redactor("sk-1234567890").stream()
    >>> stream.feed(b'"key": "sk-123'), stream.feed(b'4567890"'), stream.end()
    (b'"key": "', b'[redacted]"', b'')
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._rest = redactor, b""

    def feed(self, part: bytes) -> bytes:
        """What of the bytes so far can go on."""
        content = self._redactor.data(self._rest + part)
        border = len(content) - self._redactor.undecided(content)
        self._rest = content[border:]
        return content[:border]

    def end(self) -> bytes:
        """What was held back."""
        rest, self._rest = self._rest, b""
        return rest


def _escaped_forms(character: int) -> bytes:
    """A pattern of one character of a key: plain, with a backslash, as JSON's escape, or URL-encoded."""
    code = f"{character:02x}"
    digits = "".join(f"[{digit}{digit.upper()}]" for digit in code)
    return rb"(?:\\u00%b|%%%b|\\?%b)" % (digits.encode(), digits.encode(), escape(bytes([character])))


def _base64_forms(key: bytes) -> Iterator[bytes]:
    """What base64 makes of a key behind 0, 1 or 2 other bytes, without the characters that its neighbours change."""
    for before in range(3 if key else 0):
        code = base64.b64encode(bytes(before) + key)
        code = code[(0, 2, 3)[before] : (len(key) + before) * 8 // 6]
        yield code
        if (safe := code.translate(bytes.maketrans(b"+/", b"-_"))) != code:
            yield safe
