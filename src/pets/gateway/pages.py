"""The paths that only read: the dashboard and its data, models, probes, metrics, the OpenAPI description."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from importlib.resources import files
from itertools import count
from typing import Any

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pets.engine.submissions import Places
from pets.gateway.auth import ApiKey, authenticate
from pets.gateway.dashboard import Dashboard
from pets.gateway.openapi import description
from pets.gateway.state import GatewayState
from pets.openai.errors import ApiError

DASHBOARD_REFRESH_S = 1.0
MAX_DASHBOARDS = 64  # open at once; each is told everything anew every second
HISTORY_EVERY = 3  # refreshes
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
DATA_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
PAGE_FILES = ("dashboard.css", "dashboard.js", "uPlot.iife.min.js", "uPlot.min.css")
PALETTE_FILE = "palette.css"  # the report's: one look


class Pages:
    """The paths that only read; a page that is open is told news every ``refresh`` seconds."""

    def __init__(self, state: GatewayState, refresh: float) -> None:
        self._state, self._refresh = state, refresh
        self._dashboard = Dashboard(state)
        self._open_dashboards = Places(MAX_DASHBOARDS, lambda: state.keys.several)
        folder, package = files("pets.gateway").joinpath("page"), files("pets")
        self._page = folder.joinpath("dashboard.html").read_bytes()
        self._files = {name: folder.joinpath(name).read_bytes() for name in PAGE_FILES}
        self._files[PALETTE_FILE] = package.joinpath("report", PALETTE_FILE).read_bytes()

    def routes(self) -> list[Route]:
        """Each path with what answers it."""
        return [
            Route("/", self.dashboard),
            Route("/dashboard/events", self.events),
            Route("/dashboard/history", self.history),
            Route("/dashboard/questions/{id}", self.question),
            Route("/dashboard/{name}", self.page_file),
            Route("/v1/models", self.models),
            Route("/v1/models/{model:path}", self.model),
            Route("/healthz", self.health),
            Route("/readyz", self.ready),
            Route("/metrics", self.metrics),
            Route("/openapi.json", self.openapi),
        ]

    async def dashboard(self, request: Request) -> Response:
        """The dashboard."""
        self._authenticate(request, browser=True)
        return Response(self._page, media_type="text/html", headers=PAGE_HEADERS)

    async def page_file(self, request: Request) -> Response:
        """A stylesheet or script of the dashboard."""
        self._authenticate(request, browser=True)
        name = request.path_params["name"]
        if name not in self._files:
            raise HTTPException(404)
        return Response(self._files[name], media_type=MEDIA_TYPES[name.rpartition(".")[2]], headers=DATA_HEADERS)

    async def history(self, request: Request) -> Response:
        """The dashboard's numbers over the last hour or day (``?span=``)."""
        key, query = self._authenticate(request, browser=True), request.query_params
        return _data(self._history(key, query))

    async def question(self, request: Request) -> Response:
        """One of the latest votes with its traces."""
        key = self._authenticate(request, browser=True)
        return _data(self._dashboard.question(key, request.path_params["id"]))

    async def events(self, request: Request) -> Response:
        """The dashboard's numbers, again and again, and now and then its history, which would come from another
        replica if a page asked a balancer for it; with ``?once=1`` the numbers a single time, as JSON."""
        key, query = self._authenticate(request, browser=True), request.query_params
        snapshot = self._dashboard.snapshot(key, query.get("key"))
        if "once" in query:
            return _data(snapshot)
        self._history(key, query)  # a span that is not kept is refused now: a stream that has begun has no status
        place = self._state.place(self._open_dashboards, key, what="dashboards")
        return _EventStream(self._events(request), place)

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        query = request.query_params
        for tick in count():
            if self._state.stopping:
                return
            try:  # each time: a key that was revoked meanwhile sees no more
                key = self._authenticate(request, browser=True)
                yield _event(self._dashboard.snapshot(key, query.get("key")))
                if tick % HISTORY_EVERY == 0:
                    yield b"event: history\n" + _event(self._history(key, query))
            except ApiError:
                return
            await asyncio.sleep(self._refresh)

    def _history(self, key: ApiKey, query: QueryParams) -> dict[str, Any]:
        return self._dashboard.history(key, query.get("span", "hour"), query.get("key"))

    async def models(self, request: Request) -> Response:
        """The server's models that the key may ask for, each also with the prefix that makes it vote."""
        key = self._authenticate(request)
        models = await self._state.upstream.models()
        settings, voting = self._state.settings, self._state.upstream.voting(models)
        voted = [{**model, "id": settings.prefix + model["id"], "owned_by": "pets"} for model in voting]
        served = voted + (models if settings.passthrough else [])
        return JSONResponse({"object": "list", "data": [model for model in served if key.allows(model["id"])]})

    async def model(self, request: Request) -> Response:
        """One model by name."""
        key = self._authenticate(request)
        name, prefix = request.path_params["model"], self._state.settings.prefix
        key.check_model(name)
        models = await self._state.upstream.models()
        for model in self._state.upstream.voting(models) if name.startswith(prefix) else models:
            if model["id"] == name.removeprefix(prefix):
                return JSONResponse({**model, "id": name})
        raise ApiError("There is no such model.", param="model", status=404, code="model_not_found")

    async def health(self, request: Request) -> Response:
        """Whether the process answers."""
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Whether requests should be sent here, and if not, why."""
        checks, failure = self._state.readiness(), self._state.ledger.backend.failure
        reason = {} if checks["ledger"] else {"reason": f"The ledger cannot be written ({failure})."}
        return JSONResponse(checks | reason, 200 if all(checks.values()) else 503)

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI description."""
        return JSONResponse(description(self._state.settings))

    async def metrics(self, request: Request) -> Response:
        """Metrics for Prometheus."""
        key = self._authenticate(request)
        return Response(self._state.metrics.text(key), media_type="text/plain; version=0.0.4")

    def _authenticate(self, request: Request, *, browser: bool = False) -> ApiKey:
        return authenticate(self._state.keys, request.headers, browser=browser)


class _EventStream(StreamingResponse):
    """Server-sent events, which keep their place until they end, however that is; refused where there is none."""

    def __init__(self, events: AsyncIterator[bytes], place: AbstractContextManager[None]) -> None:
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


def _data(data: dict[str, Any]) -> Response:
    """A response whose texts may hold anything, also halves of surrogate pairs, which Starlette's cannot encode."""
    return Response(json.dumps(data), media_type="application/json", headers=DATA_HEADERS)


def _event(data: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return f"data: {json.dumps(data)}\n\n".encode()
