"""HTTP to a server: what failures mean, which proxy is used, and replies that are read within bounds."""

import asyncio
import gzip
import ssl

import httpx
import pytest

from pets.errors import BusyError, RefusedError, ReplyError, UnreachableError
from pets.openai.redaction import Redactor
from pets.samplers import transport


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx.ConnectError, UnreachableError),
        (httpx.ConnectTimeout, UnreachableError),
        (httpx.ReadTimeout, BusyError),
        (httpx.WriteTimeout, BusyError),
        (httpx.PoolTimeout, BusyError),
        (httpx.ReadError, ReplyError),
        (httpx.RemoteProtocolError, ReplyError),
        (httpx.DecodingError, ReplyError),
        (httpx.UnsupportedProtocol, RefusedError),
    ],
)
def test_what_a_failed_exchange_means(failure, kind):
    assert type(transport.sampler_error("http://server/v1", failure("the words"))) is kind


def test_what_is_no_matter_of_the_network_is_not_explained():
    assert transport.sampler_error("http://server/v1", ValueError("a bug")) is None


def test_the_environments_proxy_is_used_but_for_this_machine(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "inner.example")
    proxies = [transport._proxy(f"http://{host}/v1") for host in ("server", "inner.example", "localhost:8000", "[::1]")]
    assert proxies == ["http://proxy:3128", None, None, None]
    assert transport._proxy("https://server/v1") is None


def test_all_clients_share_one_ssl_context(monkeypatch):
    contexts, make = [], ssl.create_default_context
    monkeypatch.setattr(
        ssl, "create_default_context", lambda *words, **options: contexts.append(0) or make(*words, **options)
    )
    transport._tls.cache_clear()

    async def go():
        urls = ["https://one/v1", "https://two/v1", "http://three/v1"] * 2
        for connection in [transport.http_transport(url, loopback=False) for url in urls]:
            await connection.aclose()

    asyncio.run(go())
    assert len(contexts) == 1


def read(content, headers=None, *, max_bytes):
    response = httpx.Response(200, headers=headers, stream=httpx.ByteStream(content))
    return asyncio.run(transport.body_of_reply(response, max_bytes))


@pytest.mark.parametrize("headers", [None, {"content-encoding": "gzip"}])
def test_a_reply_is_read_up_to_its_bound_and_not_beyond(headers):
    packed = gzip.compress(b"x" * 100) if headers else b"x" * 100
    assert read(packed, headers, max_bytes=100) == b"x" * 100
    with pytest.raises(ReplyError, match="over 99 bytes"):
        read(packed, headers, max_bytes=99)


def test_a_large_body_is_sent_in_pieces_that_are_the_whole():
    async def go(content):
        return [piece async for piece in transport.in_pieces(content)]

    content = bytes(range(256)) * 4096
    pieces = asyncio.run(go(content))
    assert len(pieces) > 1 and b"".join(pieces) == content
    assert transport.in_pieces(b"small") == b"small"


def test_lines_are_split_at_line_feeds_alone():
    async def go(*parts):
        async def stream():
            for part in parts:
                yield part

        return [line async for line in transport.split_lines(stream(), 9)]

    assert asyncio.run(go(b"a\nb\xe2\x80\xa8", b"c\n", b"d")) == [b"a\n", b"b\xe2\x80\xa8c\n", b"d"]
    with pytest.raises(ReplyError, match="a line of over 9 bytes"):
        asyncio.run(go(b"0123456789"))


def test_a_failed_exchange_is_told_without_the_key_and_a_bug_stays_a_bug():
    redactor = Redactor("a-secret-key")
    with pytest.raises(UnreachableError) as caught, transport.sampler_errors("http://server/v1", redactor):
        raise httpx.ConnectError("no header a-secret-key")
    assert "[redacted]" in str(caught.value) and "a-secret-key" not in str(caught.value)
    assert isinstance(caught.value.__cause__, httpx.ConnectError)
    with pytest.raises(ZeroDivisionError), transport.sampler_errors("http://server/v1"):
        raise ZeroDivisionError
