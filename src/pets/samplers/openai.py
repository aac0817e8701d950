"""Any OpenAI-compatible server: vLLM, SGLang, llama.cpp, hosted APIs."""

import asyncio
import gc
import ipaddress
import json
import logging
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from pets.errors import BusyError, InputError, RefusedError, ReplyError, SamplerError, UnreachableError
from pets.openai.headers import RateLimits, check_headers, secrets_of
from pets.openai.models import context_tokens, parse_models
from pets.openai.redaction import Redactor
from pets.openai.refusals import FIELD_STATUSES, FieldsRefusedError, RefusedFields, named_fields
from pets.openai.request import DIALECTS, DialectName, body_of, dialect_of, optional_fields, path_of
from pets.openai.response import ResponseReader, check_size, error_from, error_message
from pets.prompts import Completion, Prompt, Sampling
from pets.samplers.base import Sampler

if TYPE_CHECKING:
    import aiohttp

__all__ = [
    "MAX_REPLY_BYTES",
    "OpenAISampler",
    "body_of_reply",
    "http_client",
    "in_pieces",
    "parts_of",
    "sampler_error",
    "split_lines",
    "start_of_reply",
]

LOGGER = logging.getLogger("pets.samplers")
MAX_MODELS = 1000  # whose refusals are remembered
CONNECT_TIMEOUT_S = 10.0
MODELS_TIMEOUT_S = 10.0
MAX_MODELS_BYTES = 4 << 20
KEY_STATUSES = frozenset({401, 403})  # of a key that is wrong or missing
KEEPALIVE_S = 2.0  # servers hang up on idle connections after 5 s, and a request that meets the hang-up is lost
PIECE_BYTES = 1 << 18  # larger bodies go in pieces, so that other requests go on meanwhile
MAX_REPLY_BYTES = 64 << 20  # that are in memory at once: a whole reply, or one event of a stream
PLAIN_SHARE = 4  # a reply without log-probabilities may have a fourth of that: others wait while it is parsed
LARGE_REPLY_BYTES = 1 << 20  # more is read in a thread
MAX_ERROR_BYTES = 64 << 10  # of a reply that is an error; what follows is not read
MAX_STREAM_TOKENS = 1 << 18  # of a trace without a limit, read from a stream
EVENT_BYTES = 1 << 10  # of a stream per token, at most, without log-probabilities
LOGPROB_BYTES = 256  # per token and candidate, at most
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # zlib tells them apart itself


class OpenAISampler(Sampler):
    """Traces from the server at ``url`` (with its ``/v1``), several in one request.

    ``stream`` reads log-probabilities while they come and holds one token's at a time: for long traces. ``dialect``
    says which fields the server knows beyond OpenAI's own, by its address if not given; one that it refuses with a 400
    or 422 that names it is left out from then on, unless that would change what was asked. ``headers`` go with every
    request. ``loopback`` is for a server of this machine: no proxies, no connections kept. Tries nothing else twice.
    A request takes ``timeout`` seconds at most; a reply of more than ``max_reply_bytes`` (a fourth of it without
    log-probabilities), after decompression, is a ``ReplyError``. A stream may be longer: one event of it may not, and
    all of it not longer than its tokens need.

    One object carries hundreds of requests in flight, and serves one block after another. ``transport`` replaces the
    network, for tests.

        async with OpenAISampler("http://localhost:8000/v1", "Qwen/Qwen3-8B") as sampler:
            traces = await sampler.sample(Prompt.chat("What is 17 + 25?"), n=8, seed=0, sampling=Sampling())
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        dialect: DialectName | None = None,
        stream: bool = False,
        timeout: float = 600.0,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        transport: httpx.AsyncBaseTransport | None = None,
        loopback: bool = False,
    ) -> None:
        if key and not (key.isascii() and key.isprintable()):  # httpx's own error would show it
            raise InputError("the key holds a line break or another character that no key has. Copy it again.")
        _check_address(url)
        self._model, self._dialect, self._stream = model, DIALECTS[dialect or dialect_of(url)], stream
        self._has_key = bool(key or headers)
        self._refused: dict[str, RefusedFields] = {}  # by model
        self._base = url.rstrip("/")
        # The transport itself: a client's cookies, redirects and merged headers cost as much as the exchange.
        self._given_transport, self._loopback = transport, loopback
        self._transport: httpx.AsyncBaseTransport | None = None  # made in the event loop that uses it
        self._headers = _headers(key, check_headers(headers or {}))
        self._redactor = Redactor(key, *secrets_of(headers or {}))
        self._timeout = httpx.Timeout(timeout, connect=CONNECT_TIMEOUT_S, pool=None).as_dict()
        self._total_s, self._max_reply_bytes = timeout, max_reply_bytes
        self.usage_of_one = self._dialect.usage_of_one
        """Whether this server's usage counts the tokens of one choice only: by its dialect, or as was seen."""

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`; a prompt with a body is answered whole, with the server's own choices."""
        body = body_of(self._model, prompt, n, seed, sampling, self._dialect)
        if self._stream and prompt.body is None:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if len(self._refused) >= MAX_MODELS:  # a gateway's clients name what they like
            self._refused.clear()
        refused = self._refused.setdefault(str(body["model"]), RefusedFields())
        while True:
            sent = refused.without(body)
            try:
                traces = await self._traces(prompt, n, seed, sampling, sent)
            except FieldsRefusedError as error:  # nothing was sampled, and each time there are fewer fields
                refused.add(error, sent, optional_fields(body, prompt, sampling, self._dialect))
                continue
            if words := refused.news():  # a host may refuse one field after another: they are said together
                LOGGER.warning("%s: %s (%s).", self._base, words, body["model"])
            return traces

    async def _traces(
        self, prompt: Prompt, n: int, seed: int, sampling: Sampling, body: Mapping[str, object]
    ) -> list[Completion]:
        """The traces that one request brings; ``seed`` is theirs also where ``body`` may not say so."""
        stream = bool(body.get("stream")) and prompt.body is None
        keep_raw = prompt.body is not None
        reader = ResponseReader(
            n, sampling, keep_raw=keep_raw, usage_of_one=self.usage_of_one, prompt_limit=prompt.max_tokens
        )
        async with self._post(self._base + path_of(prompt), body) as response:
            if stream:
                per_token = EVENT_BYTES + LOGPROB_BYTES * (sampling.top_logprobs or 0)
                longest = max(self._max_reply_bytes, n * min(sampling.token_limit, MAX_STREAM_TOKENS) * per_token)
                await self._read_events(response, reader, longest)
            else:
                detailed = body.get("logprobs") or body.get("prompt_logprobs")
                longest = self._max_reply_bytes // (1 if detailed else PLAIN_SHARE)
                content = await body_of_reply(response, longest)
                if len(content) <= LARGE_REPLY_BYTES:
                    reader.read(self._redactor.data(content))
                else:  # others are served meanwhile
                    await asyncio.to_thread(self._read_large, reader, content, detailed=bool(detailed))
        self.usage_of_one = self.usage_of_one or reader.usage_of_one
        if not (stream and self._redactor):
            return reader.completions()
        return [replace(trace, text=self._redactor.text(trace.text)) for trace in reader.completions()]

    def _read_large(self, reader: ResponseReader, content: bytes, *, detailed: bool) -> None:
        if not detailed:
            check_size(content)
        collects = gc.isenabled()
        gc.disable()  # it would look through all that was read, again and again
        try:
            reader.read(self._redactor.data(content))
        finally:
            if collects:
                gc.enable()

    async def models(self) -> list[dict[str, Any]]:
        """The server's models, as it lists them; over a connection of its own, which is closed after."""
        transport = self._given_transport or _transport(self._base, self._loopback)
        try:
            request = httpx.Request(
                "GET", self._base + "/models", headers=self._headers, extensions={"timeout": self._timeout}
            )
            async with asyncio.timeout(MODELS_TIMEOUT_S):
                response = await transport.handle_async_request(request)
                content = self._redactor.data(await body_of_reply(response, MAX_MODELS_BYTES))
            if response.status_code != httpx.codes.OK:
                raise self._error(response.status_code, response.headers, content, {})
            return parse_models(content)
        except Exception as error:
            if (failure := self._failure(error)) is None:
                raise
            raise failure from error
        finally:
            await transport.aclose()

    async def max_model_len(self) -> int | None:
        """As the list of models says; ``None`` where there is no such list, or it does not say."""
        try:
            models = await self.models()
        except ReplyError:
            return None
        except RefusedError as error:
            if error.status in KEY_STATUSES:
                raise
            return None
        return next((context_tokens(model) for model in models if model["id"] == self._model), None)

    @property
    def left_out(self) -> list[str]:
        """The fields that the server has refused for this model, which are no longer sent."""
        refused = self._refused.get(self._model)
        return [] if refused is None else refused.names

    async def close(self) -> None:
        """Close every connection; the next request opens new ones."""
        used, self._transport = self._transport, None
        if used is not None:
            await used.aclose()

    async def ask(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Another question, to a path beside /v1: JSON there and back."""
        async with self._post(f"{self._base.removesuffix('/v1')}{path}", body) as response:
            text = self._redactor.data(await body_of_reply(response, self._max_reply_bytes))
        try:
            data: dict[str, Any] = json.loads(text)
        except ValueError as error:
            words = error_message(text.decode(errors="replace"))
            raise ReplyError(f"{path}: the server's reply is not JSON: {words}") from error
        return data

    async def _read_events(self, response: httpx.Response, reader: ResponseReader, max_bytes: int) -> None:
        async for line in split_lines(parts_of(response, max_bytes), self._max_reply_bytes):
            if line.startswith(b"data:"):
                data = line[5:].strip()
                if data == b"[DONE]":
                    return
                reader.read(self._redactor.data(data))

    @asynccontextmanager
    async def _post(self, url: str, body: Mapping[str, object]) -> AsyncIterator[httpx.Response]:
        """The server's response, headers read and status good; whatever goes wrong becomes a SamplerError."""
        content = json.dumps(body).encode()
        headers = {**self._headers, "Content-Length": str(len(content))}
        try:
            request = httpx.Request(
                "POST",
                _parsed_url(url),
                headers=headers,
                content=in_pieces(content),
                extensions={"timeout": self._timeout},
            )
            if self._transport is None:
                self._transport = self._given_transport or _transport(self._base, self._loopback)
            async with asyncio.timeout(self._total_s):  # the transport's own begins anew with every byte
                response = await self._transport.handle_async_request(request)
                try:
                    self.rate_limits = RateLimits.from_headers(response.headers) or self.rate_limits
                    if response.status_code != httpx.codes.OK:
                        content = self._redactor.data(await start_of_reply(response))
                        raise self._error(response.status_code, response.headers, content, body)
                    yield response
                finally:
                    await response.aclose()
        except Exception as error:
            if (failure := self._failure(error)) is None:
                raise
            raise failure from error

    def _error(
        self, status: int, headers: Mapping[str, str], content: bytes, body: Mapping[str, object]
    ) -> SamplerError:
        """What an error response means; one that names fields of the request as what it will not take says which."""
        error = error_from(status, headers, content)
        if status in FIELD_STATUSES and (names := named_fields(content, body.keys())):
            return FieldsRefusedError(str(error), names, status)
        if status == httpx.codes.UNAUTHORIZED and not self._has_key:
            words = str(error).rstrip(".")
            error.args = (f"{words}. No key was sent: set OPENAI_API_KEY, or the variable that --key-env names.",)
        return error

    def _failure(self, error: Exception) -> SamplerError | None:
        """What a failed exchange means, without the key; ``None`` for what is no matter of the network."""
        failure = sampler_error(self._base, error)
        if failure is not None:
            failure.args = (self._redactor.text(str(failure)),)  # a header that cannot be read stands in it
        return failure


def _headers(key: str | None, others: Mapping[str, str] | None = None) -> dict[str, str]:
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
        headers=_headers(key, headers),
        timeout=httpx.Timeout(timeout, connect=CONNECT_TIMEOUT_S, pool=None),
        transport=_transport(url, loopback=False),
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
            return UnreachableError(f"{server} cannot be reached: {error or name}. Is the server running?")
        case httpx.TimeoutException() | TimeoutError():
            return BusyError(f"{server} gave no answer in time ({name}).")
        case httpx.HTTPError() | httpx.StreamError() | aiohttp.ClientError() | OSError():
            return ReplyError(f"{server} broke off its reply ({name}): {error}")
    return None


def _transport(url: str, loopback: bool) -> httpx.AsyncBaseTransport:
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


def _check_address(url: str) -> None:
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


_parsed_url = lru_cache(maxsize=64)(httpx.URL)  # parsing takes longer than sending


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
