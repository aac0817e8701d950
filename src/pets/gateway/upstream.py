"""The server behind the gateway: traces for votes, and bytes for what passes through.

aiohttp speaks to it: through httpx the requests upstream took most of the processor time of the gateway.
"""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from yarl import URL

from pets.errors import BusyError, InputError, RefusedError, ReplyError, SamplerError
from pets.gateway.replies import TOP, Reply, read_reply
from pets.openai.errors import ApiError
from pets.openai.response import error_from
from pets.samplers.local import LocalSampler

__all__ = ["Upstream", "head_of", "served"]

HERE = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?")
PASSED_ON = ("content-type", "retry-after", "content-encoding")
LARGE = 1 << 20  # bytes; more than that aiohttp wants as a file, to be sent piece by piece
UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class Upstream:
    """The server at a URL (with its ``/v1``), or a local model, which runs from :meth:`open` to :meth:`close`.

    ``key`` goes to the server alone: it is neither logged nor shown.
    """

    def __init__(self, server: str | LocalSampler, *, key: str | None = None, timeout: float = 600.0) -> None:
        self._local = None if isinstance(server, str) else server
        self.url = _checked(server) if isinstance(server, str) else ""
        self._key, self._timeout = key, timeout
        self._sessions: tuple[aiohttp.ClientSession, aiohttp.ClientSession] | None = None
        self._alone = 0  # replies with one trace where several were asked for, in a row
        self.many = True
        """Whether the server gives several traces in one request."""

    @property
    def has_key(self) -> bool:
        """Whether the server is spoken to with a key of the gateway's own."""
        return self._key is not None

    async def open(self) -> None:
        """Start the local model, if that is the server; a server elsewhere is there or not."""
        if self._local is not None:
            await self._local.__aenter__()
            self.url, self._key = self._local.url, self._local.key

    def check(self, model: str) -> None:
        """Refuse a name that is not the local model's, which answers to any; a server elsewhere knows its own."""
        if self._local is not None and model != self._local.weights.name:
            found = f"There is no model {model!r}; this server has {self._local.weights.name!r}."
            raise ApiError(found, status=404, param="model", code="model_not_found")

    async def sample(self, fields: Mapping[str, Any], n: int, seed: int, weighted: bool) -> Reply:
        """``n`` traces or fewer; whatever goes wrong is a ``SamplerError``."""
        body = {**fields, "n": n, "seed": seed}
        if weighted:
            body |= {"logprobs": True, "top_logprobs": TOP}
        elif self._local is not None:  # llama.cpp's usage counts one trace of a request; log-probabilities count all
            body |= {"logprobs": True, "top_logprobs": body.get("top_logprobs") or 1}
        content = await self._asked("POST", "/chat/completions", _sent(body))
        reply = read_reply(content, n, weighted, counted=self._local is not None)
        self._learn(n, len(reply.drawn))
        return reply

    @asynccontextmanager
    async def passed(self, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to a body as the client sent it; bytes are read as they come."""
        kept = {name: headers[name] for name in ("accept", "content-type", "authorization") if name in headers}
        kept["accept-encoding"] = headers.get("accept-encoding", "identity")  # what comes back is the client's to read
        try:
            response = await self._session(raw=True).post(
                self._at("/chat/completions"), data=_sent(body), headers=kept, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _failure(error) from error
        try:
            yield response
        finally:
            response.close()

    async def models(self) -> list[dict[str, Any]]:
        """What the server says it has."""
        try:
            async with asyncio.timeout(10.0):
                content = await self._asked("GET", "/models", None)
        except TimeoutError as error:
            raise _failure(error) from error
        try:
            return [one for one in json.loads(content)["data"] if isinstance(one["id"], str)]
        except (ValueError, TypeError, KeyError) as error:
            raise ReplyError("the server's list of models cannot be read.") from error

    async def close(self) -> None:
        """Close every connection and end a local model; twice does no harm."""
        sessions, self._sessions = self._sessions, None
        for session in sessions or ():
            await session.close()
        if self._local is not None:
            await self._local.close()

    async def _asked(self, method: str, path: str, body: bytes | io.BytesIO | None) -> bytes:
        """The body of a good reply; any other raises."""
        session, headers = self._session(), {"content-type": "application/json"}
        try:
            async with session.request(
                method, self._at(path), data=body, headers=headers, allow_redirects=False
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _failure(error) from error
        if response.status != httpx.codes.OK:
            raise error_from(response.status, response.headers, content)
        return content

    def _at(self, path: str) -> URL:
        return URL(self.url + path, encoded=True)

    def _session(self, raw: bool = False) -> aiohttp.ClientSession:
        """The session, made in the loop that uses it; a ``raw`` one leaves compressed replies as they are."""
        if self._sessions is None:
            # Servers hang up on idle connections after 5 s, and a request that meets the hang-up is lost.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0, ssl=self._verified())
            options: dict[str, Any] = {
                "connector": connector,
                "headers": {"Authorization": f"Bearer {self._key}"} if self._key else {},
                "timeout": aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=self._timeout),
                "cookie_jar": aiohttp.DummyCookieJar(),
                "proxy": _proxy(self.url),
            }
            reading = aiohttp.ClientSession(**options)
            self._sessions = reading, aiohttp.ClientSession(**options, connector_owner=False, auto_decompress=False)
        return self._sessions[raw]

    def _verified(self) -> Any:
        """The certificates to trust, the same as everywhere in PETS; making a context takes a while."""
        return httpx.create_ssl_context() if self.url.startswith("https") else False

    def _learn(self, asked: int, got: int) -> None:
        """A server that always gives one choice is asked for one at a time."""
        if asked > 1:
            self._alone = self._alone + 1 if got == 1 else 0
            self.many = self._alone < 2


def _proxy(url: str) -> str | None:
    """The environment's, looked up once; aiohttp's own look also takes logins from ~/.netrc, for every request."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return None if HERE.fullmatch(host) or proxy_bypass(host) else getproxies().get(parts.scheme)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{url!r} is no address of a server; give one such as http://localhost:8000/v1.")
    return url.rstrip("/")


def head_of(response: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """The headers that go on to a client."""
    given = response.headers
    return [(name.encode(), given[name].encode("utf-8", "surrogateescape")) for name in PASSED_ON if name in given]


def served(error: Exception) -> bool:
    """Whether the upstream server may have sampled, and charged, although nothing usable came back."""
    if isinstance(error, RefusedError):
        return False
    if isinstance(error, BusyError):
        return error.status is None and not isinstance(error.__cause__, UNREACHED)
    return True


def _failure(error: aiohttp.ClientError | TimeoutError) -> SamplerError:
    if isinstance(error, UNREACHED):
        return BusyError(f"the server cannot be reached: {type(error).__name__}.")
    if isinstance(error, TimeoutError):
        return BusyError(f"the server gave no answer in time ({type(error).__name__}).")
    return ReplyError(f"the server broke off its reply ({type(error).__name__}).")


def _sent(body: bytes | dict[str, Any]) -> bytes | io.BytesIO:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return content if len(content) < LARGE else io.BytesIO(content)
