"""``POST /v1/chat/completions``: answers by vote, or passes the request through."""

import asyncio
import json
import logging
import secrets
import time
from typing import Any

import aiohttp
from starlette.types import Receive, Scope, Send

from pets.errors import PetsError, SamplerError
from pets.gateway.auth import ApiKey, authenticate
from pets.gateway.requests import ChatRequest, VoteOptions, parse_request
from pets.gateway.responses import KEEPALIVE_EVENT, completion_body, sse_events, vote_metadata
from pets.gateway.state import GatewayState
from pets.gateway.telemetry import LOGGER, span
from pets.gateway.upstream import head_of
from pets.gateway.voting import refusal_of
from pets.openai.asgi import ClientGoneError, Exchange
from pets.openai.errors import ApiError

__all__ = ["ChatCompletions"]

PASSTHROUGH_TIMEOUT_S = 3600.0
LOGGED_OF_A_VOTE = ("traces", "lost", "rounds", "stopped", "seconds", "upstream_seconds")


class ChatCompletions:
    """The endpoint, as plain ASGI: Starlette's requests and responses cost more than the vote."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = time.perf_counter()
        id = secrets.token_hex(12)  # ours: what a client would call itself is not to be trusted
        exchange = Exchange(scope, receive, send, id)
        attributes: dict[str, Any] = {"id": id}  # of the log's row and of the span
        try:
            with self._state.open_request(), span("chat", exchange.headers, attributes):
                await self._answer(exchange, id, attributes)
        except ClientGoneError:
            exchange.status = exchange.status or 499
            attributes["gone"] = True
        except ApiError as error:
            attributes["refused"] = error.code or error.message
            await self._refuse(exchange, error)
        except asyncio.CancelledError:
            attributes["cancelled"] = True
            raise
        except PetsError as error:  # a bug's last stop: what PETS raises on purpose is a refusal by now
            attributes["error"] = f"{type(error).__name__}: {error}"
            await self._refuse(exchange, ApiError("The gateway cannot vote now.", status=503, retry_after=1))
        finally:
            self._record(attributes, exchange.status, time.perf_counter() - started)

    async def _answer(self, exchange: Exchange, id: str, attributes: dict[str, Any]) -> None:
        state = self._state
        key = authenticate(state.keys, exchange.headers)
        attributes["key"] = key.name
        body = await exchange.body(state.settings.limits.body, state.settings.limits.body_seconds)
        request = parse_request(body, exchange.headers, state.settings)
        attributes |= {"model": request.model, "voted": request.options is not None, "stream": request.stream}
        state.upstream.check(request.model)
        if request.options is None:
            await self._pass_through(exchange, body)
        else:
            await self._vote(exchange, request, request.options, key, id, attributes)

    async def _vote(
        self,
        exchange: Exchange,
        request: ChatRequest,
        options: VoteOptions,
        key: ApiKey,
        id: str,
        attributes: dict[str, Any],
    ) -> None:
        state = self._state
        keepalive = KEEPALIVE_EVENT if request.stream else None
        vote = state.voter.vote(request, options, key, id)
        outcome = await exchange.run_unless_gone(vote, state.settings.keepalive, keepalive)
        metadata = vote_metadata(outcome, state.ledger)
        state.metrics.record_vote(outcome, metadata)
        attributes |= {name: metadata[name] for name in LOGGED_OF_A_VOTE}
        if not request.stream:
            await exchange.respond(200, completion_body(outcome, metadata))
            return
        await exchange.start_events()
        for event in sse_events(outcome, metadata):
            await exchange.send(event)
        await exchange.send(b"", end=True)

    async def _pass_through(self, exchange: Exchange, body: bytes) -> None:
        """Send the request's bytes upstream and the reply's bytes back, as they come."""
        state = self._state
        if not state.settings.passthrough:
            prefix = state.settings.prefix
            raise ApiError(f"This gateway votes: ask for {prefix}NAME.", status=404, param="model")
        headers = dict(exchange.headers)
        if state.keys.required or state.upstream.has_key:
            headers.pop("authorization", None)  # the gateway's key is not the server's
        await exchange.run_unless_gone(self._forward(exchange, body, headers), PASSTHROUGH_TIMEOUT_S, None)

    async def _forward(self, exchange: Exchange, body: bytes, headers: dict[str, str]) -> None:
        try:
            async with self._state.upstream.passed(body, headers) as response:
                await exchange.start(response.status, head_of(response))
                async for part in response.content.iter_any():
                    await exchange.send(part)
            await exchange.send(b"", end=True)
        except SamplerError as error:
            raise refusal_of(error) from error
        # In the middle: the client sees its connection end early, as we did.
        except (aiohttp.ClientError, TimeoutError) as error:
            LOGGER.warning("the upstream server broke off (%s)", type(error).__name__)
            raise ClientGoneError from error

    async def _refuse(self, exchange: Exchange, error: ApiError) -> None:
        """Send an error with its status; in the middle of a stream, as its last event."""
        if not exchange.status:
            await exchange.respond_error(error)
            return
        data = json.dumps(error.to_plain()).encode()
        await exchange.send(b"data: " + data + b"\n\n", end=True)

    def _record(self, attributes: dict[str, Any], status: int, seconds: float) -> None:
        """Count a request that is over, and log it."""
        kind = "vote" if attributes.get("voted") else "passthrough" if "voted" in attributes else "refused"
        self._state.metrics.record_request(kind, status, seconds)
        if LOGGER.isEnabledFor(logging.INFO):
            row = attributes | {"status": status, "seconds": round(seconds, 4)}
            LOGGER.info("request", extra={"fields": row})
