"""Any OpenAI-compatible server: vLLM, SGLang, llama.cpp, hosted APIs."""

import asyncio
import gc
import json
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pets.errors import InputError, RefusedError, ReplyError, SamplerError
from pets.openai.headers import RateLimits, Redactor, check_headers, secrets_of
from pets.openai.models import context_tokens, parse_models, running_requests
from pets.openai.refusals import FIELD_STATUSES, FieldsRefusedError, RefusedFields, named_fields
from pets.openai.request import DIALECTS, DialectName, body_of, dialect_of, optional_fields, path_of
from pets.openai.response import EventReader, ResponseReader, check_size, error_from, json_reply
from pets.prompts import Completion, Prompt, Sampling, Written
from pets.samplers.base import Sampler
from pets.samplers.transport import (
    MAX_REPLY_BYTES,
    HttpClient,
    body_of_reply,
    check_address,
    parts_of,
    sampler_errors,
    start_of_reply,
)

if TYPE_CHECKING:
    import aiohttp

LOGGER = logging.getLogger("pets.samplers")
MAX_MODELS = 1000  # whose refusals are remembered, by sender
REFUSALS_KEPT_S = 3600.0  # of a client's requests
MODELS_TIMEOUT_S = 10.0
METRICS_TIMEOUT_S = 3.0
MAX_MODELS_BYTES = 4 << 20
KEY_STATUSES = frozenset({401, 403})  # of a key that is wrong or missing
PLAIN_SHARE = 4  # a reply without log-probabilities may have a fourth of that: others wait while it is parsed
LARGE_REPLY_BYTES = 1 << 20  # more is read in a thread
ENDING_S = 0.5  # in which a server ends a stream whose client has closed its side
MOST_IGNORED_CLOSINGS = 3  # before a server is taken for one that reads no further
MAX_STREAM_TOKENS = 1 << 18  # of a trace without a limit, read from a stream
EVENT_BYTES = 1 << 10  # of a stream per token, at most, without log-probabilities
LOGPROB_BYTES = 256  # per token and candidate, at most
Body = Mapping[str, object]
"""The fields of a request."""


@dataclass(slots=True)
class TraceStream:
    """A trace on its way, and the connection by which it comes as soon as the head of the response is read.

    To cancel it the client closes its own side alone and reads on: the server notices, stops and closes the other side,
    and the last event that came by then says how much it has written. TLS knows no such half of a connection.
    """

    written: Written
    closed: bool = False
    transport: asyncio.WriteTransport | None = None
    events: EventReader | None = None

    def begin(self, response: "aiohttp.ClientResponse", events: EventReader) -> None:
        """The head is read."""
        self.transport = None if response.connection is None else response.connection.transport
        self.events = events
        if self.closed:
            self.close()

    def close(self) -> bool:
        """Close the client's side, now or when the head is read; False where one side cannot be closed alone."""
        self.closed = True
        if self.transport is None:
            return True
        if not self.transport.can_write_eof():
            return False
        self.transport.write_eof()
        return True


class OpenAISampler(Sampler):
    """Traces from the server at ``url`` (with its ``/v1``), several in one request.

    ``stream`` reads log-probabilities while they come and holds one token's at a time: for long traces. ``dialect``
    says which fields the server knows beyond OpenAI's own, by its address if not given; one that it refuses with a 400
    or 422 that names it is left out from then on, unless that would change what was asked; what was learned from a
    client's request (a prompt with a ``sender``) is for that client's alone, for an hour. ``headers`` go with every
    request. ``loopback`` is for a server of this machine: no proxies, no connections kept. Tries nothing else twice.
    A request takes ``timeout`` seconds at most; a reply of more than ``max_reply_bytes`` (a fourth of it without
    log-probabilities), after decompression, is a ``ReplyError``. A stream may be longer: one event of it may not, and
    all of it not longer than its tokens need.

    One object carries hundreds of requests in flight, and serves one block after another.

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
        loopback: bool = False,
    ) -> None:
        if key and not (key.isascii() and key.isprintable()):  # aiohttp's own error would show it
            raise InputError("the key holds a line break or another character that no key has. Copy it again.")
        check_address(url)
        self.source = f"{model} at {url.rstrip('/')}"
        self._model, self._dialect, self._stream = model, DIALECTS[dialect or dialect_of(url)], stream
        self._has_key = bool(key or headers)
        self._refused: dict[tuple[str, str], tuple[list[str], float]] = {}  # by sender and model, and until when
        self._base = url.rstrip("/")
        self._tells_usage = False  # with every event of a stream, as was seen
        self._ignored_closings = 0  # of streams, in a row
        sent = check_headers(headers or {})
        self._new_client = partial(HttpClient, url, key=key, headers=sent, timeout=None, loopback=loopback)
        self._client = self._new_client()
        self._redactor = Redactor(key, *secrets_of(sent))
        self._total_s, self._max_reply_bytes = timeout, max_reply_bytes
        self.usage_of_one = self._dialect.usage_of_one
        """Whether this server's usage counts the tokens of one choice only: by its dialect, or as was seen."""

    async def sample(
        self, prompt: Prompt, n: int, seed: int, sampling: Sampling, stream: TraceStream | None = None
    ) -> list[Completion]:
        """As :meth:`Sampler.sample`; a prompt with a body is answered whole, with the server's own choices.

        A trace whose ``stream`` can be closed comes by server-sent events.
        """
        body = body_of(self._model, prompt, n, seed, sampling, self._dialect)
        if stream is not None or (self._stream and prompt.body is None):
            asked = stream is not None and dialect_of(self._base) != "openai"  # which refuses to be asked
            on_the_way = {"continuous_usage_stats": True} if asked else {}
            body |= {"stream": True, "stream_options": {"include_usage": True, **on_the_way}}
        model = str(body["model"])
        names = self._left_out(prompt.sender, model) if self._refused else []
        refused = RefusedFields(names) if names else None
        while True:
            sent = body if refused is None else refused.without(body)
            try:
                traces = await self._traces(prompt, n, seed, sampling, sent, stream)
            except FieldsRefusedError as error:  # nothing was sampled, and each time there are fewer fields
                if stream is not None and stream.closed:
                    raise
                refused = refused or RefusedFields()
                refused.add(error, sent, optional_fields(body, prompt, sampling, self._dialect))
                continue
            if refused is not None and (words := refused.news()):  # a host may refuse several: they are said together
                self._remember_refusal(prompt.sender, model, refused.names, words)
            return traces

    async def sample_streamed(self, prompt: Prompt, seed: int, sampling: Sampling, written: Written) -> Completion:
        """As :meth:`Sampler.sample_streamed`: by server-sent events, each with the usage where it can."""
        stream = TraceStream(written)
        exchange = asyncio.ensure_future(self.sample(prompt, 1, seed, sampling, stream))
        exchange.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may wait for it
        try:
            return (await asyncio.shield(exchange))[0]
        except asyncio.CancelledError:
            if not exchange.done() and self._ignored_closings < MOST_IGNORED_CLOSINGS and stream.close():
                await asyncio.wait([exchange], timeout=ENDING_S)
                self._ignored_closings = 0 if exchange.done() else self._ignored_closings + 1
            if stream.events is not None:
                with suppress(SamplerError):  # what cannot be read says nothing of what was written
                    stream.events.parse()
                self._tells_usage |= written.told
            written.ended = exchange.done()
            if written.ended and stream.transport is not None and not written.seen:  # before its first event
                written.seen, written.told = True, self._tells_usage
            raise
        finally:
            exchange.cancel()

    def _left_out(self, sender: str, model: str) -> list[str]:
        """The fields that the model has refused this sender."""
        names, until = self._refused.get((sender, model), ([], math.inf))
        return names if until > asyncio.get_running_loop().time() else []

    def _remember_refusal(self, sender: str, model: str, names: list[str], words: str) -> None:
        """A request went through without these."""
        if not set(names) <= set(self._left_out(sender, model)):  # else another request has said so meanwhile
            LOGGER.warning("%s: %s (%s).", self._base, words, model)
        while len(self._refused) >= MAX_MODELS:  # a gateway's clients name what they like
            del self._refused[next(iter(self._refused))]
        until = asyncio.get_running_loop().time() + REFUSALS_KEPT_S if sender else math.inf
        self._refused[sender, model] = names, until

    async def _traces(
        self, prompt: Prompt, n: int, seed: int, sampling: Sampling, body: Body, stream: TraceStream | None = None
    ) -> list[Completion]:
        """The traces that one request brings; ``seed`` is theirs also where ``body`` may not say so."""
        streamed = bool(body.get("stream"))
        whole, limit = prompt.body is not None, prompt.max_tokens
        reader = ResponseReader(n, sampling, keep_raw=whole, usage_of_one=self.usage_of_one, prompt_limit=limit)
        detailed = body.get("logprobs") or body.get("prompt_logprobs")
        longest = self._max_reply_bytes // (1 if detailed else PLAIN_SHARE)
        async with self._post(self._base + path_of(prompt), body) as response:
            if streamed:
                events = EventReader(reader, longest, None if stream is None else stream.written)
                per_token = EVENT_BYTES + LOGPROB_BYTES * (sampling.top_logprobs or 0)
                longest = max(longest, n * min(sampling.token_limit, MAX_STREAM_TOKENS) * per_token)
                await self._read_events(response, events, longest, stream)
            else:
                content = await body_of_reply(response, longest)
                if len(content) <= LARGE_REPLY_BYTES:
                    reader.read(self._redactor.data(content))
                else:  # others are served meanwhile
                    if not detailed:
                        await asyncio.to_thread(check_size, content)
                    await asyncio.to_thread(self._read_large, reader, content)
        self.usage_of_one = self.usage_of_one or reader.usage_of_one
        if not (streamed and self._redactor):
            return reader.completions()
        return [replace(trace, text=self._redactor.text(trace.text)) for trace in reader.completions()]

    def _read_large(self, reader: ResponseReader, content: bytes) -> None:
        collects = gc.isenabled()
        gc.disable()  # it would look through all that was read, again and again
        try:
            reader.read(self._redactor.data(content))
        finally:
            if collects:
                gc.enable()

    async def models(self) -> list[dict[str, Any]]:
        response, content = await self._get(f"{self._base}/models", MODELS_TIMEOUT_S)
        if response.status != HTTPStatus.OK:
            raise self._error(response.status, response.headers, content, {})
        return parse_models(content)

    async def _get(self, url: str, timeout_s: float) -> tuple["aiohttp.ClientResponse", bytes]:
        """What the server says at an address, over a connection of its own, which is closed after."""
        client = self._new_client()
        try:
            with sampler_errors(self._base, self._redactor):
                async with asyncio.timeout(timeout_s), client.request("GET", url) as response:
                    return response, self._redactor.data(await body_of_reply(response, MAX_MODELS_BYTES))
        finally:
            await client.close()

    async def max_model_len(self) -> int | None:
        """As the list of models says; ``None`` where there is no such list, or it does not say."""
        try:
            models = await self.models()
        except (RefusedError, ReplyError) as error:
            if error.status in KEY_STATUSES:
                raise
            return None
        return next((context_tokens(model) for model in models if model["id"] == self._model), None)

    @property
    def left_out(self) -> list[str]:
        """The fields that the server has refused for this model, which are no longer sent."""
        return self._refused.get(("", self._model), ([], math.inf))[0]

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, path: str, body: Body) -> dict[str, Any]:
        """Another question, to a path beside /v1: JSON there and back."""
        async with self._post(f"{self._base.removesuffix('/v1')}{path}", body) as response:
            text = self._redactor.data(await body_of_reply(response, self._max_reply_bytes))
        return dict(json_reply(text))

    async def requests_running(self) -> int | None:
        """As :meth:`Sampler.requests_running`: by what vLLM, SGLang and llama.cpp say at ``/metrics``."""
        with suppress(SamplerError):
            response, content = await self._get(f"{self._base.removesuffix('/v1')}/metrics", METRICS_TIMEOUT_S)
            return running_requests(content) if response.status == HTTPStatus.OK else None
        return None

    async def _read_events(
        self, response: "aiohttp.ClientResponse", events: EventReader, max_bytes: int, stream: TraceStream | None
    ) -> None:
        if stream is not None:
            stream.begin(response, events)
        parts, clock = parts_of(response, max_bytes), asyncio.get_running_loop().time
        async for part in self._redactor.stream(parts) if self._redactor else parts:
            if events.add(part, clock()):
                break
        else:
            events.parse(ended=True)
        self._tells_usage |= stream is not None and stream.written.told

    @asynccontextmanager
    async def _post(self, url: str, body: Body) -> AsyncIterator["aiohttp.ClientResponse"]:
        """The server's response, headers read and status good; whatever goes wrong becomes a SamplerError."""
        content = json.dumps(body).encode()
        with sampler_errors(self._base, self._redactor):
            # Of the whole: a client's own timeout begins anew with every byte.
            async with asyncio.timeout(self._total_s), self._client.request("POST", url, content) as response:
                self.rate_limits = RateLimits.from_headers(response.headers) or self.rate_limits
                if response.status != HTTPStatus.OK:
                    content = self._redactor.data(await start_of_reply(response))
                    raise self._error(response.status, response.headers, content, body)
                yield response

    def _error(self, status: int, headers: Mapping[str, str], content: bytes, body: Body) -> SamplerError:
        """What an error response means: ``FieldsRefusedError`` if it names request fields that the server rejects."""
        error = error_from(status, headers, content)
        if status in FIELD_STATUSES and (names := named_fields(content, body.keys())):
            return FieldsRefusedError(str(error), names, status)
        if status == HTTPStatus.UNAUTHORIZED and not self._has_key:
            words = str(error).rstrip(".")
            error.args = (f"{words}. No key was sent: set OPENAI_API_KEY, or the variable that --key-env names.",)
        return error
