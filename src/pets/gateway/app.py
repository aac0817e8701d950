"""The gateway as an ASGI application: paths and what the whole of it needs from start to stop."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pets.errors import SamplerError
from pets.gateway.chat import Chat
from pets.gateway.desk import Desk
from pets.gateway.openapi import description
from pets.gateway.refusals import RefusalError
from pets.gateway.voting import refusal_of

__all__ = ["app"]

PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def app(desk: Desk, refresh: float = 1.0) -> Starlette:
    """The ASGI application of a gateway; it closes what the desk holds when it stops."""
    front = _Front(desk, refresh)
    routes = [
        Route("/", front.page),
        Route("/dashboard/events", front.events),
        Route("/v1/models", front.models),
        Route("/v1/models/{model:path}", front.model),
        Route("/v1/chat/completions", Chat(desk), methods=["POST"]),
        Route("/healthz", front.health),
        Route("/readyz", front.ready),
        Route("/metrics", front.metrics),
        Route("/openapi.json", front.openapi),
    ]
    handlers = {HTTPException: _not_here, RefusalError: _refused, SamplerError: _upstream}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=front.lifespan)


class _Front:
    """The paths that only tell."""

    def __init__(self, desk: Desk, refresh: float) -> None:
        self._desk, self._refresh = desk, refresh
        self._page = files("pets.gateway").joinpath("dashboard.html").read_bytes()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Close in order: the server first, then the books, in which by then everything is settled."""
        try:
            yield
        finally:
            self._desk.stopping = True
            self._desk.voter.close()
            await self._desk.voter.upstream.close()
            await asyncio.get_running_loop().run_in_executor(None, self._desk.voter.ledger.close)

    async def page(self, request: Request) -> Response:
        """The dashboard."""
        self._desk.admit(request.headers, browser=True)
        return Response(self._page, media_type="text/html", headers=PAGE_HEADERS)

    async def events(self, request: Request) -> Response:
        """What the dashboard shows, again and again; with ``?once=1`` a single time, as JSON."""
        key = self._desk.admit(request.headers, browser=True)
        if "once" in request.query_params:
            return JSONResponse(self._desk.board.shown(key))

        async def said() -> AsyncIterator[bytes]:
            while not self._desk.stopping:
                try:  # each time: a key that was revoked meanwhile sees no more
                    key = self._desk.admit(request.headers, browser=True)
                except RefusalError:
                    return
                yield b"data: " + json.dumps(self._desk.board.shown(key)).encode() + b"\n\n"
                await asyncio.sleep(self._refresh)

        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        return StreamingResponse(said(), media_type="text/event-stream", headers=headers)

    async def models(self, request: Request) -> Response:
        """The server's models, each also with the prefix that makes it vote."""
        self._desk.admit(request.headers)
        found = await self._desk.voter.upstream.models()
        prefix = self._desk.settings.prefix
        voted = [{**one, "id": prefix + one["id"], "owned_by": "pets"} for one in found]
        return JSONResponse({"object": "list", "data": voted + (found if self._desk.settings.passthrough else [])})

    async def model(self, request: Request) -> Response:
        """One model by name."""
        self._desk.admit(request.headers)
        name, prefix = request.path_params["model"], self._desk.settings.prefix
        for one in await self._desk.voter.upstream.models():
            if one["id"] == name.removeprefix(prefix):
                return JSONResponse({**one, "id": name})
        raise RefusalError("There is no such model.", param="model", status=404, code="model_not_found")

    async def health(self, request: Request) -> Response:
        """Whether the process answers."""
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Whether requests should be sent here: the books can be written, the queue has room, nobody is stopping it."""
        desk = self._desk
        room = len(desk.voter.polls) < desk.settings.queue
        checks = {"books": desk.voter.ledger.ready, "queue": room, "running": not desk.stopping}
        return JSONResponse(checks, 200 if all(checks.values()) else 503)

    async def openapi(self, request: Request) -> Response:
        """What there is to ask."""
        return JSONResponse(description(self._desk.settings))

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        self._desk.admit(request.headers)
        return Response(self._desk.metrics.text(), media_type="text/plain; version=0.0.4")


async def _not_here(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in OpenAI's form."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _answer(RefusalError("There is nothing at this path and method.", status=status, code="unknown_url"))


async def _refused(request: Request, error: Exception) -> Response:
    return _answer(error if isinstance(error, RefusalError) else RefusalError(str(error), status=500))


async def _upstream(request: Request, error: Exception) -> Response:
    return _answer(refusal_of(error if isinstance(error, SamplerError) else None))


def _answer(refusal: RefusalError) -> Response:
    headers = {name.decode(): value.decode() for name, value in refusal.headers()}
    return Response(refusal.body(), refusal.status, headers, "application/json")
