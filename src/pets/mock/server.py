"""The mock over HTTP: the ASGI application with its paths, keys, time and faults, and two ways to serve it."""

import asyncio
import contextlib
import json
import math
import secrets
import sys
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import Message

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pets.mock.batches import ENDPOINTS, MockBatches
from pets.mock.completions import DONE, ERROR, CompletionResponse, check_model
from pets.mock.faults import FatalFault
from pets.mock.model import MockModel
from pets.openai.asgi import JSON, ClientGoneError, Exchange
from pets.openai.batch import MAX_FILE_BYTES
from pets.openai.errors import ApiError
from pets.openai.fields import json_object
from pets.openai.serving import ConnectionLimits, Server, foreground, in_thread

RUNNING = "vllm:num_requests_running"  # at /metrics, where clients look whether a server stops
STREAM_BATCH_CHARACTERS = 32 << 10  # sent at once when nothing makes a stream wait
MAX_BODY_BYTES = 32 << 20
MAX_FORM_BYTES = 64 << 10  # around an uploaded file


def serve(
    mock: MockModel | ASGIApp, host: str = "127.0.0.1", port: int = 8000, *, ready: Callable[[str], None]
) -> None:
    """Serve a mock, or an application around its :func:`app`, until interrupted.

    ``ready`` is told the URL as soon as connections are taken. Port 0 takes a free one.
    """
    foreground(_server(mock), host, port, lambda url: ready(f"{url}/v1"))


@contextlib.contextmanager
def running(mock: MockModel | ASGIApp, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """A mock in a thread of its own for as long as the block lasts; the value is the URL for an OpenAI client.

    An application around a mock's :func:`app` is served likewise.

    >>> import json, urllib.request
    >>> from pets.mock import DistributionAnswers
    >>> body = b'{"model": "mock", "prompt": "capital", "max_tokens": 3}'
    >>> with running(MockModel(DistributionAnswers({"capital": {"Paris": 1.0}}))) as url:
    ...     reply = json.load(urllib.request.urlopen(f"{url}/completions", body))
    >>> reply["choices"][0]["text"]
    '<think> so we'
    """
    with in_thread(_server(mock), host, port) as url:
        yield f"{url}/v1"


def app(mock: MockModel) -> ASGIApp:
    """The ASGI application of a mock; :func:`running` and ``pets mock`` serve it.

    Two faults (``half_body``, ``disconnect``) need to close the connection. The server of ``pets.mock`` lets them;
    under another one they raise :class:`ConnectionAbortedError` and the server does what it does then.
    """
    batches = MockBatches(mock)
    routes = [Route(path, _Completions(mock, chat=chat), methods=["POST"]) for path, chat in ENDPOINTS.items()]
    pages: list[tuple[str, str, Answer]] = [
        ("GET", "/v1/models", lambda request, _: {"object": "list", "data": [_model(mock)]}),
        ("GET", "/v1/models/{id:path}", lambda request, _: _model(mock, _id(request))),
        ("GET", "/v1/files", lambda request, _: batches.files(request.query_params)),
        ("POST", "/v1/files", lambda request, body: batches.upload(*_uploaded(request, body))),
        ("GET", "/v1/files/{id}", lambda request, _: batches.file(_id(request)).about),
        ("DELETE", "/v1/files/{id}", lambda request, _: batches.delete(_id(request))),
        ("GET", "/v1/files/{id}/content", lambda request, _: Response(batches.file(_id(request)).content)),
        ("GET", "/v1/batches", lambda request, _: batches.jobs(request.query_params)),
        ("POST", "/v1/batches", lambda request, body: batches.create(json_object(body))),
        ("GET", "/v1/batches/{id}", lambda request, _: batches.job(_id(request))),
        ("POST", "/v1/batches/{id}/cancel", lambda request, _: batches.cancel(_id(request))),
        ("GET", "/metrics", lambda request, _: _metrics(mock)),
        ("GET", "/mock/stats", lambda request, _: mock.stats.to_plain("questions" in request.query_params)),
        ("GET", "/mock/questions", lambda request, _: _questions(mock)),
    ]
    routes += [Route(path, _Page(mock, answer), methods=[method]) for method, path, answer in pages]
    return Starlette(routes=routes, exception_handlers={HTTPException: _unknown_url})


Answer = Callable[[Request, bytes], Response | dict[str, object]]
"""What a page says to a request and its body: JSON, unless it is a response of its own."""


class _Page:
    """A path that is answered at once, as plain ASGI; those of OpenAI's interface ask for the key."""

    def __init__(self, mock: MockModel, answer: Answer) -> None:
        self._mock, self._answer = mock, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        with contextlib.suppress(ClientGoneError):
            try:
                if scope["path"].startswith("/v1/"):
                    _authorize(self._mock, exchange)
                page = self._answer(Request(scope), await exchange.body(MAX_FILE_BYTES + MAX_FORM_BYTES))
            except ApiError as error:
                await exchange.respond_error(error)
            else:
                await (page if isinstance(page, Response) else JSONResponse(page))(scope, receive, send)


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _model(mock: MockModel, name: str | None = None) -> dict[str, object]:
    """The one model there is; another name is refused."""
    check_model(mock.model if name is None else name, mock.model)
    context = {} if mock.max_model_len is None else {"max_model_len": mock.max_model_len}
    return {"id": mock.model, "object": "model", "created": 0, "owned_by": "pets", **context}


def _metrics(mock: MockModel) -> Response:
    """How many requests are under way; one that answers at once does not tell: there is nothing to stop."""
    if not mock.tokens_per_second:
        raise ApiError("There are no metrics without --tokens-per-second.", status=404)
    return Response(f"{RUNNING} {mock.stats.running}\n")


def _questions(mock: MockModel) -> Response:
    """Every question as a line of JSON, as ``pets solve`` reads it; with the population's vote."""
    lines, answers = list[str](), mock.answers
    for id in answers.ids():
        row = {"id": id, "question": f"Question {id}", "gold": answers.gold(id), "vote": answers.greedy(id).answer}
        lines.append(json.dumps(row) + "\n")
    return Response("".join(lines), media_type="application/jsonl")


def _uploaded(request: Request, body: bytes) -> tuple[str, str, bytes]:
    """The name, the purpose and the content of the file in a multipart form."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    boundary = header.get_param("boundary")
    if not isinstance(boundary, str):
        raise ApiError("The body is a multipart form with a boundary.")
    parts: dict[str, tuple[str, bytes]] = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        disposition = message_from_bytes(head)
        name = disposition.get_param("name", header="content-disposition")
        parts[str(name)] = (disposition.get_filename(""), content)
    if "file" not in parts:
        raise ApiError("'file' is missing.", param="file")
    name, content = parts["file"]
    return name, parts.get("purpose", ("", b""))[1].decode(errors="replace"), content


class _Completions:
    """Both POST paths, as plain ASGI."""

    def __init__(self, mock: MockModel, *, chat: bool) -> None:
        self._mock, self._chat = mock, chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mock = self._mock
        mock.stats.requests += 1
        exchange = Exchange(scope, receive, send)
        try:
            _authorize(mock, exchange)
            request = mock.parse(await exchange.body(MAX_BODY_BYTES), self._chat)
            mock.admit(request)
        except ClientGoneError:
            mock.stats.abandoned += 1
            return
        except ApiError as error:
            mock.stats.refused += error.status != 429  # a limit is no mistake of the client's
            await exchange.respond(error.status, error.body(), [*error.headers(), *mock.rate_limit_headers()])
            return
        fault = mock.fatal_fault(request)
        if fault in ("rate_limit", "rate_limit_bare", "error_500", "hang", "disconnect"):
            await self._fail(exchange, fault)
            return
        response, late = mock.respond(request, spoiled=fault is not None)
        if late and not await exchange.wait(mock.faults.slow_seconds):
            mock.count_lost(response, abandoned=True)
            return
        mock.stats.running += 1
        try:
            await (self._send_stream if request.stream else self._send_whole)(exchange, response, fault)
        finally:
            mock.stats.running -= 1

    async def _lose(self, response: CompletionResponse, written: float) -> None:
        """The client has gone: a model that stops has written so much, another one goes on to the end."""
        mock = self._mock
        if not mock.stops and mock.tokens_per_second:
            await asyncio.sleep(max(0.0, response.longest - written) / mock.tokens_per_second)
            written = math.inf
        mock.count_lost(response, abandoned=True, written=written)

    async def _fail(self, exchange: Exchange, fault: FatalFault) -> None:
        """The faults that leave no response."""
        if fault == "hang":
            await exchange.wait_gone()
        elif fault == "disconnect":
            await exchange.drop()
        elif fault == "error_500":
            await exchange.respond_error(ApiError("The server had an error (on purpose).", status=500))
        else:
            after = f"{self._mock.faults.retry_after:g}".encode()
            headers = [(b"retry-after", after)] if fault == "rate_limit" else []
            error = ApiError("Rate limit reached (on purpose).", status=429, code="rate_limit_exceeded")
            await exchange.respond(429, error.body(), headers)

    async def _send_whole(self, exchange: Exchange, response: CompletionResponse, fault: FatalFault | None) -> None:
        """The choices run side by side, so the longest says when the response is there."""
        mock = self._mock
        seconds, clock = mock.seconds(response), asyncio.get_running_loop().time
        started = clock()
        if seconds and not await exchange.wait(seconds):
            await self._lose(response, (clock() - started) * mock.tokens_per_second)
            return
        body = response.whole()
        half = body[: len(body) // 2]
        (mock.count_served if fault is None else mock.count_lost)(response)
        if fault is None:
            await exchange.respond(200, body, mock.rate_limit_headers())
        elif fault == "error_event":
            await exchange.respond(500, ERROR.encode())
        elif fault == "wrong_json":
            await exchange.respond(200, half)
        else:
            await exchange.start(200, [JSON, (b"content-length", b"%d" % len(body))])
            await exchange.send(half)
            await exchange.drop()

    async def _send_stream(self, exchange: Exchange, response: CompletionResponse, fault: FatalFault | None) -> None:
        """Token by token, all choices in step, each token at its time, and none for a client that has gone by then."""
        if fault is not None:
            await self._send_broken_stream(exchange, response, fault)
            return
        await exchange.start_events(self._mock.rate_limit_headers())
        token_s = 1 / self._mock.tokens_per_second if self._mock.tokens_per_second else 0.0
        clock = asyncio.get_running_loop().time
        started, unsent = clock(), ""
        longest = response.longest  # the step after it, the finish, takes no time
        for number, step in enumerate(response.steps(), 1):
            early_s = started + min(number, longest) * token_s - clock() if token_s else 0.0
            if token_s and ((early_s > 0 and not await exchange.wait(early_s)) or exchange.is_closing):
                await self._lose(response, number - 1)
                return
            unsent += step
            if (token_s and number < longest) or len(unsent) > STREAM_BATCH_CHARACTERS:
                await exchange.send(unsent.encode())
                unsent = ""
        self._mock.count_served(response)
        await exchange.send((unsent + response.last()).encode(), end=True)

    async def _send_broken_stream(self, exchange: Exchange, response: CompletionResponse, fault: FatalFault) -> None:
        """Half of the events; then the end of the connection, or an error or half an event and a proper end."""
        seconds = self._mock.seconds(response) / 2
        gone = seconds > 0 and not await exchange.wait(seconds)
        self._mock.count_lost(response, abandoned=gone)
        if gone:
            return
        steps = list(response.steps())
        half = "".join(steps[: len(steps) // 2])
        await exchange.start_events()
        if fault == "error_event":
            await exchange.send(f"{half}data: {ERROR}\n\n{DONE}".encode(), end=True)
        elif fault == "wrong_json":
            event = steps[len(steps) // 2].split("\n")[0]
            await exchange.send(f"{half}{event[: len(event) // 2]}\n\n{response.last()}".encode(), end=True)
        else:
            await exchange.send(half.encode() or steps[0][:20].encode())
            await exchange.drop()


def _authorize(mock: MockModel, exchange: Exchange) -> None:
    """Refuse a request without the key."""
    key = exchange.headers.get("authorization", "").removeprefix("Bearer ")
    if mock.api_key is not None and not secrets.compare_digest(key.encode(), mock.api_key.encode()):
        raise ApiError("Incorrect API key provided.", status=401, code="invalid_api_key")


async def _unknown_url(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in OpenAI's form."""
    assert isinstance(error, HTTPException)
    message = f"Unknown request URL: {request.method} {request.url.path}."
    body = ApiError(message, status=error.status_code, code="unknown_url").body()
    return Response(body, error.status_code, media_type="application/json")


def _server(mock: MockModel | ASGIApp) -> Server:
    limits = ConnectionLimits(connections=sys.maxsize)  # as many as there are files: load tests want them
    served = app(mock) if isinstance(mock, MockModel) else mock
    return Server(served, limits, 1, abrupt=True, lifespan="off", log_level="critical")
