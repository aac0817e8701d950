"""Any OpenAI-compatible server: vLLM, SGLang, llama.cpp, hosted APIs."""

import json
import math
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Literal

import httpx

from pets.errors import BusyError, InputError, RefusedError, ReplyError, SamplerError
from pets.samplers.base import Completion, Prompt, Sampler, Sampling
from pets.samplers.replies import Reply, may_pass, message_of
from pets.samplers.requests import DIALECTS, body_of, path_of

__all__ = ["OpenAISampler"]


class OpenAISampler(Sampler):
    """Traces from the server at ``url`` (with its ``/v1``), several in one request.

    ``stream`` reads log-probabilities while they come and holds one token's at a time: for long traces. ``dialect``
    says which fields the server knows beyond OpenAI's own; ``top_k`` and ``min_p`` need ``"vllm"`` (also SGLang) or
    ``"llama.cpp"``. ``loopback`` is for a server of this machine: no proxies, no connections kept. Tries nothing twice.

        async with OpenAISampler("http://localhost:8000/v1", "Qwen/Qwen3-8B") as sampler:
            traces = await sampler.sample(Prompt.chat("What is 17 + 25?"), n=8, seed=0, sampling=Sampling())
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str | None = None,
        dialect: Literal["openai", "vllm", "llama.cpp"] = "vllm",
        stream: bool = False,
        timeout: float = 600.0,
        transport: httpx.AsyncBaseTransport | None = None,
        loopback: bool = False,
    ) -> None:
        if key and not (key.isascii() and key.isprintable()):  # httpx's own error would show it
            raise InputError("the key holds a line break or another character that no key has. Copy it again.")
        self._model, self._dialect, self._stream = model, DIALECTS[dialect], stream
        self._base = url.rstrip("/")
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout, connect=10.0, pool=None),
            # How many are in flight is the caller's business. Servers hang up on idle connections after 5 s, and a
            # request that meets the hang-up is lost; llama.cpp's also gives a thread to each of them.
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=0 if loopback else None, keepalive_expiry=2.0
            ),
            transport=transport,
            trust_env=not loopback,
            verify=False if transport or (loopback and self._base.startswith("http://")) else _tls(),
        )
        self.usage_of_one = False
        """Whether this server was seen to count the tokens of one choice only."""

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        body = body_of(self._model, prompt, n, seed, sampling, self._dialect)
        if self._stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        reply = Reply(n, sampling)
        async with self._post(self._base + path_of(prompt), body) as response:
            if self._stream:
                await self._events(response, reply)
            else:
                reply.read(await response.aread())
        self.usage_of_one = self.usage_of_one or reply.usage_of_one
        return reply.completions()

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """Another question, to a path beside /v1: JSON there and back."""
        async with self._post(f"{self._base.removesuffix('/v1')}{path}", body) as response:
            text = await response.aread()
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise ReplyError(
                f"{path}: the server's reply is not JSON: {message_of(text.decode(errors='replace'))}"
            ) from error
        return found

    async def _events(self, response: httpx.Response, reply: Reply) -> None:
        async for line in lines_of(response):
            if line.startswith(b"data:"):
                data = line[5:].strip()
                if data == b"[DONE]":
                    return
                reply.read(data)

    @asynccontextmanager
    async def _post(self, url: str, body: dict[str, object]) -> AsyncIterator[httpx.Response]:
        """The server's response, headers read and status good; whatever goes wrong becomes a SamplerError."""
        try:
            async with self._client.stream("POST", url, json=body) as response:
                if response.status_code != httpx.codes.OK:
                    await response.aread()
                    raise error_of(response)
                yield response
        except httpx.TimeoutException as error:
            raise BusyError(f"{self._base} gave no answer in time ({type(error).__name__}).") from error
        except (httpx.RemoteProtocolError, httpx.DecodingError) as error:
            raise ReplyError(f"{self._base} broke off its reply: {error}") from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise RefusedError(f"{self._base} is no address of a server: {error}") from error
        except httpx.HTTPError as error:
            raise BusyError(f"{self._base} cannot be reached: {error}. Is the server running?") from error


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """One for all clients: it reads every authority's certificate, which takes longer than the rest of a client."""
    return httpx.create_ssl_context()


async def lines_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """Split at line feeds alone: httpx also splits at U+2028 and its like, which may stand within JSON."""
    rest = b""
    async for part in response.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line
    yield rest


def error_of(response: httpx.Response) -> SamplerError:
    """429, 408, 409 and 5xx may pass; other refusals will not."""
    status = response.status_code
    try:
        words = message_of(response.json())
    except ValueError:
        words = message_of(response.text)
    if status in {404, 405} and "model" not in words.lower():
        words += " (is the address right? It usually ends in /v1)"
    kind = BusyError if may_pass(status) else RefusedError
    return kind(f"the server says {status}: {words}", status=status, retry_after=seconds_of(response))


def seconds_of(response: httpx.Response) -> float | None:
    """Retry-After, in seconds or as a date; ``None`` where it is missing or makes no sense."""
    given = response.headers.get("retry-after", "")
    try:
        seconds = float(given)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(given)
    except ValueError:
        return None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
