"""The key of an upstream server, in whatever form that server sends it back."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.openai.redaction import REDACTED, Redactor

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


@given(KEYS, st.integers(0, len(FORMS) - 1), st.lists(st.integers(1, 9), min_size=1, max_size=60))
def test_a_stream_is_redacted_wherever_it_is_cut(key, number, sizes):
    content = f'data: {{"key": "{FORMS[number](key)}"}}\n\ndata: [DONE]\n\n'.encode()
    stream, sent, position = Redactor(key).stream(), b"", 0
    for size in [*sizes, len(content)]:
        sent += stream.feed(content[position : position + size])
        position += size
    sent += stream.end()
    assert FORMS[number](key).encode() not in sent
    assert sent == Redactor(key).data(content)


def test_whole_events_are_never_held_back():
    stream = Redactor(KEY).stream()
    event = b'data: {"choices": [{"delta": {"content": "sk-proj"}}]}\n\n'
    assert stream.feed(event) == event and stream.end() == b""


def test_texts_without_the_key_are_the_same():
    words = 'half of a pair \ud83d, 50 % and \\u0041 and \\" and /'
    assert Redactor(KEY).text(words) == words


@pytest.mark.parametrize("key", [None, "", "EMPTY", "dummy"])
def test_no_key_and_no_secret_is_redacted_nowhere(key):
    redactor = Redactor(key)
    assert not redactor and redactor.text("EMPTY dummy") == "EMPTY dummy"
    assert redactor.stream().feed(b"EMPTY") == b"EMPTY"


def test_several_secrets_are_replaced():
    redactor = Redactor("sk-1234567890", None, "short", "cookie-4567890")
    assert redactor.text("sk-1234567890, short, cookie-4567890") == f"{REDACTED}, short, {REDACTED}"
    stream = redactor.stream()
    assert stream.feed(b"a cookie-45") + stream.feed(b"67890 sk-12345") + stream.feed(b"67890") + stream.end() == (
        f"a {REDACTED} {REDACTED}".encode()
    )
