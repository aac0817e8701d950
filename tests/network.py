"""A network within the test: a function answers every request to a server, without a socket, on any clock."""

import inspect
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import aiohttp
import httpx
from multidict import CIMultiDict

__all__ = ["answered_by"]

Handler = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]


@contextmanager
def answered_by(handler: Handler) -> Iterator[None]:
    """Let ``handler`` answer whatever aiohttp sends in this block; what it raises, whoever sent the request gets."""

    def request(session: aiohttp.ClientSession, *words: Any, **options: Any) -> Any:
        return _exchange(handler, session.headers, *words, **options)

    with mock.patch.object(aiohttp.ClientSession, "request", request):
        yield


@asynccontextmanager
async def _exchange(
    handler: Handler,
    defaults: Mapping[str, str],
    method: str,
    url: str,
    *,
    data: bytes | io.BytesIO | None,
    headers: Mapping[str, str],
    **_: Any,
) -> AsyncIterator[Any]:
    content = data.getvalue() if isinstance(data, io.BytesIO) else data
    sent = httpx.Headers(dict(defaults))
    sent.update(headers)
    unknown = method == "GET" and str(url).endswith("/metrics")  # no handler answers for a server's counters
    response = httpx.Response(404) if unknown else handler(httpx.Request(method, url, headers=sent, content=content))
    if inspect.isawaitable(response):
        response = await response
    yield SimpleNamespace(
        status=response.status_code,
        headers=CIMultiDict(response.headers.multi_items()),
        raw_headers=response.headers.raw,
        content=SimpleNamespace(iter_any=response.stream.__aiter__),
    )
