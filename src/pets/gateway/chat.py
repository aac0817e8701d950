"""``POST /v1/chat/completions``: votes, or passes through."""

import asyncio
import json
import secrets
import time
from typing import Any

import aiohttp
from starlette.types import Receive, Scope, Send

from pets.errors import PetsError, SamplerError
from pets.gateway.asking import Asked, Options, parse
from pets.gateway.desk import Desk
from pets.gateway.keys import Key
from pets.gateway.line import ClientGoneError, Line
from pets.gateway.logs import LOGGER
from pets.gateway.refusals import RefusalError
from pets.gateway.tracing import span
from pets.gateway.upstream import head_of
from pets.gateway.voting import refusal_of
from pets.gateway.wire import KEEPALIVE, events, pets_object, whole

__all__ = ["Chat"]

FOREVER = 3600.0


class Chat:
    """The endpoint, as plain ASGI: Starlette's requests and responses cost more than the vote."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        desk, begun = self._desk, time.perf_counter()
        id = secrets.token_hex(12)  # ours: what a client would call itself is not to be trusted
        line = Line(scope, receive, send, id)
        said: dict[str, Any] = {"id": id}
        try:
            with desk.under_way(), span("chat", line.headers, said):
                await self._answer(line, id, said)
        except ClientGoneError:
            line.status = line.status or 499
            said["gone"] = True
        except RefusalError as refusal:
            said["refused"] = refusal.code or refusal.message
            await self._refuse(line, refusal)
        except asyncio.CancelledError:
            said["cancelled"] = True
            raise
        except PetsError as error:  # a bug's last stop: what PETS raises on purpose is a refusal by now
            said["error"] = f"{type(error).__name__}: {error}"
            await self._refuse(line, RefusalError("The gateway cannot vote now.", status=503, retry_after=1))
        finally:
            desk.over(said, line.status, time.perf_counter() - begun)

    async def _answer(self, line: Line, id: str, said: dict[str, Any]) -> None:
        desk = self._desk
        key = desk.admit(line.headers)
        said["key"] = key.name
        body = await line.body(desk.settings.limits)
        asked = parse(body, line.headers, desk.settings)
        said |= {"model": asked.model, "voted": asked.options is not None, "stream": asked.stream}
        desk.voter.upstream.check(asked.model)
        if asked.options is None:
            await self._pass(line, body)
        else:
            await self._vote(line, asked, asked.options, key, id, said)

    async def _vote(self, line: Line, asked: Asked, options: Options, key: Key, id: str, said: dict[str, Any]) -> None:
        desk = self._desk
        beat = KEEPALIVE if asked.stream else None
        outcome = await line.unless_gone(desk.voter.vote(asked, options, key, id), desk.settings.keepalive, beat)
        about = pets_object(outcome, desk.voter.ledger)
        desk.voted(outcome, about)
        said |= {name: about[name] for name in ("traces", "lost", "rounds", "stopped", "seconds", "upstream_seconds")}
        if not asked.stream:
            await line.whole(200, whole(outcome, about))
            return
        await line.begin_events()
        for event in events(outcome, about):
            await line.more(event)
        await line.more(b"", end=True)

    async def _pass(self, line: Line, body: bytes) -> None:
        """Bytes there and back, as they come."""
        desk = self._desk
        if not desk.settings.passthrough:
            prefix = desk.settings.prefix
            raise RefusalError(f"This gateway votes: ask for {prefix}NAME.", status=404, param="model")
        headers = dict(line.headers)
        if desk.keys.on or desk.voter.upstream.has_key:
            headers.pop("authorization", None)  # the gateway's key is not the server's
        await line.unless_gone(self._passed(line, body, headers), FOREVER, None)

    async def _passed(self, line: Line, body: bytes, headers: dict[str, str]) -> None:
        try:
            async with self._desk.voter.upstream.passed(body, headers) as response:
                await line.start(response.status, head_of(response))
                async for part in response.content.iter_any():
                    await line.more(part)
            await line.more(b"", end=True)
        except SamplerError as error:
            raise refusal_of(error) from error
        # In the middle: the client sees its connection end early, as we did.
        except (aiohttp.ClientError, TimeoutError) as error:
            LOGGER.warning("the upstream server broke off (%s)", type(error).__name__)
            raise ClientGoneError from error

    async def _refuse(self, line: Line, refusal: RefusalError) -> None:
        """An error with its status; in the middle of a stream, as its last event."""
        if not line.status:
            await line.refuse(refusal)
            return
        data = json.dumps(refusal.plain()).encode()
        await line.more(b"data: " + data + b"\n\n", end=True)
