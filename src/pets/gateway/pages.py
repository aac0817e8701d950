"""The paths that only read: the dashboard and its data, models, probes, metrics, the OpenAPI description.

An admin sees all, or the share of one key, any other key its own share. Budgets and spend by key are those of the
store, of all gateways that share it; all else is counted by this gateway, from its start on.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from importlib.resources import files
from itertools import count
from typing import Any, Literal

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pets.engine.submissions import Places
from pets.gateway.auth import ANYBODY, ApiKey, authenticate
from pets.gateway.history import RESOLUTIONS
from pets.gateway.ledger import BudgetLimit
from pets.gateway.ledger_store import Balance
from pets.gateway.requests import CHAT, FORMS, IGNORED_NAME, MAX_HURRY, MAX_IGNORED
from pets.gateway.settings import Settings
from pets.gateway.state import GatewayState
from pets.openai.errors import ApiError

DASHBOARD_REFRESH_S = 1.0
MAX_DASHBOARDS = 64  # open at once; each is told everything anew every second
HISTORY_EVERY = 3  # refreshes
SHOWN_KEYS = 100  # those that have spent most; each is a balance that a shared store is asked for
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
DATA_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}
PAGE_FILES = ("dashboard.css", "dashboard.js", "uPlot.iife.min.js", "uPlot.min.css")
PALETTE_FILE = "palette.css"  # the report's: one look

ERROR_STATUSES = (400, 401, 404, 408, 413, 429, 502, 503, 504)
METRICS_TYPE = "text/plain; version=0.0.4"

Reader = Literal["anybody", "key", "browser"]
"""Who may read a page: whoever has a key, in a browser also as its password, or anybody."""
Answer = Callable[[Request, ApiKey], Response | Awaitable[Response]]
"""What a page says to a request with this key."""


class Pages:
    """The paths that only read; a page that is open is told news every second."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state
        self._dashboard = Dashboard(state)
        self._open_dashboards = Places(MAX_DASHBOARDS, lambda: state.keys.several)
        folder = files("pets.gateway").joinpath("page")
        self._page = folder.joinpath("dashboard.html").read_bytes()
        self._files = {name: folder.joinpath(name).read_bytes() for name in PAGE_FILES}
        self._files[PALETTE_FILE] = files("pets.report").joinpath(PALETTE_FILE).read_bytes()

    def routes(self) -> list[Route]:
        """Each path with who may read it and what answers."""
        state, shown = self._state, self._dashboard
        pages: list[tuple[str, Reader, Answer]] = [
            ("/", "browser", lambda _, key: Response(self._page, media_type="text/html", headers=PAGE_HEADERS)),
            ("/dashboard/events", "browser", self._events),
            ("/dashboard/history", "browser", lambda request, key: _data(self._history(key, request.query_params))),
            ("/dashboard/questions/{id}", "browser", lambda request, key: _data(shown.question(key, _id(request)))),
            ("/dashboard/{id}", "browser", lambda request, key: self._file(_id(request))),
            ("/v1/models", "key", self._models),
            ("/v1/models/{id:path}", "key", self._model),
            ("/metrics", "key", self._metrics),
            ("/healthz", "anybody", lambda request, key: JSONResponse({"status": "ok"})),
            ("/readyz", "anybody", self._readiness),
            ("/openapi.json", "anybody", lambda request, key: JSONResponse(description(state.settings))),
        ]
        return [Route(path, self._route(reader, answer)) for path, reader, answer in pages]

    def _route(self, reader: Reader, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        keys, browser = self._state.keys, reader == "browser"

        async def page(request: Request) -> Response:
            key = ANYBODY if reader == "anybody" else authenticate(keys, request.headers, browser=browser)
            response = answer(request, key)
            return response if isinstance(response, Response) else await response

        return page

    def _file(self, name: str) -> Response:
        if name not in self._files:
            raise HTTPException(404)
        return Response(self._files[name], media_type=MEDIA_TYPES[name.rpartition(".")[2]], headers=DATA_HEADERS)

    def _events(self, request: Request, key: ApiKey) -> Response:
        """The dashboard's numbers, again and again, and now and then its history, which would come from another
        replica if a page asked a balancer for it; with ``?once=1`` the numbers a single time, as JSON."""
        query = request.query_params
        snapshot = self._dashboard.snapshot(key, query.get("key"))
        if "once" in query:
            return _data(snapshot)
        self._history(key, query)  # a span that is not kept is refused now: a stream that has begun has no status
        place = self._state.place(self._open_dashboards, key, what="dashboards")
        return _EventStream(self._stream(request), place)

    async def _stream(self, request: Request) -> AsyncIterator[bytes]:
        query = request.query_params
        for tick in count():
            if self._state.stopping:
                return
            try:  # each time: a key that was revoked meanwhile sees no more
                key = authenticate(self._state.keys, request.headers, browser=True)
                yield _event(self._dashboard.snapshot(key, query.get("key")))
                if tick % HISTORY_EVERY == 0:
                    yield b"event: history\n" + _event(self._history(key, query))
            except ApiError:
                return
            await asyncio.sleep(DASHBOARD_REFRESH_S)

    def _history(self, key: ApiKey, query: QueryParams) -> dict[str, Any]:
        return self._dashboard.history(key, query.get("span", "hour"), query.get("key"))

    def _metrics(self, request: Request, key: ApiKey) -> Response:
        """What was counted for the key, for an admin all of it."""
        share = self._state.metrics.share_of(None if key.admin else key.name)
        return Response(share.text(), media_type=METRICS_TYPE)

    async def _served(self) -> list[dict[str, Any]]:
        """The server's models, those that vote with the prefix that says so."""
        settings, models = self._state.settings, await self._state.upstream.models()
        voting = self._state.upstream.voting(models)
        voted = [{**model, "id": settings.prefix + model["id"], "owned_by": "pets"} for model in voting]
        return voted + (models if settings.passthrough else [])

    async def _models(self, request: Request, key: ApiKey) -> Response:
        """The models that the key may ask for."""
        served = [model for model in await self._served() if key.allows(model["id"])]
        return JSONResponse({"object": "list", "data": served})

    async def _model(self, request: Request, key: ApiKey) -> Response:
        key.check_model(_id(request))
        for model in await self._served():
            if model["id"] == _id(request):
                return JSONResponse(model)
        raise ApiError("There is no such model.", param="model", status=404, code="model_not_found")

    def _readiness(self, request: Request, key: ApiKey) -> Response:
        """Whether requests should be sent here, and if not, why."""
        checks, failure = self._state.readiness(), self._state.ledger.backend.failure
        reason = {} if checks["ledger"] else {"reason": f"The ledger cannot be written ({failure})."}
        return JSONResponse(checks | reason, 200 if all(checks.values()) else 503)


class Dashboard:
    """The dashboard's data: :meth:`snapshot` as of now, :meth:`history` over time, :meth:`question` in full."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state

    def snapshot(self, key: ApiKey, of_key: str | None = None) -> dict[str, Any]:
        """Everything but the history, of the key ``of_key`` where an admin asks for that."""
        name, metrics = self._name(key, of_key), self._state.metrics
        share = metrics.share_of(name)
        numbers = share.now()
        spent_per_second, replica = numbers.pop("spent_per_second"), self._state.ledger.backend.store.replicas
        own = {"name": replica[0]} if replica is not None and key.admin else {}  # which is a machine's
        return numbers | {
            "at": share.history.clock(),
            "started": share.history.started,
            "viewer": {"name": key.name, "admin": key.admin},
            "of_key": name,
            "replica": None if replica is None else {"replicas": replica[1]} | own,
            "unit": self._state.ledger.currency.shown(0)[1],
            "budget": self._budget(key, name, spent_per_second),
            "mean_budget": self._state.mean_budget,
            "drift": None if metrics.drift is None else metrics.drift.to_plain(),
            "upstream": self._upstream(key),
            "keys": self._keys(key),
            "questions": list(share.questions)[::-1],
            "errors": list(share.errors)[::-1],
            "ready": self._state.readiness(),
        }

    def history(self, key: ApiKey, span: str, of_key: str | None = None) -> dict[str, Any]:
        """The last hour or day, a column for each quantity."""
        if span not in RESOLUTIONS:
            raise ApiError(f"'span' is one of {', '.join(RESOLUTIONS)}.", param="span")
        return self._state.metrics.share_of(self._name(key, of_key)).columns(span)

    def question(self, key: ApiKey, id: str) -> dict[str, Any]:
        if detail := self._state.metrics.recent.find(id, key):
            return detail
        words = "This question is not here: it is no longer kept, or another replica has answered it."
        raise ApiError(words, status=404, code="question_not_kept")

    def _name(self, key: ApiKey, of_key: str | None) -> str | None:
        """The name of the key whose share is shown to ``key``; None for all of them."""
        name = of_key or None if key.admin else key.name
        if name is not None and name != key.name and name not in self._key_names():
            raise ApiError("There is no such key.", status=404, param="key", code="unknown_key")
        return name

    def _key_names(self) -> list[str]:
        """Keys that have spent, the most first, then those that may ask."""
        return list(dict.fromkeys([*self._state.ledger.spenders, *(key.name for key in self._state.keys.active())]))

    def _budget(self, key: ApiKey, name: str | None, per_second: float) -> dict[str, Any]:
        """What is spent, held and left of the limits that a viewer may know, and when they end at the present pace."""
        ledger = self._state.ledger
        balance = ledger.total if name is None else ledger.balance_of(name)
        owner = ANYBODY if name is None else next((key for key in self._state.keys.active() if key.name == name), None)
        limits = [] if owner is None else ledger.limits(owner)
        rows = [self._limit(limit, per_second) for limit in limits if name is None or limit.name == "key"]
        free = ledger.left(key) if name in (None, key.name) else None
        left = min((row["left"] for row in rows), default=None) if free is None else ledger.shown(free)
        return self._amounts(balance) | {"left": left, "per_hour": 3600 * per_second, "limits": rows}

    def _limit(self, limit: BudgetLimit, per_second: float) -> dict[str, Any]:
        row, left = self._amounts(limit.balance), self._state.ledger.shown(max(0, limit.balance.free))
        row |= {"name": limit.name, "left": left, "ends_in_s": left / per_second if per_second > 0 else None}
        return row if limit.seconds is None else row | {"seconds": limit.seconds, "refills_in_s": limit.refills_in_s}

    def _amounts(self, balance: Balance) -> dict[str, Any]:
        shown = self._state.ledger.shown
        limit = None if balance.limit is None else shown(balance.limit)
        return {"limit": limit, "spent": shown(balance.spent), "held": shown(balance.held)}

    def _keys(self, viewer: ApiKey) -> dict[str, Any]:
        """What each key has spent, of a budget per window in the present one, over all replicas, and how many there
        are; who is no admin sees the own one."""
        ledger, owners = self._state.ledger, {key.name: key for key in self._state.keys.active()}
        names = self._key_names() if viewer.admin else [viewer.name]
        rows = []
        for name in names[:SHOWN_KEYS]:
            owner = owners.get(name) or ApiKey(name)
            limit = None if owner.budget is None else ledger.shown(owner.budget)
            rows.append(self._amounts(ledger.budget_balance_of(owner)) | {"name": name, "limit": limit})
        return {"rows": rows, "number": len(names)}

    def _upstream(self, viewer: ApiKey) -> dict[str, Any]:
        """How each server does for each model, as its latest requests say: ``down`` while it rests after failures,
        ``waiting`` by its own word, ``failing``, ``up`` after an answer; where it is and its load for admins."""
        pool, urls, rows = self._state.driver.fetcher.pool, self._state.upstream.urls, []
        now = asyncio.get_running_loop().time()  # which endpoints go by
        for model, part in (pool.by_model or {"": pool}).items():
            for endpoint in part.endpoints:
                rests, waits = endpoint.rest_until > now, endpoint.blocked_until > now
                states = {"down": rests, "waiting": waits, "failing": endpoint.failures, "up": endpoint.answered}
                rows.append({
                    "state": next((name for name, holds in states.items() if holds), "not asked"),
                    "failures": endpoint.failures,
                    "retry_in_s": max(0.0, max(endpoint.rest_until, endpoint.blocked_until) - now),
                    "latency_s": endpoint.latency_s,
                    "server": endpoint.number + 1,
                    "model": model,
                })  # fmt: skip
                if viewer.admin:
                    url = urls[endpoint.number] if endpoint.number < len(urls) else "this machine"
                    rows[-1] |= {"url": url, "in_flight": endpoint.in_flight}
        return {"servers": rows, "faults": dict(self._state.driver.fetcher.faults) if viewer.admin else {}}


class _EventStream(StreamingResponse):
    """Server-sent events, which keep their place until they end, however that is; refused where there is none."""

    def __init__(self, events: AsyncIterator[bytes], place: AbstractContextManager[None]) -> None:
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _data(data: dict[str, Any]) -> Response:
    """A response whose texts may hold anything, also halves of surrogate pairs, which Starlette's cannot encode."""
    return Response(json.dumps(data), media_type="application/json", headers=DATA_HEADERS)


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def description(settings: Settings) -> dict[str, Any]:
    """OpenAPI 3.1, with this gateway's limits.

    >>> sorted(description(Settings())["paths"])
    ['/healthz', '/metrics', '/readyz', '/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/models', ...]
    """
    values = asdict(settings.limits) | {"max_traces": settings.spec.spending.max_traces, "max_hurry": MAX_HURRY}
    values |= {"max_ignored": MAX_IGNORED, "ignored_name": json.dumps(IGNORED_NAME.pattern)}
    page: dict[str, Any] = json.loads(files(__package__).joinpath("openapi.json").read_text("utf-8") % values)
    for path in () if settings.passthrough else FORMS.keys() - {CHAT}:
        del page["paths"][f"/v1{path}"]
    for operation in (operation for path in page["paths"].values() for operation in path.values()):
        error = {"$ref": "#/components/responses/Error"}
        operation["responses"] |= {str(status): error for status in ERROR_STATUSES}
    return page
