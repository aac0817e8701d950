"""``ApiEndpoint``: one path of the API, from the request's key to its row in the log, whatever becomes of it."""

import asyncio
import logging
import secrets
import time
from typing import Any

from starlette.types import Receive, Scope, Send

from pets.errors import PetsError
from pets.gateway.auth import ApiKey, authenticate, unit_shown
from pets.gateway.completions import answer_by_vote
from pets.gateway.metrics import CLIENT_GONE
from pets.gateway.passthrough import pass_through
from pets.gateway.requests import CHAT, parse_request
from pets.gateway.state import GatewayState
from pets.gateway.telemetry import LOGGER, span
from pets.openai.asgi import ClientGoneError, Exchange
from pets.openai.errors import ApiError


class ApiEndpoint:
    """An endpoint as plain ASGI: Starlette's requests and responses cost more than the vote.

    A chat with a model ``pets/NAME`` is voted on, any other request passes through.
    """

    def __init__(self, state: GatewayState, path: str) -> None:
        self._state, self._path = state, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        id = secrets.token_hex(12)  # ours: what a client would call itself is not to be trusted
        exchange = Exchange(scope, receive, send, id)
        attributes: dict[str, Any] = {"id": id}  # of the log's row and of the span
        status: int | None = None  # with which the dashboard counts it, if that is not the response's
        reason = None  # why it was not answered, as anybody may read it
        try:
            if self._state.stopping:
                raise ApiError("The gateway is stopping.", status=503, code="stopping", retry_after=1)
            with span("chat" if self._path == CHAT else "request", exchange.headers, attributes):
                key = self._authenticate(exchange, attributes)
                limits = self._state.settings.limits
                body = await exchange.body(limits.body, limits.body_seconds)
                await self._answer(exchange, body, key, attributes)
        except ClientGoneError:
            exchange.status = exchange.status or CLIENT_GONE
            attributes["gone"] = True
            status, reason = CLIENT_GONE, "the client went"
        except ApiError as error:
            attributes["refused"] = reason = error.code or error.message
            status = error.status
            await self._refuse(exchange, error, attributes)
        except asyncio.CancelledError:
            attributes["cancelled"] = True
            status, reason = 0, "broken off by the gateway's end"
            raise
        except PetsError as error:  # a bug's last stop: what PETS raises on purpose is a refusal by now
            attributes["error"] = f"{type(error).__name__}: {error}"
            reason = "an error of the gateway: its log says which"  # it may name servers
            refusal = ApiError("The gateway cannot answer now.", status=503, retry_after=1)
            status = refusal.status
            await self._refuse(exchange, refusal, attributes)
        finally:
            seconds = time.perf_counter() - started
            self._count(attributes, exchange.status if status is None else status, seconds, reason)
            if LOGGER.isEnabledFor(logging.INFO):
                row = attributes | {"status": exchange.status, "seconds": round(seconds, 4)}
                LOGGER.info("request", extra={"fields": row})

    async def _answer(self, exchange: Exchange, body: bytes, key: ApiKey, attributes: dict[str, Any]) -> None:
        """Answer a request whose body and key are there; ``attributes`` has its id, and takes more for the log."""
        request = parse_request(self._path, body, exchange.headers, self._state.settings)
        voted = request.options is not None
        attributes |= {"path": self._path, "model": request.model, "voted": voted, "stream": request.stream}
        key.check_model(request.fields["model"])
        await self._state.upstream.check(request.model, voted=voted)
        if request.options is None:
            await pass_through(self._state, exchange, request, key, attributes["id"])
        else:
            await answer_by_vote(self._state, exchange, request, request.options, key, attributes)

    def _authenticate(self, exchange: Exchange, attributes: dict[str, Any]) -> ApiKey:
        key = authenticate(self._state.keys, exchange.headers)
        attributes["key"] = key.name
        unit = self._state.ledger.currency.unit
        if not key.is_in(unit):  # it was added while the gateway runs
            words = f"This key's budget is in {unit_shown(key.unit)}, this gateway counts {unit_shown(unit)}."
            raise ApiError(words, status=403, code="wrong_unit")
        _, gateways = self._state.ledger.backend.store.replicas or ("", 1)
        self._state.rates.check(key, gateways)
        return key

    async def _refuse(self, exchange: Exchange, error: ApiError, attributes: dict[str, Any]) -> None:
        """Send an error with its status; in the middle of a stream, as its last event."""
        if not exchange.status:
            await exchange.respond_error(error)
            return
        attributes["stream_status"] = error.status
        await exchange.send(b"data: " + error.body() + b"\n\n", end=True)

    def _count(self, attributes: dict[str, Any], status: int, seconds: float, reason: str | None) -> None:
        """Count a request that is over; ``reason`` says why it was not answered."""
        kind = "vote" if attributes.get("voted") else "passthrough" if "voted" in attributes else "refused"
        outcome = {"status": status, "seconds": seconds, "reason": reason}
        request = dict.fromkeys(("key", "model")) | {"retries": 0, "kind": kind} | attributes | outcome
        for share in self._state.metrics.shares_of(request["key"]):
            share.record_request(request)
