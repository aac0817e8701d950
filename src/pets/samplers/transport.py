"""HTTP to a model's server: connections, what their failures mean, and replies that are read within bounds."""

import ipaddress
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from pets.errors import BusyError, InputError, RefusedError, ReplyError, SamplerError, UnreachableError
from pets.openai.redaction import Redactor

if TYPE_CHECKING:
    import aiohttp

__all__ = [
    "CONNECT_TIMEOUT_S",
    "MAX_REPLY_BYTES",
    "body_of_reply",
    "check_address",
    "http_client",
    "http_transport",
    "in_pieces",
    "parsed_url",
    "parts_of",
    "request_headers",
    "sampler_error",
    "sampler_errors",
    "split_lines",
    "start_of_reply",
]

CONNECT_TIMEOUT_S = 10.0
KEEPALIVE_S = 2.0  # servers hang up on idle connections after 5 s, and a request that meets the hang-up is lost
PIECE_BYTES = 1 << 18  # larger bodies go in pieces, so that other requests go on meanwhile
MAX_REPLY_BYTES = 64 << 20  # that are in memory at once: a whole reply, or one event of a stream
MAX_ERROR_BYTES = 64 << 10  # of a reply that is an error; what follows is not read
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # zlib tells them apart itself


def request_headers(key: str | None, others: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers of every request; ``others`` come before ours."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
        "User-Agent": "pets",
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    replaced = {name.lower() for name in others or ()}
    return {name: value for name, value in headers.items() if name.lower() not in replaced} | dict(others or {})


def http_client(
    url: str, *, key: str | None = None, headers: Mapping[str, str] | None = None, timeout: float
) -> httpx.AsyncClient:
    """A client for the server at ``url``: its proxy, its key and headers; no redirects, no cookies."""
    return httpx.AsyncClient(
        headers=request_headers(key, headers),
        timeout=httpx.Timeout(timeout, connect=CONNECT_TIMEOUT_S, pool=None),
        transport=http_transport(url, loopback=False),
        trust_env=False,
        verify=False,  # the transport has its own
    )


def sampler_error(server: str, error: Exception) -> SamplerError | None:
    """What a failed exchange means, by what was raised on the way; ``None`` for what is no matter of the network."""
    import aiohttp

    # The transport calls every lost connection a timeout of connecting; what aiohttp raised is the cause of that.
    cause = error.__cause__ if isinstance(error.__cause__, aiohttp.ClientError) else error
    name = type(cause).__name__
    match cause:
        case httpx.InvalidURL() | httpx.UnsupportedProtocol() | aiohttp.InvalidURL():
            return RefusedError(f"{server} is no address of a server: {error}")
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.ProxyError() | aiohttp.ClientHttpProxyError():
            return UnreachableError(f"{server} cannot be reached: {error}. Is the server running?")
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            errno = cause.errno if type(cause) is aiohttp.ClientConnectorError else None  # no name, proxy or TLS
            reason = os.strerror(errno) if errno else str(error) or name
            return UnreachableError(f"{server} cannot be reached: {reason}. Is the server running?")
        case httpx.TimeoutException() | TimeoutError():
            return BusyError(f"{server} gave no answer in time ({name}).")
        case httpx.HTTPError() | httpx.StreamError() | aiohttp.ClientError() | OSError():
            return ReplyError(f"{server} broke off its reply ({name}): {error}")
    return None


@contextmanager
def sampler_errors(server: str, redactor: Redactor | None = None) -> Iterator[None]:
    """Whatever goes wrong with an exchange becomes a ``SamplerError``, without the key; the rest stays as it is."""
    try:
        yield
    except Exception as error:
        if (failure := sampler_error(server, error)) is None:
            raise
        if redactor is not None:
            failure.args = (redactor.text(str(failure)),)  # a header that cannot be read stands in it
        raise failure from error


def http_transport(url: str, loopback: bool) -> httpx.AsyncBaseTransport:
    """aiohttp under httpx: its pool costs the same for hundreds of connections, httpx's grows with their square."""
    import aiohttp
    from httpx_aiohttp import AiohttpTransport

    proxy = None if loopback else _proxy(url)
    if proxy and proxy.startswith("socks"):  # which aiohttp does not speak
        return httpx.AsyncHTTPTransport(proxy=proxy, verify=_tls(), limits=httpx.Limits(keepalive_expiry=KEEPALIVE_S))
    verified = _tls() if any((address or "").startswith("https:") for address in (url, proxy)) else False

    def session() -> "aiohttp.ClientSession":
        connector = aiohttp.TCPConnector(
            limit=0,  # how many are in flight is the caller's business
            ssl=verified,
            **({"force_close": True} if loopback else {"keepalive_timeout": KEEPALIVE_S}),
        )
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    return AiohttpTransport(client=session, verify=verified, proxy=httpx.Proxy(proxy) if proxy else None)


def _proxy(url: str) -> str | None:
    """The environment's proxy for the server, none for this machine; logins of ~/.netrc are never read."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or _is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    """
    >>> _is_loopback("localhost"), _is_loopback("127.0.0.1"), _is_loopback("::1"), _is_loopback("example.org")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(url: str) -> None:
    """Refuse what no request can be sent to, and an address that must not be shown."""
    if _has_login(url):
        raise InputError(
            "the server's address holds a user name or a password, which would be stored and shown with it. "
            "Leave it out, and give it as the key."
        )
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # such as http://[
        usable = False
    if not usable:
        raise InputError(
            f'"{url}" is no address of a server; it begins with http:// or https://, such as http://localhost:8000/v1.'
        )


def _has_login(url: str) -> bool:
    """
    >>> _has_login("http://me:secret@localhost:8000/v1"), _has_login("http://localhost:8000/v1/@me")
    (True, False)
    """
    return "@" in (url.partition("//")[2] or url).partition("/")[0]


parsed_url = lru_cache(maxsize=64)(httpx.URL)  # parsing takes longer than sending


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """One for all clients: it reads every authority's certificate, which takes longer than the rest of a client."""
    return httpx.create_ssl_context()


def in_pieces(content: bytes) -> bytes | AsyncIterator[bytes]:
    """A body as it is sent: a large one piece by piece, with its length in the headers."""
    return content if len(content) <= PIECE_BYTES else _pieces(content)


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]


async def parts_of(response: httpx.Response, max_bytes: int) -> AsyncIterator[bytes]:
    """A reply's body as it comes, decompressed; more than ``max_bytes``, on the way or unpacked, is a ``ReplyError``.

    httpx unpacks a part whole before it can be counted; here a part is unpacked piece by piece.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "deflate", ""):
        raise ReplyError(f"the server's reply is encoded as {encoding[:40]!r}, which was not asked for.")
    unpacker = zlib.decompressobj(GZIP_OR_ZLIB) if encoding in ("gzip", "deflate") else None
    stream, packed_bytes, size = response.stream, 0, 0
    assert isinstance(stream, httpx.AsyncByteStream)
    async for packed in stream:
        packed_bytes += len(packed)
        for part in _unpacked(unpacker, packed):
            size += len(part)
            if size > max_bytes:
                break
            yield part
        if max(size, packed_bytes) > max_bytes:
            raise ReplyError(f"the server's reply is over {max_bytes} bytes; the rest was not read.")
    if unpacker is not None and packed_bytes and not unpacker.eof:
        raise ReplyError("the server's reply broke off inside of its compression.")


def _unpacked(unpacker: "zlib._Decompress | None", packed: bytes) -> Iterator[bytes]:
    if unpacker is None:
        yield packed
        return
    try:
        while packed and not unpacker.eof:
            yield unpacker.decompress(packed, PIECE_BYTES)
            packed = unpacker.unconsumed_tail
    except zlib.error as error:
        raise ReplyError(f"the server's reply cannot be decompressed ({error}).") from error


async def body_of_reply(response: httpx.Response, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """A reply's whole body, decompressed; a larger one is a ``ReplyError``."""
    return b"".join([part async for part in parts_of(response, max_bytes)])


async def start_of_reply(response: httpx.Response) -> bytes:
    """The beginning of an error's body, as much of it as can be read: its status has been understood."""
    parts = bytearray()
    with suppress(ReplyError):
        async for part in parts_of(response, MAX_ERROR_BYTES):
            parts += part
    return bytes(parts)


async def split_lines(parts: AsyncIterator[bytes], max_line_bytes: int) -> AsyncIterator[bytes]:
    """Lines with their ends, split at line feeds alone; httpx also splits at U+2028, which may stand within JSON."""
    rest = bytearray()
    async for part in parts:
        first, *others = part.split(b"\n")
        rest += first
        for line in others:
            yield bytes(rest) + b"\n"
            rest = bytearray(line)
        if len(rest) > max_line_bytes:
            raise ReplyError(f"the server's stream has a line of over {max_line_bytes} bytes; the rest was not read.")
    if rest:
        yield bytes(rest)
