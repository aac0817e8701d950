"""Plain requests: sent on as they were checked, their replies passed back as they come.

With keys or a budget they are counted as votes are: what they may cost is held before they are sent, and settled by the
reply's usage, or by its bytes. A reply that breaks off, or whose client goes, costs all that was held.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pets.engine.endpoints import EndpointPool
from pets.engine.fetch import TokenEstimator
from pets.engine.submissions import Places
from pets.errors import BusyError, SamplerError
from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.ledger import GatewayLedger, RequestAccount
from pets.gateway.ledger_store import Reservation
from pets.gateway.requests import CHAT, CHOICE_PATHS, ApiRequest
from pets.gateway.state import GatewayState
from pets.gateway.telemetry import LOGGER
from pets.gateway.upstream import api_error
from pets.openai.asgi import ClientGoneError, Exchange
from pets.openai.errors import ApiError
from pets.openai.response import ResponseReader, UsageReader, error_from
from pets.prompts import Prompt, Sampling
from pets.samplers.transport import MAX_REPLY_BYTES, split_lines

LARGE_REPLY_BYTES = 1 << 18
NO_KEEPALIVE_S = 3600.0  # between two looks at a request that passes through


class PassThrough:
    """Serves plain requests: at most ``concurrency`` traces are in flight, beside those of votes."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state
        self._places = Places(state.settings.spec.pacing.in_flight, lambda: state.keys.several)
        self._estimator = TokenEstimator()

    async def answer(self, exchange: Exchange, request: ApiRequest, key: ApiKey, id: str) -> None:
        """Answer one request, or raise an :class:`ApiError`."""
        settings = self._state.settings
        if not settings.passthrough:
            raise ApiError(f"This gateway votes: ask for {settings.prefix}NAME.", status=404, param="model")
        with self._state.place(self._places, key, request.traces):
            await exchange.run_unless_gone(self._serve(exchange, request, key, id), NO_KEEPALIVE_S, None)

    async def _serve(self, exchange: Exchange, request: ApiRequest, key: ApiKey, id: str) -> None:
        state, ledger, traces = self._state, self._state.ledger, request.traces
        headers = dict(exchange.headers)
        if state.keys.required or state.upstream.has_key:
            headers.pop("authorization", None)  # the gateway's key is not the server's
        if key is ANYBODY and not ledger.limited:
            await self._forward(exchange, request, _serialized(request.fields), headers, None)
            return
        priced = not ledger.currency.counts_traces
        restricted = priced or ledger.limited or key.budget is not None or bool(key.models)
        request.check_cost(restricted=restricted, priced=priced, allowed=state.settings.allow_fields)
        max_tokens = state.token_limit(request)
        fields = request.sent_fields(max_tokens) if priced else request.fields
        prompt = Prompt.of_body(fields) if request.path == CHAT else Prompt(request.path, fields)
        account = RequestAccount(key, id, request.model, "plain", max_tokens, prompt.max_tokens)
        reservation = await ledger.reserve(account, traces)
        if reservation is None:
            raise ledger.refusal(key, traces * ledger.trace_cost(account))
        meter = ReplyMeter(ledger, reservation, request, self._estimator, prompt, max_tokens)
        try:
            if (refusal := state.driver.fetcher.refusal(self._pool(request.model))) is not None:
                ledger.settle(reservation)
                raise api_error(refusal)
            await self._forward(exchange, request, _serialized(fields), headers, meter)
        finally:
            ledger.settle_lost(reservation)  # unless it is settled

    async def _forward(
        self,
        exchange: Exchange,
        request: ApiRequest,
        body: bytes,
        headers: dict[str, str],
        meter: "ReplyMeter | None",
    ) -> None:
        upstream, clock = self._state.upstream, asyncio.get_running_loop().time
        begun = clock()
        try:
            async with (
                asyncio.timeout(self._state.settings.spec.serving.timeout),
                upstream.forward(request.path, body, headers, request.model) as response,
            ):
                is_success = 200 <= response.status < 300
                if not is_success:
                    error = error_from(response.status, response.headers, b"")
                    self._failed(request, meter, error, clock() - begun)
                await exchange.start(response.status, upstream.passed_headers(response))
                parts = upstream.passed_bytes(response)
                async for part in parts if meter is None else meter.read(parts):
                    await exchange.send(part)
                if is_success:
                    self._pool(request.model).delivered(clock() - begun)
        except SamplerError as error:
            if exchange.status < 300:  # else its status has settled it
                self._failed(request, meter, error, clock() - begun)
            raise self._broken(exchange, error, api_error(error)) from error
        except TimeoutError as error:
            self._failed(request, meter, BusyError("no answer came in time."), clock() - begun)
            late = ApiError("No answer came in time.", status=504, code="timeout")
            raise self._broken(exchange, error, late) from error
        await exchange.send(b"", end=True)

    def _pool(self, model: str) -> EndpointPool:
        return self._state.driver.fetcher.pool.of_model(model)

    def _failed(self, request: ApiRequest, meter: "ReplyMeter | None", error: SamplerError, seconds: float) -> None:
        """Settle a request that came to nothing: as of votes, by the rule of :mod:`pets.engine.fetch`."""
        charged = self._state.driver.fetcher.failed(self._pool(request.model), error, seconds, request.traces)
        if meter is not None:
            meter.settle_failed(charged=charged)

    def _broken(self, exchange: Exchange, error: Exception, refusal: ApiError) -> Exception:
        """What to raise: in the middle of a reply the client sees its connection end early, as we did."""
        if not exchange.status:
            return refusal
        LOGGER.warning("a reply to a plain request broke off (%s)", type(error).__name__)
        return ClientGoneError()


class ReplyMeter:
    """Reads the reply to one plain request while it passes, and settles what was held for it, once.

    Its usage is read where the path's form has it; what that does not tell is estimated by the bytes of what was said.
    """

    def __init__(
        self,
        ledger: GatewayLedger,
        reservation: Reservation,
        request: ApiRequest,
        estimator: TokenEstimator,
        prompt: Prompt,
        max_tokens: int,
    ) -> None:
        self._ledger, self._reservation, self._estimator = ledger, reservation, estimator
        self._prompt, self._max_tokens, self._stream = prompt, max_tokens, request.stream
        has_choices = request.path in CHOICE_PATHS
        self._hides_usage = has_choices and not ledger.currency.counts_traces and not request.include_usage
        limit = prompt.max_tokens
        self._reader = (
            ResponseReader(reservation.traces, Sampling(max_tokens), prompt_limit=limit)
            if has_choices
            else UsageReader(
                max_tokens=max_tokens, prompt_limit=limit, stream=self._stream, speaks=request.path == "/responses"
            )
        )
        self._body = bytearray()
        self._size = 0  # of what was read
        self._readable = True

    async def read(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The parts of a reply as they go on; when the last one has come, the request is settled."""
        if self._stream:
            async for lines in split_lines(parts, MAX_REPLY_BYTES):
                for line in lines:
                    data = line[5:].strip() if line.startswith(b"data:") else b""
                    if data and data != b"[DONE]":
                        self._size += len(data)
                        self._read(data)
                    if not (self._hides_usage and b'"choices":[]' in data.replace(b" ", b"")):
                        yield line
        else:
            async for part in parts:
                self._size += len(part)
                if self._size <= MAX_REPLY_BYTES:
                    self._body += part
                yield part
            if len(self._body) <= LARGE_REPLY_BYTES:
                self._read(self._body)
            else:  # others are served meanwhile
                await asyncio.to_thread(self._read, self._body)
        self._settle()

    def settle_failed(self, *, charged: bool) -> None:
        """Nothing came; what was held is ``charged`` where the server may have sampled, nobody knows how much."""
        (self._ledger.settle_lost if charged else self._ledger.settle)(self._reservation)

    def _read(self, data: bytes | bytearray) -> None:
        """Take in the whole body, or the data of an event."""
        self._readable = self._readable and self._size <= MAX_REPLY_BYTES
        if self._readable:
            try:
                self._reader.read(bytes(data))
            except SamplerError:  # the client's to see
                self._readable = False

    def _settle(self) -> None:
        """Settle by what was read, choices that nobody asked for too; a reply that cannot be read costs all that was
        held."""
        try:
            completions = self._reader.completions(surplus=True) if self._readable else []
        except SamplerError:
            completions = []
        if not completions:
            self.settle_failed(charged=True)
            return
        estimated = sum(map(TokenEstimator.needs_estimate, completions))
        claimed_more = sum(completion.claimed_more for completion in completions)
        counted = self._estimator.counted(completions, self._prompt, self._max_tokens)
        used = [completion.usage for completion in counted]
        self._ledger.settle_traces(self._reservation, used, estimated, claimed_more)


def _serialized(fields: Mapping[str, Any]) -> bytes:
    """The body that was checked, and nothing that another parser could read otherwise."""
    try:
        return json.dumps(fields, allow_nan=False).encode()
    except ValueError:
        raise ApiError("The body holds a number that JSON has no word for.") from None
