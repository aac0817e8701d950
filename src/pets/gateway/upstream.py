"""The servers behind a gateway: samplers for votes, the models they list, and requests that pass through."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pets.core.mixture import ModelMixture
from pets.engine.budget import Models, model_shares
from pets.engine.sources import endpoints_by_model
from pets.errors import BusyError, InputError, RefusedError, SamplerError, UnreachableError
from pets.gateway.telemetry import LOGGER
from pets.openai.errors import ApiError
from pets.openai.headers import Redactor, secrets_of
from pets.openai.models import context_tokens
from pets.samplers import Sampler
from pets.samplers.local import LocalSampler
from pets.samplers.mixture import MixtureSampler
from pets.samplers.openai import OpenAISampler
from pets.samplers.transport import HttpClient, parts_of, sampler_errors

if TYPE_CHECKING:
    import aiohttp

MIXTURE = "mixture"  # the model that several models are when they vote
RELIST_S = 5.0  # at the least, between two looks for a model that is not in the list
SHOWN_MODELS = 20  # in a refusal
POLL_S = 1.0  # between two looks for a server that is not there yet
MAX_PASSED_BYTES = 1 << 30  # of one reply; they are not kept
SENT_HEADERS = ("accept", "content-type", "authorization")
RETURNED_HEADERS = (b"content-type", b"retry-after")
CLIENT_STATUSES = (400, 404, 413, 422)  # of a request that the server refuses for what the client wrote


class Upstream:
    """The servers at ``urls`` (each with its ``/v1``), or a local model, which runs from :meth:`open` to :meth:`close`.

    ``samplers`` draw the traces of votes; what passes through goes to the first server that can be reached. ``key``
    and ``headers`` go to the servers alone: it is neither logged nor shown, and redacted where a server sends it back.
    Several ``models`` vote together, as the model :data:`MIXTURE`; then a server may be one model's, ``MODEL=URL``.
    """

    def __init__(
        self,
        servers: str | Sequence[str] | LocalSampler,
        *,
        models: Models | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 600.0,
    ) -> None:
        self._key, self._headers, self._timeout = key, dict(headers or {}), timeout
        self._redactor = Redactor(key, *secrets_of(self._headers))
        self._local = servers if isinstance(servers, LocalSampler) else None
        urls = [] if isinstance(servers, LocalSampler) else [servers] if isinstance(servers, str) else list(servers)
        if self._local is None and not urls:
            raise InputError("a gateway needs a server behind it; give one such as http://localhost:8000/v1.")
        self._mixed = model_shares(models)
        names = [share.name for share in self._mixed]
        own = endpoints_by_model(names, urls) if names else {"": urls}
        self._models = [name for name in own for _ in own[name]]  # whose each server is
        self.urls = [url.rstrip("/") for name in own for url in own[name]]
        self._sampler = partial(OpenAISampler, model="", key=key, headers=headers, dialect="openai", timeout=timeout)
        self.samplers: list[Sampler] = [self._sampler(url) for url in self.urls]
        if self._local is not None:
            self.samplers = [self._local]
        elif self._mixed:
            mixture = ModelMixture(tuple(share.weight for share in self._mixed))
            for place, name in enumerate(self._models):
                self.samplers[place] = MixtureSampler(self.samplers[place], mixture, names.index(name), name)
        self._clients = self._new_clients()
        self._contexts: dict[str, int] = {}  # by model, as the list of models says
        self._own_names = set(names)  # of models that have a server of their own
        self._listed: set[str] = set()  # the servers' models; none where they are not known
        self._relist_at = 0.0

    @property
    def has_key(self) -> bool:
        """Whether the servers are spoken to with a key of the gateway's own."""
        return self._key is not None or bool(secrets_of(self._headers))

    async def open(self) -> None:
        """Start the local model, if that is the server; a server elsewhere is there or not."""
        if self._local is not None:
            await self._local.__aenter__()
            self.urls, self._models, self._key = [self._local.url], [""], self._local.key
            self._redactor = Redactor(self._key)
            self._clients = self._new_clients()

    def _new_clients(self) -> list[HttpClient]:
        return [HttpClient(url, key=self._key, headers=self._headers, timeout=self._timeout) for url in self.urls]

    async def check(self, model: str, *, voted: bool = False) -> None:
        """Refuse a model that is not there: the local one has one name, a mixture another, servers list theirs.

        Servers that list none, or whose list nobody has asked for yet, refuse for themselves.
        """
        names, now = self._listed, asyncio.get_running_loop().time()
        tagged = f"{model}:latest"  # which Ollama's models are without saying so
        if self._local is not None:
            names = {self._local.weights.name}
        elif self._mixed and voted:
            names = {MIXTURE}
        elif names and names.isdisjoint((model, tagged)) and now >= self._relist_at:
            self._relist_at = now + RELIST_S
            with contextlib.suppress(SamplerError):  # what was listed before still holds
                lists = [await sampler.models() for sampler in self.samplers]
                names = self._listed = self._own_names | {model["id"] for models in lists for model in models}
        if names and names.isdisjoint((model, tagged)):
            shown = ", ".join(map(repr, sorted(names)[:SHOWN_MODELS]))
            more = f" and {len(names) - SHOWN_MODELS} more" if len(names) > SHOWN_MODELS else ""
            message = f"There is no model {model!r}; this server has {shown}{more}."
            raise ApiError(message, status=404, param="model", code="model_not_found")

    def voting(self, models: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Of the servers' models those that vote: each of them, or several together."""
        return [{"id": MIXTURE, "object": "model"}] if self._mixed else list(models)

    @asynccontextmanager
    async def forward(
        self, path: str, body: bytes, headers: Mapping[str, str], model: str
    ) -> AsyncIterator["aiohttp.ClientResponse"]:
        """The response to a request as the client sent it, of the first server that can be reached, or of the model's
        own, if it has some; :meth:`passed_bytes` reads it as it comes."""
        sent = {"content-type": "application/json"} | {name: headers[name] for name in SENT_HEADERS if name in headers}
        sent["accept-encoding"] = "identity"  # what comes back is read: counted, and searched for the key
        unreachable: SamplerError = UnreachableError("no server can be reached: none is running yet.")
        async with AsyncExitStack() as stack:
            for owner, url, client in zip(self._models, self.urls, self._clients, strict=True):
                if model in self._models and owner != model:
                    continue
                try:
                    with sampler_errors(url):
                        request = client.request("POST", url + path, body, headers=sent)
                        response = await stack.enter_async_context(request)
                except UnreachableError as error:
                    unreachable = error
                else:
                    yield response
                    return
        raise unreachable

    def passed_headers(self, response: "aiohttp.ClientResponse") -> list[tuple[bytes, bytes]]:
        """The headers of a response that go on to the client."""
        returned = [(name, value) for name, value in response.raw_headers if name.lower() in RETURNED_HEADERS]
        return [(name, self._redactor.data(value)) for name, value in returned]

    async def passed_bytes(self, response: "aiohttp.ClientResponse") -> AsyncIterator[bytes]:
        """The bytes of a response that go on to the client, as they come."""
        with sampler_errors("the server"):
            async for part in self._redactor.stream(parts_of(response, MAX_PASSED_BYTES)):
                yield part

    async def models(self) -> list[dict[str, Any]]:
        """The models that the first server that can be reached lists."""
        for sampler in self.samplers:
            try:
                models = await sampler.models()
                break
            except (UnreachableError, BusyError):
                if sampler is self.samplers[-1]:
                    raise
        lengths = ((model["id"], context_tokens(model)) for model in models)
        self._contexts = {name: length for name, length in lengths if length is not None}
        self._listed |= self._own_names | {model["id"] for model in models}
        return models

    def fitting_tokens(self, model: str, limit: int, prompt_tokens: int) -> int:
        """The token limit, or what the model's context leaves beside the prompt where that is known and less."""
        names = [share.name for share in self._mixed] if model == MIXTURE else [model]
        contexts = [self._contexts[name] for name in names if name in self._contexts]
        if self._local is not None:
            contexts = [self._local.config.context]
        return limit if not contexts else max(1, min(limit, min(contexts) - prompt_tokens))

    async def find_models(self, wait_s: float = 0.0) -> list[str]:
        """The names of the models behind, asked for before serving; waits ``wait_s`` seconds for a server to come up.

        ``InputError`` where no server is there, or none of them will serve; a server without a list of models has none.
        """
        if self._local is not None:
            return [self._local.weights.name]
        clock = asyncio.get_running_loop().time
        end = clock() + wait_s
        while True:
            try:
                return [model["id"] for model in self.voting(await self.models())]
            except RefusedError as error:
                return await self._without_list(error)
            except SamplerError as error:
                if clock() >= end:
                    words = "Start it first, or wait for it with --wait SECONDS; --no-check starts without it."
                    raise InputError(f"{error} {words}") from error
            await asyncio.sleep(min(POLL_S, max(0.0, end - clock())))

    async def _without_list(self, error: RefusedError) -> list[str]:
        """What a refusal to list models means: a wrong key or address is told, no list is none."""
        url = self.urls[0]
        if error.status in (401, 403):
            refusal = "refuses this key" if self._key else "wants a key"
            words = f"{url} {refusal} ({error.status}). Give it as PETS_UPSTREAM_KEY (or OPENAI_API_KEY)."
            raise InputError(words) from error
        if not url.endswith("/v1"):
            with contextlib.suppress(SamplerError):
                await self._sampler(f"{url}/v1").models()
                raise InputError(f"{url} is not where the API is; its address is {url}/v1.") from error
        LOGGER.warning("%s lists no models (%s)", url, error)
        return []

    async def close(self) -> None:
        """Close every connection and end a local model; a second call does nothing."""
        for client in self._clients:
            await client.close()
        for sampler in self.samplers:
            await sampler.close()


def api_error(error: SamplerError, timed_out: bool = False) -> ApiError:
    """What the client is told of a request for which nothing came back."""
    if timed_out:
        return ApiError("Nothing came back in time.", status=504, code="timeout")
    if isinstance(error, RefusedError) and error.status in CLIENT_STATUSES:
        return ApiError(str(error), status=error.status, code="upstream_refused")
    if isinstance(error, RefusedError):  # such as our own key: none of the client's business
        return ApiError("The upstream server refuses this gateway.", status=502, code="upstream_refused")
    wait_s = error.retry_after or 1.0
    return ApiError("The upstream server gives no answers now.", status=503, code="upstream_busy", retry_after=wait_s)
