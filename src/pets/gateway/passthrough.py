"""Plain requests: sent on as they were checked, their replies passed back as they come.

With keys or a budget they are counted as votes are: what they may cost is held before they are sent, and settled by the
reply's usage, or by its bytes. A reply that breaks off, or whose client goes, costs all that was held.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from pets.engine.fetch import TokenEstimator
from pets.errors import BusyError, SamplerError
from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.ledger import RequestAccount
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


async def pass_through(state: GatewayState, exchange: Exchange, request: ApiRequest, key: ApiKey, id: str) -> None:
    """Answer one plain request, or raise an :class:`ApiError`: at most ``concurrency`` traces of such are in flight,
    beside those of votes."""
    settings = state.settings
    if not settings.passthrough:
        raise ApiError(f"This gateway votes: ask for {settings.prefix}NAME.", status=404, param="model")
    with state.place(state.plain_traces, key, request.traces):
        await exchange.run_unless_gone(_serve(state, exchange, request, key, id))


async def _serve(state: GatewayState, exchange: Exchange, request: ApiRequest, key: ApiKey, id: str) -> None:
    ledger, traces = state.ledger, request.traces
    if state.keys.required or state.upstream.has_key:
        exchange.headers.pop("authorization", None)  # the gateway's key is not the server's
    if key is ANYBODY and not ledger.limited:
        await _forward(state, exchange, request, _serialized(request.fields), None)
        return
    priced = not ledger.currency.counts_traces
    restricted = priced or ledger.limited or key.budget is not None or bool(key.models)
    request.check_cost(restricted=restricted, priced=priced, allowed=state.settings.allow_fields)
    max_tokens = state.token_limit(request)
    fields = request.sent_fields(max_tokens) if priced else request.fields
    body = _serialized(fields)  # before anything is held for it: one that cannot be sent costs nothing
    prompt = Prompt.of_body(fields) if request.path == CHAT else Prompt(request.path, fields)
    account = RequestAccount(key, id, request.model, "plain", max_tokens, prompt.max_tokens)
    reservation = await ledger.reserve(account, traces)
    if reservation is None:
        raise ledger.refusal(key, traces * ledger.trace_cost(account))
    try:
        fetcher = state.driver.fetcher
        if (refusal := fetcher.refusal(fetcher.pool.of_model(request.model))) is not None:
            ledger.settle(reservation)
            raise api_error(refusal)
        await _forward(state, exchange, request, body, (reservation, prompt))
    finally:
        ledger.settle_lost(reservation)  # unless it is settled


async def _forward(
    state: GatewayState, exchange: Exchange, request: ApiRequest, body: bytes, paid: tuple[Reservation, Prompt] | None
) -> None:
    """Pass a request and its reply on; one that is paid for and comes to nothing is settled as of votes, by the rule of
    :mod:`pets.engine.fetch`."""
    upstream, fetcher, clock = state.upstream, state.driver.fetcher, asyncio.get_running_loop().time
    pool, begun = fetcher.pool.of_model(request.model), clock()

    def failed(error: SamplerError) -> None:
        charged = fetcher.failed(pool, error, clock() - begun, request.traces)
        if paid is not None:
            (state.ledger.settle_lost if charged else state.ledger.settle)(paid[0])

    try:
        async with (
            asyncio.timeout(state.settings.spec.serving.timeout),
            upstream.forward(request.path, body, exchange.headers, request.model) as response,
        ):
            is_success = 200 <= response.status < 300
            if not is_success:
                failed(error_from(response.status, response.headers, b""))
            await exchange.start(response.status, upstream.passed_headers(response))
            parts = upstream.passed_bytes(response)
            async for part in parts if paid is None else _metered(state, request, *paid, parts):
                await exchange.send(part)
            if is_success:
                pool.delivered(clock() - begun)
    except (SamplerError, TimeoutError) as error:
        failure = error if isinstance(error, SamplerError) else BusyError("no answer came in time.")
        if exchange.status < 300:  # else its status has settled it
            failed(failure)
        if exchange.status:  # in the middle of a reply the client sees its connection end early, as we did
            LOGGER.warning("a reply to a plain request broke off (%s)", type(error).__name__)
            raise ClientGoneError from error
        raise api_error(failure, timed_out=isinstance(error, TimeoutError)) from error
    await exchange.send(b"", end=True)


async def _metered(
    state: GatewayState, request: ApiRequest, reservation: Reservation, prompt: Prompt, parts: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """The parts of a reply as they go on; when the last one has come, the request is settled."""
    has_choices, limit = request.path in CHOICE_PATHS, prompt.max_tokens
    max_tokens = reservation.tokens // reservation.traces
    hides_usage = has_choices and not state.ledger.currency.counts_traces and not request.include_usage
    if has_choices:
        reader = ResponseReader(reservation.traces, Sampling(max_tokens), prompt_limit=limit)
    else:
        speaks = request.path == "/responses"
        reader = UsageReader(max_tokens=max_tokens, prompt_limit=limit, stream=request.stream, speaks=speaks)
    body, size, is_readable = bytearray(), 0, True

    def read(data: bytes | bytearray) -> bool:
        """Take in the whole body, or the data of an event; False where it cannot be read: the client's to see."""
        with suppress(SamplerError):
            reader.read(bytes(data))
            return True
        return False

    if request.stream:
        async for lines in split_lines(parts, MAX_REPLY_BYTES):
            passed = list[bytes]()
            for line in lines:
                data = line[5:].strip() if line.startswith(b"data:") else b""
                if data and data != b"[DONE]":
                    size += len(data)
                    is_readable = is_readable and size <= MAX_REPLY_BYTES and read(data)
                if not (hides_usage and b'"choices":[]' in data.replace(b" ", b"")):
                    passed.append(line)
            if passed:
                yield b"".join(passed)
    else:
        async for part in parts:
            size += len(part)
            if size <= MAX_REPLY_BYTES:
                body += part
            yield part
        large = len(body) > LARGE_REPLY_BYTES  # others are served meanwhile
        is_readable = size <= MAX_REPLY_BYTES and (await asyncio.to_thread(read, body) if large else read(body))
    _settle(state, reservation, reader if is_readable else None, prompt)


def _settle(state: GatewayState, reservation: Reservation, reader: ResponseReader | None, prompt: Prompt) -> None:
    """Charge a reply by its usage, or by the bytes of what was said; in full where it cannot be read."""
    try:
        completions = [] if reader is None else reader.completions(surplus=True)
    except SamplerError:
        completions = []
    if not completions:
        state.ledger.settle_lost(reservation)
        return
    estimated = sum(map(TokenEstimator.needs_estimate, completions))
    claimed_more = sum(completion.claimed_more for completion in completions)
    counted = state.plain_tokens.counted(completions, prompt, reservation.tokens // reservation.traces)
    state.ledger.settle_traces(reservation, [trace.usage for trace in counted], estimated, claimed_more)


def _serialized(fields: Mapping[str, Any]) -> bytes:
    """The body that was checked, and nothing that another parser could read otherwise."""
    try:
        return json.dumps(fields, allow_nan=False).encode()
    except ValueError:
        raise ApiError("The body holds a number that JSON has no word for.") from None
