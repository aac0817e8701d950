"""HTTP to a model's server: connections, what their failures mean, and replies that are read within bounds."""

import io
import ipaddress
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pets._extras import check_installed, require
from pets.errors import BusyError, InputError, RefusedError, ReplyError, SamplerError, UnreachableError
from pets.openai.headers import Redactor

if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT_S = 10.0
KEEPALIVE_S = 2.0  # servers hang up on idle connections after 5 s, and a request that meets the hang-up is lost
PIECE_BYTES = 1 << 18  # larger bodies go in pieces, so that other requests go on meanwhile
MAX_REPLY_BYTES = 64 << 20  # that are in memory at once: a whole reply, or one event of a stream
MAX_ERROR_BYTES = 64 << 10  # of a reply that is an error; what follows is not read
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # zlib tells them apart itself
JSON_HEADERS = {"Content-Type": "application/json"}
SOCKS_MODULES = ("aiohttp_socks", "python_socks")  # whose errors are all of the proxy
Payload: TypeAlias = "bytes | aiohttp.FormData | None"
"""What a request brings: JSON as bytes, a form, or nothing."""


class HttpClient:
    """Sends requests to the server at ``url``, with its key and headers, through its proxy; no redirects, no cookies.

    ``timeout`` is for each read of a reply, None where the caller bounds the whole. ``loopback`` is for a server of
    this machine: no proxy, no connections kept. Connections belong to the event loop of the first request, until
    :meth:`close`.

    aiohttp by itself: at 256 in flight a request costs httpx 1.5 times the processor time over aiohttp's pool, 13 times
    over its own.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None,
        loopback: bool = False,
    ) -> None:
        self._own = {"Accept": "*/*", "Accept-Encoding": "gzip", "User-Agent": "pets"}
        self._own |= {"Authorization": f"Bearer {key}"} if key else {}
        self._headers = headers or {}
        self._timeout, self._loopback = timeout, loopback
        proxy = None if loopback else proxy_of(url)
        self._socks_proxy = proxy if proxy and proxy.startswith("socks") else None  # which aiohttp does not speak
        self._proxy = None if self._socks_proxy else proxy
        if self._socks_proxy:
            check_installed("aiohttp_socks", "socks", "aiohttp-socks, which a SOCKS proxy needs,")
        self._secure = url.startswith("https:") or (self._proxy or "").startswith("https:")
        self._session: aiohttp.ClientSession | None = None

    def request(
        self, method: str, url: str, data: Payload = None, *, headers: Mapping[str, str] | None = None
    ) -> "AbstractAsyncContextManager[aiohttp.ClientResponse]":
        """Send a request; the response comes with its head read. Bytes are JSON, unless ``headers`` say otherwise."""
        if self._session is None:
            self._session = self._open()
        large = isinstance(data, bytes) and len(data) > PIECE_BYTES
        return self._session.request(
            method,
            url,
            data=io.BytesIO(data) if large else data,  # type: ignore[arg-type]
            headers=headers or (JSON_HEADERS if isinstance(data, bytes) else {}),
            allow_redirects=False,
            proxy=self._proxy,
        )

    async def close(self) -> None:
        """Close every connection; the next request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> "aiohttp.ClientSession":
        import aiohttp
        from multidict import CIMultiDict

        headers = CIMultiDict(self._own)
        headers.update(self._headers)
        options: dict[str, Any] = {"force_close": True} if self._loopback else {"keepalive_timeout": KEEPALIVE_S}
        options["ssl"] = tls_context() if self._secure else True
        options["limit"] = 0  # how many are in flight is the caller's business
        if self._socks_proxy:
            proxy = self._socks_proxy.replace("socks5h:", "socks5:", 1)  # names are looked up there by either
            connector = require("aiohttp_socks", "socks").ProxyConnector.from_url(proxy, **options)
        else:
            connector = aiohttp.TCPConnector(**options)
        return aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=self._timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # it would unpack a part whole before it can be counted
        )


def sampler_error(server: str, error: Exception) -> SamplerError | None:
    """What a failed exchange means, by what was raised on the way; ``None`` for what is no matter of the network."""
    import aiohttp

    name = type(error).__name__
    match error:
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return RefusedError(f"{server} is no address of a server: {error}")
        case aiohttp.ClientHttpProxyError():  # whose own words hold the proxy's address, and its password with it
            reason = f"its proxy says {error.status} ({error.message})"
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            errno = error.errno if type(error) is aiohttp.ClientConnectorError else None  # no name, proxy or TLS
            reason = os.strerror(errno) if errno else str(error) or name
        case _ if type(error).__module__.partition(".")[0] in SOCKS_MODULES:
            reason = str(error) or name
        case TimeoutError():
            return BusyError(f"{server} gave no answer in time ({name}).")
        case aiohttp.ClientError() | OSError():
            return ReplyError(f"{server} broke off its reply ({name}): {error}")
        case _:
            return None
    return UnreachableError(f"{server} cannot be reached: {reason}. Is the server running?")


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


def proxy_of(url: str) -> str | None:
    """The environment's proxy for the server, none for this machine; logins of ~/.netrc are never read."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    with suppress(ValueError):  # it is a name
        if ipaddress.ip_address(host).is_loopback:
            return None
    if host in ("", "localhost") or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def check_address(url: str) -> None:
    """Refuse what no request can be sent to, and an address that must not be shown."""
    if "@" in (url.partition("//")[2] or url).partition("/")[0]:
        raise InputError(
            "the server's address holds a user name or a password, which would be stored and shown with it. "
            "Leave it out, and give it as the key."
        )
    with suppress(ValueError):  # such as http://[
        if urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname:
            return
    words = "is no address of a server; it begins with http:// or https://, such as http://localhost:8000/v1."
    raise InputError(f'"{url}" {words}')


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """One for all clients: it reads every authority's certificate, which takes longer than the rest of a client."""
    import certifi

    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    return ssl.create_default_context(cafile=file or (None if folder else certifi.where()), capath=folder)


async def parts_of(response: "aiohttp.ClientResponse", max_bytes: int) -> AsyncIterator[bytes]:
    """A reply's body as it comes, decompressed; over ``max_bytes``, on the way or unpacked, is a ``ReplyError``."""
    encoding = ", ".join(response.headers.getall("content-encoding", ())).strip().lower()
    if encoding not in ("identity", "gzip", "deflate", ""):
        raise ReplyError(f"the server's reply is encoded as {encoding[:40]!r}, which was not asked for.")
    unpacker = zlib.decompressobj(GZIP_OR_ZLIB) if encoding in ("gzip", "deflate") else None
    packed_bytes = size = 0
    async for packed in response.content.iter_any():
        packed_bytes += len(packed)
        for part in (packed,) if unpacker is None else _unpacked(unpacker, packed):
            size += len(part)
            if size > max_bytes:
                break
            yield part
        if max(size, packed_bytes) > max_bytes:
            raise ReplyError(f"the server's reply is over {max_bytes} bytes; the rest was not read.")
    if unpacker is not None and packed_bytes and not unpacker.eof:
        raise ReplyError("the server's reply broke off inside of its compression.")


def _unpacked(unpacker: "zlib._Decompress", packed: bytes) -> Iterator[bytes]:
    try:
        while packed and not unpacker.eof:
            yield unpacker.decompress(packed, PIECE_BYTES)
            packed = unpacker.unconsumed_tail
    except zlib.error as error:
        raise ReplyError(f"the server's reply cannot be decompressed ({error}).") from error


async def body_of_reply(response: "aiohttp.ClientResponse", max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """A reply's whole body, decompressed; a larger one is a ``ReplyError``."""
    body = bytearray()
    async for part in parts_of(response, max_bytes):
        body += part
    return bytes(body)


async def start_of_reply(response: "aiohttp.ClientResponse") -> bytes:
    """The beginning of an error's body, as much of it as can be read: its status has been understood."""
    body = bytearray()
    with suppress(ReplyError):
        async for part in parts_of(response, MAX_ERROR_BYTES):
            body += part
    return bytes(body)


async def split_lines(parts: AsyncIterator[bytes], max_line_bytes: int) -> AsyncIterator[list[bytes]]:
    """The lines that each part completes, with their ends; split at line feeds alone: U+2028 may stand within JSON."""
    rest = bytearray()
    async for part in parts:
        first, *others = part.split(b"\n")
        rest += first
        if others:
            *lines, last = [bytes(rest), *others]
            yield [line + b"\n" for line in lines]
            rest = bytearray(last)
        if len(rest) > max_line_bytes:
            raise ReplyError(f"the server's stream has a line of over {max_line_bytes} bytes; the rest was not read.")
    if rest:
        yield [bytes(rest)]
