"""``PaidTraces``: what requests of a key have paid for, for its later ones that ask the same (``serve --reuse``)."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from hashlib import sha256
from itertools import takewhile
from typing import Any

from pets.confidence import Confidence
from pets.engine.question import UNREAD
from pets.errors import StateError
from pets.gateway.telemetry import LOGGER
from pets.prompts import Completion, Prompt, Sampling
from pets.store import StoredTrace
from pets.store.database import Database
from pets.store.records import CANCELLED, storable

FIND = "SELECT number, trace FROM paid_traces WHERE key = ?1 AND question = ?2"
KEEP = "INSERT INTO paid_traces VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key, question, number) DO NOTHING"


class PaidTraces:
    """Traces by key, question and launch number, in the gateway's store; a thread of its own reads and writes them.

    ``source`` tells the servers and models from others: their traces are not those of this gateway's.
    """

    def __init__(self, database: Database, source: str) -> None:
        self._database, self._source = database, source
        self._thread = ThreadPoolExecutor(1, "pets-paid-traces")

    def digest(self, prompt: Prompt, sampling: Sampling, seed: object) -> str:
        """What tells a question from others: all that is asked; a client's own seed asks for traces of its own."""
        asked = [self._source, prompt.body, sampling.top_logprobs, seed]
        return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    async def find(self, key: str, question: str) -> dict[int, Completion]:
        """What a key has paid for, by launch number, up to the first that was cancelled, behind which traces are short;
        nothing where the store cannot be read."""
        loop = asyncio.get_running_loop()
        try:
            rows = await loop.run_in_executor(self._thread, self._database.all, FIND, key, question)
            traces = ((number, _completion(json.loads(trace))) for number, trace in sorted(rows))
            return dict(takewhile(lambda trace: trace[1].finish != CANCELLED, traces))
        except (StateError, ValueError, TypeError) as error:
            LOGGER.warning("traces that were paid for cannot be read, and are asked for again: %s", error)
            return {}

    def keep(
        self, key: str, question: str, traces: Sequence[StoredTrace], raw: Mapping[int, Mapping[str, Any]]
    ) -> None:
        """Write traces soon, with their choices as the server gave them."""
        rows = [(key, question, t.number, _plain(t, raw.get(t.number))) for t in traces if t.error is None]

        def write() -> None:
            try:
                with self._database.transaction() as transaction:
                    transaction.executemany(KEEP, rows)
            except StateError as error:
                LOGGER.warning("%d traces that were paid for cannot be kept: %s", len(rows), error)

        self._thread.submit(write)

    def close(self) -> None:
        """Write what is left, and close the connection."""
        self._thread.shutdown()
        self._database.close()


def _plain(trace: StoredTrace, raw: Mapping[str, Any] | None) -> str:
    confidences = None if trace.confidences is None else astuple(trace.confidences)
    finish = "stop" if trace.finish == UNREAD else trace.finish
    used = trace.tokens, trace.prompt_tokens, trace.cached_tokens
    return storable(json.dumps([trace.text, finish, *used, trace.model, confidences, raw]))


def _completion(plain: Sequence[Any]) -> Completion:
    text, finish, tokens, prompt_tokens, cached_tokens, model, confidences, raw = plain
    confidence = None if confidences is None else Confidence(*confidences)
    return Completion(
        text, finish, tokens, prompt_tokens, confidence, raw, cached_tokens=cached_tokens, model=model, reused_from=0
    )
