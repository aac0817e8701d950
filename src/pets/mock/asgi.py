"""The mock as an ASGI application: paths, keys, time, and the faults that happen on the wire."""

import asyncio
import json
import secrets

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pets.mock.asking import parse
from pets.mock.faults import Spoiler
from pets.mock.mind import Mock
from pets.mock.wire import DONE, ERROR, Reply, whole_body
from pets.openai.asgi import JSON, ClientGoneError, Exchange
from pets.openai.errors import ApiError

__all__ = ["app"]

BATCH = 32 << 10  # characters of a stream that are sent at once when nothing makes it wait
MAX_BODY_BYTES = 32 << 20


def app(mock: Mock) -> ASGIApp:
    """The ASGI application of a mock; :func:`pets.mock.running` and ``pets mock`` serve it.

    Two faults (``half_body``, ``disconnect``) need to close the connection. The server of ``pets.mock`` lets them;
    under another one they raise :class:`ConnectionAbortedError` and the server does what it does then.
    """
    front = _Front(mock)
    routes = [
        Route("/v1/models", front.models),
        Route("/v1/models/{model:path}", front.model),
        Route("/v1/chat/completions", _Completions(front, chat=True), methods=["POST"]),
        Route("/v1/completions", _Completions(front, chat=False), methods=["POST"]),
        Route("/mock/stats", front.stats),
        Route("/mock/questions", front.questions),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _not_here, ApiError: _refused})


class _Front:
    """The paths that only tell."""

    def __init__(self, mock: Mock) -> None:
        self.mock = mock

    def authorize(self, scope: Scope) -> None:
        """Refuse a request without the key."""
        if self.mock.api_key is None:
            return
        given = dict(scope["headers"]).get(b"authorization", b"").removeprefix(b"Bearer ")
        if not secrets.compare_digest(given, self.mock.api_key.encode()):
            raise ApiError("Incorrect API key provided.", status=401, code="invalid_api_key")

    async def models(self, request: Request) -> Response:
        """The one model there is."""
        self.authorize(request.scope)
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """One model by name."""
        self.authorize(request.scope)
        if (name := request.path_params["model"]) != self.mock.model:
            found = f"The model {name!r} does not exist; this server has {self.mock.model!r}."
            raise ApiError(found, param="model", status=404, code="model_not_found")
        return JSONResponse(self._model())

    async def stats(self, request: Request) -> Response:
        """The books; with ``?questions=1`` also the traces of each question."""
        return JSONResponse(self.mock.stats.to_plain("questions" in request.query_params))

    async def questions(self, request: Request) -> Response:
        """Every question as a line of JSON, as ``pets solve`` reads it; with the population's vote."""
        book = self.mock.book
        rows = (
            {"id": id, "question": f"Question {id}", "gold": book.gold(id), "vote": book.modal(id).answer}
            for id in book.ids()
        )
        return Response("".join(json.dumps(row) + "\n" for row in rows), media_type="application/jsonl")

    def _model(self) -> dict[str, object]:
        return {"id": self.mock.model, "object": "model", "created": 0, "owned_by": "pets"}


class _Completions:
    """Both POST paths; plain ASGI, because Starlette's requests and responses cost more than the rest together."""

    def __init__(self, front: _Front, *, chat: bool) -> None:
        self.front, self.mock, self.chat = front, front.mock, chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        stats = self.mock.stats
        stats.requests += 1
        exchange = Exchange(scope, receive, send)
        try:
            self.front.authorize(scope)
            ask = parse(await exchange.body(MAX_BODY_BYTES), self.mock.model, self.chat)
            self.mock.admit(ask)
        except ClientGoneError:
            stats.abandoned += 1
            return
        except ApiError as error:
            stats.refused += 1
            await exchange.respond_error(error)
            return
        spoiler = self.mock.spoiler()
        if spoiler in ("rate_limit", "rate_limit_bare", "error_500", "hang", "disconnect"):
            await self._fail(exchange, spoiler)
            return
        reply, late = self.mock.reply(ask, spoiled=spoiler is not None)
        if late and not await exchange.wait(self.mock.faults.slow_seconds):
            self.mock.lost(reply, abandoned=True)
            return
        await (self._stream if ask.stream else self._whole)(exchange, reply, spoiler)

    async def _fail(self, exchange: Exchange, spoiler: Spoiler) -> None:
        """The faults that leave no reply."""
        if spoiler == "hang":
            await exchange.wait_gone()
            return
        if spoiler == "disconnect":
            await exchange.drop()
            return
        if spoiler == "error_500":
            await exchange.respond_error(ApiError("The server had an error (on purpose).", status=500))
            return
        after = f"{self.mock.faults.retry_after:g}".encode()
        headers = [(b"retry-after", after)] if spoiler == "rate_limit" else []
        error = ApiError("Rate limit reached (on purpose).", status=429, code="rate_limit_exceeded")
        await exchange.respond(429, error.body(), headers)

    async def _whole(self, exchange: Exchange, reply: Reply, spoiler: Spoiler | None) -> None:
        """The choices run side by side, so the longest says when the reply is there."""
        seconds = max(map(self.mock.seconds, reply.choices))
        if seconds and not await exchange.wait(seconds):
            self.mock.lost(reply, abandoned=True)
            return
        body = whole_body(reply)
        if spoiler is None:
            self.mock.served(reply)
            await exchange.respond(200, body)
            return
        self.mock.lost(reply)
        if spoiler == "error_event":
            await exchange.respond(500, ERROR.encode())
            return
        half = body[: len(body) // 2]
        if spoiler == "wrong_json":
            await exchange.respond(200, half)
        else:
            await exchange.start(200, [JSON, (b"content-length", b"%d" % len(body))])
            await exchange.send(half)
            await exchange.drop()

    async def _stream(self, exchange: Exchange, reply: Reply, spoiler: Spoiler | None) -> None:
        """Token by token, all choices in step, each token at its time."""
        if spoiler is not None:
            await self._broken_stream(exchange, reply, spoiler)
            return
        await exchange.start_events()
        pace = 1 / self.mock.tokens_per_second if self.mock.tokens_per_second else 0.0
        clock = asyncio.get_running_loop().time
        begun, waiting = clock(), ""
        longest = max(choice.tokens for choice in reply.choices)  # the step after it, the finish, takes no time
        for number, step in enumerate(reply.steps(), 1):
            ahead = begun + min(number, longest) * pace - clock() if pace else 0.0
            if (waiting and ahead > 0) or len(waiting) > BATCH:
                await exchange.send(waiting.encode())
                waiting = ""
            if ahead > 0 and not await exchange.wait(ahead):
                self.mock.lost(reply, abandoned=True)
                return
            waiting += step
        self.mock.served(reply)
        await exchange.send((waiting + reply.last()).encode(), end=True)

    async def _broken_stream(self, exchange: Exchange, reply: Reply, spoiler: Spoiler) -> None:
        """Half of the events; then the end of the connection, or an error or half an event and a proper end."""
        seconds = max(map(self.mock.seconds, reply.choices)) / 2
        gone = seconds > 0 and not await exchange.wait(seconds)
        self.mock.lost(reply, abandoned=gone)
        if gone:
            return
        steps = list(reply.steps())
        half = "".join(steps[: len(steps) // 2])
        await exchange.start_events()
        if spoiler == "error_event":
            await exchange.send(f"{half}data: {ERROR}\n\n{DONE}".encode(), end=True)
        elif spoiler == "wrong_json":
            event = steps[len(steps) // 2].split("\n")[0]
            await exchange.send(f"{half}{event[: len(event) // 2]}\n\n{reply.last()}".encode(), end=True)
        else:
            await exchange.send(half.encode() or steps[0][:20].encode())
            await exchange.drop()


async def _not_here(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in OpenAI's form."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = f"Unknown request URL: {request.method} {request.url.path}."
    return _error_response(ApiError(message, status=status, code="unknown_url"))


async def _refused(request: Request, error: Exception) -> Response:
    return _error_response(error if isinstance(error, ApiError) else ApiError(str(error), status=500))


def _error_response(error: ApiError) -> Response:
    return Response(error.body(), error.status, media_type="application/json")
