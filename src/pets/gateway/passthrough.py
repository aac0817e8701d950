"""Plain requests: sent on as they were checked, their replies passed back as they come.

With keys or a budget they are counted as votes are: what they may cost is held before they are sent, and settled by the
reply's usage, or by its bytes. A reply that breaks off, or whose client goes, costs all that was held.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from pets.engine.fetch import TokenEstimator, may_have_sampled
from pets.engine.places import Places
from pets.errors import SamplerError
from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.endpoint import ApiEndpoint
from pets.gateway.ledger import GatewayLedger, Reservation
from pets.gateway.plain_requests import PlainRequest, parse_plain_request
from pets.gateway.requests import ChatRequest
from pets.gateway.state import GatewayState
from pets.gateway.telemetry import LOGGER
from pets.gateway.upstream import api_error
from pets.openai.asgi import ClientGoneError, Exchange
from pets.openai.errors import ApiError
from pets.openai.response import ResponseReader
from pets.prompts import Prompt, Sampling
from pets.samplers.transport import MAX_REPLY_BYTES, split_lines

__all__ = ["PassThrough", "PlainEndpoint"]

KEPT_BYTES = 64 << 10  # at each end of a reply
USAGE = re.compile(rb'"usage"\s*:\s*(?=\{)')
USAGE_BYTES = 4 << 10
USAGE_NAMES = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
DECODER = json.JSONDecoder()
NO_KEEPALIVE_S = 3600.0  # between two looks at a request that passes through


class PassThrough:
    """Serves plain requests: at most ``settings.concurrency`` traces are in flight, beside those of votes."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state
        self._places = Places(state.settings.concurrency, lambda: state.keys.several)
        self._estimator = TokenEstimator()

    async def answer(self, exchange: Exchange, request: ChatRequest | PlainRequest, key: ApiKey, id: str) -> None:
        """Answer one request, or raise an :class:`ApiError`."""
        settings = self._state.settings
        if not settings.passthrough:
            raise ApiError(f"This gateway votes: ask for {settings.prefix}NAME.", status=404, param="model")
        with self._state.place(self._places, key, request.traces):
            await exchange.run_unless_gone(self._serve(exchange, request, key, id), NO_KEEPALIVE_S, None)

    async def _serve(self, exchange: Exchange, request: ChatRequest | PlainRequest, key: ApiKey, id: str) -> None:
        state, ledger, traces = self._state, self._state.ledger, request.traces
        headers = dict(exchange.headers)
        if state.keys.required or state.upstream.has_key:
            headers.pop("authorization", None)  # the gateway's key is not the server's
        if key is ANYBODY and not ledger.limited:
            await self._forward(exchange, request.path, _serialized(request.fields), headers, None)
            return
        priced = not ledger.currency.flat
        request.check_cost(restricted=priced, priced=priced)
        max_tokens = request.token_limit(state.settings.limits)
        if priced and max_tokens and request.max_tokens is None:
            longest = _prompt_tokens(request, request.bounded_fields(max_tokens))
            max_tokens = state.upstream.fitting_tokens(request.model, max_tokens, longest)
        fields = request.bounded_fields(max_tokens) if priced else request.fields
        prompt = Prompt.of_body(fields) if isinstance(request, ChatRequest) else None
        prompt_tokens = _prompt_tokens(request, fields)
        trace_cost = ledger.max_trace_cost(prompt_tokens, max_tokens)
        reservation = await ledger.reserve(
            key,
            traces,
            trace_cost,
            id,
            "plain",
            max_tokens=max_tokens,
            prompt_tokens=prompt_tokens,
            model=request.model,
        )
        if reservation is None:
            raise ledger.refusal(key, traces * trace_cost)
        meter = (
            UsageMeter(ledger, reservation, request)
            if prompt is None
            else ChatMeter(ledger, reservation, request, self._estimator, prompt, max_tokens)
        )
        try:
            await self._forward(exchange, request.path, _serialized(fields), headers, meter)
        finally:
            meter.settle_lost()  # unless it is settled

    async def _forward(
        self, exchange: Exchange, path: str, body: bytes, headers: dict[str, str], meter: "UsageMeter | None"
    ) -> None:
        upstream = self._state.upstream
        try:
            async with (
                asyncio.timeout(self._state.settings.timeout),
                upstream.forward(path, body, headers) as response,
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


class PlainEndpoint(ApiEndpoint):
    """An endpoint that has no vote, at a path of :data:`~pets.gateway.plain_requests.PLAIN_PATHS`."""

    def __init__(self, state: GatewayState, pass_through: PassThrough, path: str) -> None:
        super().__init__(state)
        self._pass_through, self._path = pass_through, path

    async def _answer(self, exchange: Exchange, body: bytes, key: ApiKey, attributes: dict[str, Any]) -> None:
        request = parse_plain_request(self._path, body, self._state.settings)
        attributes |= {"path": self._path, "model": request.model, "voted": False, "stream": request.stream}
        self._state.upstream.check(request.model)
        await self._pass_through.answer(exchange, request, key, attributes["id"])


class UsageMeter:
    """Reads the reply to one plain request while it passes, and settles what was held for it, once.

    The usage is looked for at both ends of the reply, which may be long and is not kept.
    """

    def __init__(self, ledger: GatewayLedger, reservation: Reservation, request: ChatRequest | PlainRequest) -> None:
        self._ledger, self._reservation = ledger, reservation
        self._stream = request.stream
        asked_by_us = request.path != "/responses" and not ledger.currency.flat
        self._hides_usage = asked_by_us and not request.include_usage
        self._start, self._end = bytearray(), bytearray()

    async def read(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The parts of a reply as they go on; when the last one has come, the request is settled."""
        if self._stream:
            async for line in split_lines(parts, MAX_REPLY_BYTES):
                data = line[5:].strip() if line.startswith(b"data:") else b""
                if data and data != b"[DONE]":
                    self._take(data)
                if not (self._hides_usage and b'"choices":[]' in data.replace(b" ", b"")):
                    yield line
        else:
            async for part in parts:
                self._take(part)
                yield part
        self._settle()

    def settle_free(self) -> None:
        """The server did not sample."""
        self._ledger.settle(self._reservation, cost=0)

    def settle_lost(self) -> None:
        """The server may have sampled, and nobody knows how much."""
        reservation = self._reservation
        self._ledger.settle(reservation, reservation.held, 0, reservation.tokens, reservation.prompt_tokens)

    def _take(self, data: bytes) -> None:
        """Take in a part of the body, or the data of an event."""
        self._start += data[: max(0, KEPT_BYTES - len(self._start))]
        self._end += data
        del self._end[: max(0, len(self._end) - KEPT_BYTES)]

    def _settle(self) -> None:
        """Settle by the usage, up to what was held; a reply without one costs all of that."""
        reservation = self._reservation
        usage = usage_in(bytes(self._end)) or usage_in(bytes(self._start))
        if usage is None:
            tokens, prompt_tokens = reservation.tokens, reservation.prompt_tokens
        else:
            prompt_tokens, tokens = usage
        claimed_more = tokens > reservation.tokens or prompt_tokens > reservation.prompt_tokens
        tokens, prompt_tokens = min(tokens, reservation.tokens), min(prompt_tokens, reservation.prompt_tokens)
        traces = reservation.traces
        cost = self._ledger.cost(traces, tokens, prompt_tokens)
        flagged = {"estimated": traces * (usage is None), "claimed_more": traces * claimed_more}
        self._ledger.settle(reservation, cost, traces, tokens, prompt_tokens, **flagged)


class ChatMeter(UsageMeter):
    """Reads the traces of a chat, whose bytes tell what a usage does not."""

    def __init__(
        self,
        ledger: GatewayLedger,
        reservation: Reservation,
        request: ChatRequest | PlainRequest,
        estimator: TokenEstimator,
        prompt: Prompt,
        max_tokens: int,
    ) -> None:
        super().__init__(ledger, reservation, request)
        self._estimator, self._prompt, self._max_tokens = estimator, prompt, max_tokens
        self._reader = ResponseReader(reservation.traces, Sampling(max_tokens), prompt_limit=prompt.max_tokens)
        self._body = bytearray()
        self._size = 0  # of what was read
        self._readable = True

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        self._readable = self._readable and self._size <= MAX_REPLY_BYTES
        if self._stream:
            self._read(data)
        elif self._readable:
            self._body += data

    def _read(self, data: bytes) -> None:
        if self._readable:
            try:
                self._reader.read(data)
            except SamplerError:  # the client's to see
                self._readable = False

    def _settle(self) -> None:
        """Settle by what was read; a reply that cannot be read costs all that was held."""
        if not self._stream:
            self._read(bytes(self._body))
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


def usage_in(data: bytes) -> tuple[int, int] | None:
    """Tokens of prompt and output that a reply tells, by its last usage; ``None`` where it tells none.

    Within JSON's texts quotes are escaped: what a model says is not taken for the server's word.

    >>> usage_in(b'{"usage": {"input_tokens": 5, "output_tokens": 7}}'), usage_in(b'"text": "\\"usage\\": {}"')
    ((5, 7), None)
    """
    for match in reversed(list(USAGE.finditer(data))):
        try:
            usage, _ = DECODER.raw_decode(data[match.end() : match.end() + USAGE_BYTES].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        counts = [usage.get(newer, usage.get(older)) for newer, older in USAGE_NAMES]
        prompt, output = (count if type(count) is int and count >= 0 else None for count in counts)
        if prompt is not None:
            return prompt, output or 0
    return None


def _prompt_tokens(request: ChatRequest | PlainRequest, fields: Mapping[str, Any]) -> int:
    """The tokens of a request's prompt at most."""
    is_chat = isinstance(request, ChatRequest)
    return Prompt.of_body(fields).max_tokens if is_chat else PlainRequest.prompt_tokens(fields)


def _serialized(fields: Mapping[str, Any]) -> bytes:
    """The body that was checked, and nothing that another parser could read otherwise."""
    try:
        return json.dumps(fields, allow_nan=False).encode()
    except ValueError:
        raise ApiError("The body holds a number that JSON has no word for.") from None
