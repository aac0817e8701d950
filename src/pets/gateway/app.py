"""The gateway as an ASGI application: building and serving it, and how a request of its API goes."""

import asyncio
import contextlib
import gc
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from os import PathLike
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.money import Currency
from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally
from pets.engine.assemble import assemble_submissions, fetcher_of
from pets.engine.budget import Models
from pets.engine.pacing import hurry_of
from pets.engine.question import cached_answer_type
from pets.engine.sources import Sources
from pets.engine.spec import ARRIVING_HURRY, RunSpec
from pets.engine.submissions import Places
from pets.errors import InputError, PetsError, SamplerError, StateError
from pets.gateway.auth import ApiKey, KeyStore, authenticate, refuse_foreign_site, unit_shown
from pets.gateway.completions import answer_by_vote
from pets.gateway.ledger import GatewayLedger
from pets.gateway.ledger_backend import LedgerBackend
from pets.gateway.ledger_store import LedgerStore, SpendRateLimit
from pets.gateway.metrics import CLIENT_GONE
from pets.gateway.pages import Pages
from pets.gateway.paid_traces import PaidTraces
from pets.gateway.passthrough import pass_through
from pets.gateway.requests import CHAT, FORMS, parse_request
from pets.gateway.settings import Settings
from pets.gateway.sqlite_store import SQLiteStore
from pets.gateway.state import GatewayState
from pets.gateway.telemetry import LOGGER, span
from pets.gateway.upstream import Upstream, api_error
from pets.openai.asgi import ClientGoneError, Exchange
from pets.openai.errors import ApiError
from pets.openai.serving import ConnectionLimits, Server, foreground, in_thread
from pets.plans import Drift
from pets.samplers.local import LocalSampler
from pets.store.database import Durability, is_shared
from pets.store.store import open_database

GRACE_S = 30  # that open requests get when the gateway stops
SPARE_CONNECTIONS = 256  # beside two for each question that may be open: pages, metrics, idle ones
SPARE_FILES = 64
YOUNG_OBJECTS = 10_000  # that are made before the collector looks at them: most are gone with their request
EXPOSED_HEADERS = ("retry-after", "x-should-retry", "x-request-id")  # that pages of other origins may read
PROBE_PATHS = ("/healthz", "/readyz")  # which say nothing of anybody, to whoever asks


def build_gateway(
    upstream: str | Sequence[str] | LocalSampler,
    settings: Settings | None = None,
    *,
    models: Models | None = None,
    mean_budget: float = 16.0,
    store: str | PathLike[str] = ":memory:",
    durability: Durability = "process",
    total: int | None = None,
    rate_limit: SpendRateLimit | None = None,
    currency: Currency | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    drift: Drift | None = None,
) -> GatewayState:
    """Build a gateway in front of the servers at ``upstream``, or of a local model; :func:`serve` serves it.

    Several ``models`` of these servers vote together, as the model ``mixture``.
    ``mean_budget`` traces per question are planned over windows of questions; ``total`` and ``rate_limit`` are the
    ledger's hard limits in ``currency``, remembered by ``store``. ``drift`` watches the warm-ups of a plan.
    """
    settings = settings or Settings()
    spec = settings.spec
    if isinstance(upstream, LocalSampler):  # more at once than it has slots would wait there, or be refused
        slots = upstream.config.slots
        spec = spec.with_options(max_n=min(spec.serving.max_n, slots), concurrency=min(spec.pacing.in_flight, slots))
        settings = replace(settings, spec=spec)
    cached_answer_type(spec.get("answer"))  # a wrong one is said now, and loading takes a while: not in a request
    allocator = _allocator(spec, mean_budget)
    servers = Upstream(upstream, models=models, key=key, headers=headers, timeout=spec.serving.timeout)
    with contextlib.ExitStack() as opened:  # closed where the rest is refused
        backend = LedgerBackend(_ledger_store(store, durability), allocator)
        opened.callback(backend.close)
        keys, paid = backend.store.keys, None
        keys.check_units((currency or Currency()).unit)
        if settings.reuse:
            if store == ":memory:":
                raise InputError("--reuse keeps traces in a store: name one, --store FILE.")
            sources = sorted(str(sampler.source) for sampler in servers.samplers)
            paid = PaidTraces(open_database(store, create=True), f"{sources} {models}")
            opened.callback(paid.close)
        ledger = GatewayLedger(backend, currency, total=total, rate_limit=rate_limit, paid=paid)
        # An outage lasts as long as the requests that wait for its end: each has its own deadline.
        fetcher = fetcher_of(spec, Sources(servers.samplers), patience_s=None)
        places = Places(spec.pacing.in_flight, lambda: keys.several)
        driver, submissions = assemble_submissions(allocator, fetcher, places, ledger, spec)
        opened.pop_all()
    return GatewayState(settings, ledger, servers, driver, submissions, mean_budget, drift)


def _ledger_store(store: str | PathLike[str], durability: Durability) -> LedgerStore:
    if not is_shared(store):
        return SQLiteStore(store, durability)
    from pets.gateway.shared_store import SharedStore  # an extra

    return SharedStore(str(store))


def _allocator(spec: RunSpec, mean_budget: float) -> Allocator:
    """One allocator over all questions that come; the policy's tables are made now, not in the first request."""
    policy, window, max_traces = spec.make_policy(), spec.get("budget_window"), spec.get("max_traces")
    if not isinstance(policy, QuotaPolicy) or policy.sees != "counts" or policy.learns:
        reason = "is not for a stream: it compares questions that are all there. Take price or online_grid."
        raise InputError(f"{type(policy).__name__} {reason}")
    if not mean_budget >= max(1, policy.warmup):
        reason = f"does not pay for the warm-up of {policy.warmup}; give more."
        raise InputError(f"a mean budget of {mean_budget} traces {reason}")
    total = int(mean_budget * window)
    policy.quota(Tally((3, 1)), View(total, window, max_traces))
    return Allocator(policy, Budget.per_window(window, total, cap=max_traces), hurry=0.0)


def serve(
    state: GatewayState,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    ready: Callable[[str], None],
    grace: int = GRACE_S,
) -> None:
    """Serve until interrupted; ``ready`` is called with the URL once connections are taken. Port 0 takes a free one."""
    gc.collect()
    gc.freeze()  # what is here now stays: looking through it again and again would hold up requests
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    foreground(_GatewayServer(state, host, grace), host, port, ready)


def running(state: GatewayState, host: str = "127.0.0.1", port: int = 0, grace: int = 1) -> AbstractContextManager[str]:
    """Serve in a thread while the block lasts; the value is the URL, without /v1."""
    return in_thread(_GatewayServer(state, host, grace), host, port)


def app(state: GatewayState, host: str = "localhost") -> Starlette:
    """The ASGI application of a gateway at ``host``, which closes the gateway when it stops."""
    paths = FORMS if state.settings.passthrough else (CHAT,)
    routes = [Route(f"/v1{path}", ApiEndpoint(state, path), methods=["POST"]) for path in paths]
    routes += Pages(state).routes()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            state.ledger.backend.begin()
            hurry = await hurry_of(state.settings.spec.pacing.hurry, state.upstream.samplers, ARRIVING_HURRY)
            state.driver.allocator.hurry_by(hurry)
            yield
        finally:
            await state.close()

    handlers = dict.fromkeys((HTTPException, ApiError, SamplerError), _error_response)
    origins, hosts = state.settings.cors_origins, frozenset({host, *state.settings.allow_hosts})
    middleware = [Middleware(_site_guard, keys=state.keys, hosts=hosts, origins=origins)]
    if origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=EXPOSED_HEADERS,
        )
        middleware.insert(0, cors)
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan, middleware=middleware)


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
        except asyncio.CancelledError:
            attributes["cancelled"] = True
            status, reason = 0, "broken off by the gateway's end"
            raise
        except PetsError as error:
            if isinstance(error, ApiError):
                refusal = error
                attributes["refused"] = reason = error.code or error.message
            else:  # a bug's last stop: what PETS raises on purpose is a refusal by now
                refusal = ApiError("The gateway cannot answer now.", status=503, retry_after=1)
                attributes["error"] = f"{type(error).__name__}: {error}"
                reason = "an error of the gateway: its log says which"  # it may name servers
            status = refusal.status
            if exchange.status:
                attributes["stream_status"] = status
            await exchange.respond_error(refusal)
        finally:
            seconds = time.perf_counter() - started
            self._count(attributes, exchange.status if status is None else status, seconds, reason)
            row = attributes | {"status": exchange.status, "seconds": round(seconds, 4)}
            LOGGER.info("request", extra={"fields": row})

    async def _answer(self, exchange: Exchange, body: bytes, key: ApiKey, attributes: dict[str, Any]) -> None:
        """Answer a request whose body and key are there; ``attributes`` has its id, and takes more for the log."""
        request = parse_request(self._path, body, exchange.headers, self._state.settings)
        voted = request.options is not None
        attributes |= {"path": self._path, "model": request.model, "voted": voted, "stream": request.stream}
        key.check_model(request.fields["model"])
        await self._state.upstream.check(request.model, voted=voted)
        if voted:
            await answer_by_vote(self._state, exchange, request, key, attributes)
        else:
            await pass_through(self._state, exchange, request, key, attributes["id"])

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

    def _count(self, attributes: dict[str, Any], status: int, seconds: float, reason: str | None) -> None:
        """Count a request that is over; ``reason`` says why it was not answered."""
        kind = "vote" if attributes.get("voted") else "passthrough" if "voted" in attributes else "refused"
        outcome = {"status": status, "seconds": seconds, "reason": reason}
        request = {"key": None, "model": None, "retries": 0, "kind": kind} | attributes | outcome
        for share in self._state.metrics.shares_of(request["key"]):
            share.record_request(request)


def _site_guard(app: ASGIApp, keys: KeyStore, hosts: Collection[str], origins: Collection[str]) -> ASGIApp:
    """The application for requests of this site, and of any other as soon as there are keys."""
    names = {name.lower().rstrip(".") for name in hosts}

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        answer = app
        if scope["type"] == "http" and scope["path"] not in PROBE_PATHS:
            try:
                refuse_foreign_site(scope["method"], Headers(scope=scope), names, origins)
            except ApiError as error:
                is_open = True
                with contextlib.suppress(StateError):
                    is_open = not keys.required
                answer = await _error_response(Request(scope), error) if is_open else app
        await answer(scope, receive, send)

    return guarded


class _GatewayServer(Server):
    def __init__(self, state: GatewayState, host: str, grace: int) -> None:
        super().__init__(app(state, host), ConnectionLimits(_max_connections(state.settings)), grace, lifespan="on")
        self._state = state

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve while the upstream is open: a local model starts first and ends last."""
        await self._state.upstream.open()
        try:
            await super().serve(sockets)
        finally:
            await self._state.upstream.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let no request begin, then shut down as uvicorn does: open requests get their grace."""
        self._state.stopping = True
        await super().shutdown(sockets)


def _max_connections(settings: Settings) -> int:
    """Clients' connections at a time: two per open question and some to spare, at most half of the files left."""
    wanted: int = 2 * settings.spec.get("open_questions") + SPARE_CONNECTIONS
    if sys.platform == "win32":
        return wanted
    import resource

    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    needed = 2 * wanted + SPARE_FILES
    needed = needed if most == resource.RLIM_INFINITY else min(needed, most)
    if files < needed:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
            files = needed
    return max(1, min(wanted, (files - SPARE_FILES) // 2))


async def _error_response(request: Request, error: Exception) -> Response:
    """An error in OpenAI's form, also of unknown paths and methods."""
    if isinstance(error, HTTPException):
        words = "There is nothing at this path and method."
        error = ApiError(words, status=error.status_code, code="unknown_url")
    elif isinstance(error, SamplerError):
        error = api_error(error)
    assert isinstance(error, ApiError)
    headers = {name.decode(): value.decode() for name, value in error.headers()}
    return Response(error.body(), error.status, headers, "application/json")
