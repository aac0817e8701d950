"""HTTP to a server: what failures mean, which proxy is used, and replies that are read within bounds."""

import asyncio
import gzip
import ssl
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import aiohttp
import httpx
import pytest

from pets.errors import BusyError, InputError, RefusedError, ReplyError, UnreachableError
from pets.openai.headers import Redactor
from pets.samplers import transport
from pets.samplers.transport import HttpClient

from ..network import answered_by


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (aiohttp.ConnectionTimeoutError, UnreachableError),
        (aiohttp.SocketTimeoutError, BusyError),
        (TimeoutError, BusyError),
        (aiohttp.ServerDisconnectedError, ReplyError),
        (aiohttp.ClientOSError, ReplyError),
        (aiohttp.ClientPayloadError, ReplyError),
        (ConnectionResetError, ReplyError),
        (aiohttp.NonHttpUrlClientError, RefusedError),
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
    hosts = ("server", "inner.example", "localhost:8000", "[::1]")
    proxies = [transport.proxy_of(f"http://{host}/v1") for host in hosts]
    assert proxies == ["http://proxy:3128", None, None, None]
    assert transport.proxy_of("https://server/v1") is None


def body_from(url, max_bytes=100):
    """The body that a client reads at an address."""

    async def go():
        client = HttpClient(url, timeout=60.0)
        try:
            async with client.request("GET", url) as response:
                return await transport.body_of_reply(response, max_bytes)
        finally:
            await client.close()

    return asyncio.run(go())


@pytest.fixture
def contexts(monkeypatch):
    """The authorities of every TLS context that is made."""
    authorities, make = [], ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **options: authorities.append(options) or make())
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    transport.tls_context.cache_clear()
    yield authorities
    transport.tls_context.cache_clear()


def test_all_clients_share_one_ssl_context(contexts):
    with answered_by(lambda _: httpx.Response(200)):
        for url in ["https://one/v1", "https://two/v1", "http://three/v1"] * 2:
            body_from(url)
    assert len(contexts) == 1


def test_the_environment_may_name_the_authorities_that_are_trusted(contexts, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "company.pem")
    with answered_by(lambda _: httpx.Response(200)):
        body_from("https://one/v1")
    assert contexts == [{"cafile": "company.pem", "capath": None}]


@pytest.fixture
def socks(monkeypatch):
    """A SOCKS proxy in the environment."""
    monkeypatch.setenv("ALL_PROXY", "socks5h://proxy:1080")
    for name in ("HTTP_PROXY", "http_proxy", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_socks_proxy_without_its_package_is_one_clear_line(socks, monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp_socks", None)
    with pytest.raises(InputError, match=r'aiohttp-socks, .* is not installed\. Try: pip install "pets-llm\[socks\]"'):
        HttpClient("http://server/v1", timeout=60.0)
    HttpClient("http://localhost:8000/v1", timeout=60.0)  # which no proxy is asked for


def test_a_socks_proxy_is_asked_for_the_connection_and_its_failure_is_that_the_server_cannot_be_reached(
    socks, monkeypatch
):
    class ProxyError(Exception):
        pass

    class ProxyConnector(aiohttp.TCPConnector):
        @classmethod
        def from_url(cls, url, **options):
            proxies.append(url)
            return cls(**options)

        async def connect(self, *words, **options):
            raise ProxyError("no route")

    proxies, package = [], ModuleType("aiohttp_socks")
    package.ProxyConnector, package.__spec__ = ProxyConnector, ModuleSpec("aiohttp_socks", None)
    ProxyError.__module__ = "aiohttp_socks._errors"
    monkeypatch.setitem(sys.modules, "aiohttp_socks", package)
    with pytest.raises(UnreachableError, match="no route"), transport.sampler_errors("http://server/v1"):
        body_from("http://server/v1")
    assert proxies == ["socks5://proxy:1080"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_is_sent_its_login_which_is_not_shown(scheme, monkeypatch):
    async def go():
        heads = []

        async def proxy(reader, writer):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 407 Who?\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(proxy, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setattr(transport, "proxy_of", lambda _: f"http://me:secret123@127.0.0.1:{port}")
        client = HttpClient("http://nowhere.example/v1", timeout=60.0)
        async with server:
            try:
                with transport.sampler_errors("nowhere"):
                    async with client.request("GET", f"{scheme}://nowhere.example/v1") as response:
                        assert response.status == 407
                    return heads, ""
            except UnreachableError as error:
                return heads, str(error)
            finally:
                await client.close()

    [head], words = asyncio.run(go())
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0MTIz\r\n" in head
    refusal = "nowhere cannot be reached: its proxy says 407 (Who?). Is the server running?"
    assert words == ("" if scheme == "http" else refusal)


def read(content, headers=None, *, max_bytes):
    with answered_by(lambda _: httpx.Response(200, headers=headers, stream=httpx.ByteStream(content))):
        return body_from("http://server/v1", max_bytes)


@pytest.mark.parametrize("headers", [None, {"content-encoding": "gzip"}])
def test_a_reply_is_read_up_to_its_bound_and_not_beyond(headers):
    packed = gzip.compress(b"x" * 100) if headers else b"x" * 100
    assert read(packed, headers, max_bytes=100) == b"x" * 100
    with pytest.raises(ReplyError, match="over 99 bytes"):
        read(packed, headers, max_bytes=99)


def test_a_reply_that_is_packed_twice_is_not_read():
    packed, header = gzip.compress(gzip.compress(b"x")), ("content-encoding", "gzip")
    with pytest.raises(ReplyError, match="'gzip, gzip', which was not asked for"):
        read(packed, [header, header], max_bytes=100)


def test_lines_are_split_at_line_feeds_alone():
    async def go(*parts):
        async def stream():
            for part in parts:
                yield part

        return [lines async for lines in transport.split_lines(stream(), 9)]

    parts = b"a\nb\n\xe2\x80\xa8", b"c\n", b"d"
    assert asyncio.run(go(*parts)) == [[b"a\n", b"b\n"], [b"\xe2\x80\xa8c\n"], [b"d"]]
    with pytest.raises(ReplyError, match="a line of over 9 bytes"):
        asyncio.run(go(b"0123456789"))


def test_a_failed_exchange_is_told_without_the_key_and_a_bug_stays_a_bug():
    redactor = Redactor("a-secret-key")
    with pytest.raises(UnreachableError) as caught, transport.sampler_errors("http://server/v1", redactor):
        raise aiohttp.ConnectionTimeoutError("no header a-secret-key")
    assert "[redacted]" in str(caught.value) and "a-secret-key" not in str(caught.value)
    assert isinstance(caught.value.__cause__, aiohttp.ConnectionTimeoutError)
    with pytest.raises(ZeroDivisionError), transport.sampler_errors("http://server/v1"):
        raise ZeroDivisionError
