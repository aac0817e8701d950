"""The server behind the gateway: traces for votes, and bytes for what passes through."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from pets.errors import BusyError, InputError, RefusedError, ReplyError
from pets.samplers import Completion, Sampling
from pets.samplers.openai import error_of
from pets.samplers.replies import Choice, message_of

__all__ = ["Drawn", "Reply", "Upstream", "head_of", "served"]

PER_CLIENT = 32  # one client's bookkeeping grows with the square of what it has in flight
MOST_CLIENTS = 32
TOP = 20
HERE = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?")
PASSED_ON = ("content-type", "retry-after", "content-encoding")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One trace, and the choice as the server gave it."""

    completion: Completion
    choice: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """Traces of one request and what they took."""

    drawn: tuple[Drawn, ...]
    tokens: int
    prompt_tokens: int


class Upstream:
    """The server at ``url`` (with its ``/v1``); ``key`` goes to it alone: it is neither logged nor shown."""

    def __init__(self, url: str, *, key: str | None = None, timeout: float = 600.0, concurrency: int = 256) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{url!r} is no address of a server; give one such as http://localhost:8000/v1.")
        self.url = url.rstrip("/")
        self.has_key = key is not None
        # Making a context takes a while, and plain HTTP needs none.
        verify = httpx.create_ssl_context() if parts.scheme == "https" else False
        here = HERE.fullmatch(parts.hostname) is not None
        self._clients = [
            httpx.AsyncClient(
                headers={"Authorization": f"Bearer {key}"} if key else {},
                timeout=httpx.Timeout(timeout, connect=10.0, pool=None),
                # Servers hang up on idle connections after 5 s, and a request that meets the hang-up is lost.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=2.0),
                trust_env=not here,
                verify=verify,
            )
            for _ in range(min(MOST_CLIENTS, -(-concurrency // PER_CLIENT)))
        ]
        self._turn = 0
        self._alone = 0  # replies with one trace where several were asked for, in a row
        self.many = True
        """Whether the server gives several traces in one request."""

    async def sample(self, fields: Mapping[str, Any], n: int, seed: int, weighted: bool) -> Reply:
        """``n`` traces or fewer; whatever goes wrong is a ``SamplerError``."""
        body = {**fields, "n": n, "seed": seed}
        if weighted:
            body |= {"logprobs": True, "top_logprobs": TOP}
        try:
            response = await self._client().post(f"{self.url}/chat/completions", json=body)
        except httpx.TimeoutException as error:
            raise BusyError(f"the server gave no answer in time ({type(error).__name__}).") from error
        except httpx.RemoteProtocolError as error:
            raise ReplyError(f"the server broke off its reply: {error}") from error
        except httpx.HTTPError as error:
            raise BusyError(f"the server cannot be reached: {type(error).__name__}.") from error
        if response.status_code != httpx.codes.OK:
            raise error_of(response)
        reply = _read(response.content, n, weighted)
        self._learn(n, len(reply.drawn))
        return reply

    @asynccontextmanager
    async def passed(self, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """The response to a body as the client sent it; bytes are read as they come."""
        kept = {name: headers[name] for name in ("accept", "content-type", "authorization") if name in headers}
        kept["accept-encoding"] = headers.get("accept-encoding", "identity")  # what comes back is the client's to read
        client = self._client()
        request = client.build_request("POST", f"{self.url}/chat/completions", content=body, headers=kept)
        try:
            response = await client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise BusyError(f"the server cannot be reached: {type(error).__name__}.") from error
        try:
            yield response
        finally:
            await response.aclose()

    async def models(self) -> list[dict[str, Any]]:
        """What the server says it has."""
        try:
            response = await self._client().get(f"{self.url}/models", timeout=10.0)
        except httpx.HTTPError as error:
            raise BusyError(f"the server cannot be reached: {type(error).__name__}.") from error
        if response.status_code != httpx.codes.OK:
            raise error_of(response)
        try:
            found = response.json()["data"]
            return [one for one in found if isinstance(one["id"], str)]
        except (ValueError, TypeError, KeyError) as error:
            raise ReplyError("the server's list of models cannot be read.") from error

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients:
            await client.aclose()

    def _client(self) -> httpx.AsyncClient:
        self._turn = (self._turn + 1) % len(self._clients)
        return self._clients[self._turn]

    def _learn(self, asked: int, got: int) -> None:
        """A server that always gives one choice is asked for one at a time."""
        if asked > 1:
            self._alone = self._alone + 1 if got == 1 else 0
            self.many = self._alone < 2


def head_of(response: httpx.Response) -> list[tuple[bytes, bytes]]:
    """The headers that go on to a client."""
    return [(name.encode(), response.headers[name].encode()) for name in PASSED_ON if name in response.headers]


def _read(body: bytes, n: int, weighted: bool) -> Reply:
    """The traces of a whole body."""
    try:
        data = json.loads(body)
        choices = data["choices"][:n]
        usage = data.get("usage") or {}
        tokens, prompt_tokens = int(usage.get("completion_tokens") or 0), int(usage.get("prompt_tokens") or 0)
        drawn = tuple(_drawn(choice, tokens // max(1, len(choices)), weighted) for choice in choices)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        words = message_of(body[:400].decode(errors="replace"))
        raise ReplyError(f"the server's reply cannot be read: {words}") from error
    if not drawn:
        raise ReplyError("the server's reply has no choices; at least one was expected.")
    return Reply(drawn, tokens, prompt_tokens)


def _drawn(choice: Mapping[str, Any], tokens: int, weighted: bool) -> Drawn:
    read = Choice(Sampling(top_logprobs=TOP if weighted else None))
    read.add(dict(choice))
    confidence = read.meter.result() if read.meter else None
    return Drawn(Completion("".join(read.text), read.finish or "", tokens, None, confidence), choice)


def served(error: Exception) -> bool:
    """Whether the upstream server may have sampled, and charged, although nothing usable came back."""
    if isinstance(error, RefusedError):
        return False
    if isinstance(error, BusyError):
        return error.status is None and not isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)
    return True
