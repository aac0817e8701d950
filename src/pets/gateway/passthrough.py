"""Plain requests: sent on as they were checked, their replies passed back as they come.

With keys or a budget they are counted as votes are: what they may cost is held before they are sent, and settled by the
reply's usage, or by its bytes. A reply that breaks off, or whose client goes, costs all that was held.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from pets.engine.fetch import TokenEstimator, may_have_sampled
from pets.errors import SamplerError
from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.ledger import GatewayLedger, Reservation
from pets.gateway.requests import ChatRequest
from pets.gateway.state import GatewayState
from pets.gateway.telemetry import LOGGER
from pets.gateway.upstream import api_error
from pets.openai.asgi import ClientGoneError, Exchange
from pets.openai.errors import ApiError
from pets.openai.response import ResponseReader
from pets.prompts import Prompt, Sampling
from pets.samplers.openai import MAX_REPLY_BYTES, split_lines

__all__ = ["PassThrough"]

NO_KEEPALIVE_S = 3600.0  # between two looks at a request that passes through


class PassThrough:
    """Serves plain requests: at most ``settings.concurrency`` traces are in flight, beside those of votes."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state
        self._in_flight = 0  # traces
        self._estimator = TokenEstimator()

    async def answer(self, exchange: Exchange, request: ChatRequest, key: ApiKey, id: str) -> None:
        """Answer one request, or raise an :class:`ApiError`."""
        settings = self._state.settings
        if not settings.passthrough:
            raise ApiError(f"This gateway votes: ask for {settings.prefix}NAME.", status=404, param="model")
        traces = request.fields.get("n") or 1
        with self._room(traces):
            await exchange.run_unless_gone(self._serve(exchange, request, key, id, traces), NO_KEEPALIVE_S, None)

    @contextmanager
    def _room(self, traces: int) -> Iterator[None]:
        """Count traces while they are in flight; one request alone may have more than there is room for."""
        if self._in_flight and self._in_flight + traces > self._state.settings.concurrency:
            raise ApiError("Too many requests at once.", status=503, code="overloaded", retry_after=1)
        self._in_flight += traces
        try:
            yield
        finally:
            self._in_flight -= traces

    async def _serve(self, exchange: Exchange, request: ChatRequest, key: ApiKey, id: str, traces: int) -> None:
        state, ledger = self._state, self._state.ledger
        headers = dict(exchange.headers)
        if state.keys.required or state.upstream.has_key:
            headers.pop("authorization", None)  # the gateway's key is not the server's
        if key is ANYBODY and not ledger.limited:
            await self._forward(exchange, _serialized(request.fields), headers, None)
            return
        priced = not ledger.currency.flat
        request.check_cost(restricted=priced, priced=priced)
        max_tokens = request.max_tokens or state.settings.limits.max_tokens
        fields = _bounded_fields(request, max_tokens) if priced else request.fields
        body, prompt = _serialized(fields), Prompt.of_body(fields)
        trace_cost = ledger.max_trace_cost(prompt.max_tokens, max_tokens)
        reservation = await ledger.reserve(
            key, traces, trace_cost, id, "plain", max_tokens=max_tokens, prompt_tokens=prompt.max_tokens
        )
        if reservation is None:
            raise ledger.refusal(key, traces * trace_cost)
        meter = _Meter(ledger, reservation, self._estimator, request, prompt, max_tokens)
        try:
            await self._forward(exchange, body, headers, meter)
        finally:
            meter.settle_lost()  # unless it is settled

    async def _forward(self, exchange: Exchange, body: bytes, headers: dict[str, str], meter: "_Meter | None") -> None:
        upstream = self._state.upstream
        try:
            async with (
                asyncio.timeout(self._state.settings.timeout),
                upstream.forward(body, headers) as response,
            ):
                if meter is not None and not response.is_success:
                    meter.settle_free()  # the server says that it did not sample
                await exchange.start(response.status_code, upstream.passed_headers(response))
                parts = upstream.passed_bytes(response)
                async for part in parts if meter is None else meter.read(parts):
                    await exchange.send(part)
        except SamplerError as error:
            if meter is not None and not may_have_sampled(error):
                meter.settle_free()
            raise self._broken(exchange, error, api_error(error)) from error
        except TimeoutError as error:
            late = ApiError("No answer came in time.", status=504, code="timeout")
            raise self._broken(exchange, error, late) from error
        except httpx.HTTPError as error:
            raise self._broken(exchange, error, None) from error
        await exchange.send(b"", end=True)

    def _broken(self, exchange: Exchange, error: Exception, refusal: ApiError | None) -> Exception:
        """What to raise: in the middle of a reply the client sees its connection end early, as we did."""
        if refusal is not None and not exchange.status:
            return refusal
        LOGGER.warning("a reply to a plain request broke off (%s)", type(error).__name__)
        return ClientGoneError()


class _Meter:
    """Reads the reply to one plain request while it passes, and settles what was held for it, once."""

    def __init__(
        self,
        ledger: GatewayLedger,
        reservation: Reservation,
        estimator: TokenEstimator,
        request: ChatRequest,
        prompt: Prompt,
        max_tokens: int,
    ) -> None:
        self._ledger, self._reservation, self._estimator = ledger, reservation, estimator
        self._prompt, self._max_tokens = prompt, max_tokens
        self._stream = request.stream
        self._hides_usage = not (request.include_usage or ledger.currency.flat)  # it was asked for by us alone
        self._reader = ResponseReader(reservation.traces, Sampling(max_tokens), prompt_limit=prompt.max_tokens)
        self._size = 0  # of what was read
        self._readable = True

    async def read(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The parts of a reply as they go on; when the last one has come, the request is settled."""
        if self._stream:
            async for line in split_lines(parts, MAX_REPLY_BYTES):
                if not self._is_own_usage(line):
                    yield line
        else:
            body = bytearray()
            async for part in parts:
                if len(body) <= MAX_REPLY_BYTES:
                    body += part
                yield part
            self._take(bytes(body))
        self._settle()

    def settle_free(self) -> None:
        """The server did not sample."""
        self._ledger.settle(self._reservation, cost=0)

    def settle_lost(self) -> None:
        """The server may have sampled, and nobody knows how much."""
        reservation = self._reservation
        self._ledger.settle(reservation, reservation.held, 0, reservation.tokens, reservation.prompt_tokens)

    def _is_own_usage(self, line: bytes) -> bool:
        """Take in a line of a stream; whether it is the usage that the client did not ask for."""
        data = line[5:].strip() if line.startswith(b"data:") else b""
        if not data or data == b"[DONE]":
            return False
        self._take(data)
        return self._hides_usage and b'"choices":[]' in data.replace(b" ", b"")

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        self._readable = self._readable and self._size <= MAX_REPLY_BYTES
        if self._readable:
            try:
                self._reader.read(data)
            except SamplerError:  # the client's to see
                self._readable = False

    def _settle(self) -> None:
        """Settle by what was read; a reply that cannot be read costs all that was held."""
        try:
            completions = self._reader.completions() if self._readable else []
        except SamplerError:
            completions = []
        if not completions:
            self.settle_lost()
            return
        estimated = sum(map(TokenEstimator.needs_estimate, completions))
        claimed_more = sum(completion.claimed_more for completion in completions)
        completions = self._estimator.counted(completions, self._prompt, self._max_tokens)
        tokens = sum(completion.tokens or 0 for completion in completions)
        prompt_tokens = sum(completion.prompt_tokens or 0 for completion in completions)
        cost = self._ledger.cost(len(completions), tokens, prompt_tokens)
        self._ledger.settle(self._reservation, cost, len(completions), tokens, prompt_tokens, estimated, claimed_more)


def _bounded_fields(request: ChatRequest, max_tokens: int) -> dict[str, Any]:
    """What is sent where tokens are paid for: with the limit that was held, and a stream that tells its usage."""
    fields = request.upstream_fields(max_tokens)
    fields |= {name: request.fields[name] for name in ("n", "seed", "stream") if request.fields.get(name) is not None}
    if request.stream:
        fields["stream_options"] = {**(request.fields.get("stream_options") or {}), "include_usage": True}
    return fields


def _serialized(fields: Mapping[str, Any]) -> bytes:
    """The body that was checked, and nothing that another parser could read otherwise."""
    try:
        return json.dumps(fields, allow_nan=False).encode()
    except ValueError:
        raise ApiError("The body holds a number that JSON has no word for.") from None
