"""Traces by batch jobs: requests that come together go out as one file, and their replies come with the job's end.

What is asked for while nothing is out makes up a job (several, where one would be too large). A job is written down,
under a key of its own, before anything of it is sent, and the key goes with it as metadata: whatever happens to this
process, the next one finds the job by listing, and nothing is handed in twice.
"""

import asyncio
import io
import json
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from pets.errors import BusyError, JobError, JobLeftError, RefusedError, ReplyError, SamplerError
from pets.openai.batch import (
    MAX_FILE_BYTES,
    MAX_REQUESTS,
    BatchJob,
    BatchLine,
    BatchReplies,
    BatchReply,
    NotExecutedError,
    custom_id,
    request_line,
)
from pets.openai.headers import Redactor, secrets_of
from pets.openai.request import path_of
from pets.openai.response import ResponseReader, error_from, excerpt, json_reply
from pets.prompts import Completion, Prompt, Sampling
from pets.samplers.openai import Body, OpenAISampler, TraceStream
from pets.samplers.transport import (
    HttpClient,
    Payload,
    body_of_reply,
    parts_of,
    sampler_errors,
    split_lines,
    start_of_reply,
)
from pets.tabular import atomic_write

if TYPE_CHECKING:
    import aiohttp

LOGGER = logging.getLogger("pets.samplers")
GATHER_S = 0.25  # without a further request, and those that came make up a job
TELL_AT_ONCE = 64  # replies that are in memory together
FIRST_POLL_S, MAX_POLL_S, POLL_GROWTH = 0.25, 60.0, 1.5
FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.5, 60.0
FIRST_CONTACT_TRIES = 4  # at a provider that never answered
QUEUE_WAIT_S = 60.0  # of a job that is as small as can be, for a place in the provider's queue
PAGE_JOBS, PAGE_FILES = 100, 1000
CLOCK_SKEW_S = 3600.0  # between this machine and the provider, when jobs are looked for by their age
MAX_PAGE_BYTES = 16 << 20
MAX_LINE_BYTES = 1 << 30
MAX_OUTPUT_BYTES = 1 << 40
ENDED = {"completed", "failed", "expired", "cancelled"}
QUEUE_FULL = "token_limit_exceeded"  # the code of a job that must wait for others to end
KEY, WAVE = "pets_job", "pets_wave"  # of a job's metadata

T = TypeVar("T")


class JobJournal(Protocol):
    """Where jobs are written down; both return when that is durable."""

    async def write_job(self, job: BatchJob) -> None:
        """Write down a job, or what is new about it."""

    async def drop_job(self, job: BatchJob) -> None:
        """Forget a job of which nothing was executed."""


JobOutcome = tuple[BatchReplies, SamplerError | None]
"""The replies of a job that has ended, and what became of requests without one; ``None`` where they may come later. A
``JobError``, of a job that was cancelled while somebody waited for it, is also for those that came to nothing."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one job may hold, all of it to one path."""

    requests: int = MAX_REQUESTS
    bytes: int = MAX_FILE_BYTES


class BatchProvider(Protocol):
    """Whoever runs jobs, within ``limits``; where it ``cancels``, jobs are stopped, and what they have is read."""

    limits: BatchLimits = BatchLimits()
    cancels: bool = False

    async def run(self, job: BatchJob, lines: Sequence[bytes], journal: JobJournal, *, new: bool) -> JobOutcome:
        """Hand in a job, which is ``new`` or may be there already, and wait for its end; ``lines`` are its requests."""

    async def close(self) -> None:
        """Give back what is held; jobs stay where they are."""


class JobQueueFullError(JobError):
    """The provider takes no job of this size now."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request that waits for its reply."""

    line: BatchLine
    endpoint: str
    content: bytes
    reply: "asyncio.Future[BatchReply | SamplerError]"


class BatchSampler(OpenAISampler):
    """Traces of a model by batch jobs at ``provider``; :meth:`begin` first, with the jobs of an earlier process.

    ``wave`` gives the number of the wave that a new job belongs to, ``arriving`` says whether more requests are about
    to come that belong to the same job; ``on_job`` is called with every job that was handed in.
    """

    def __init__(self, url: str, model: str, provider: BatchProvider, **options: Any) -> None:
        super().__init__(url, model, **options)
        self.provider = provider
        self.wave: Callable[[], int] = lambda: 0
        self.arriving: Callable[[], bool] = lambda: False
        self.on_job: Callable[[BatchJob], None] = lambda job: None
        self.open_jobs: dict[str, BatchJob] = {}
        """Jobs that have not ended, by key."""
        self.left = 0
        """Requests whose replies will not come while this process lasts."""
        self._claims: dict[BatchLine, BatchJob] = {}  # requests of an earlier process, by the latest job they are in
        self._gathered: list[_Request] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, journal: JobJournal, jobs: Sequence[BatchJob] = ()) -> None:
        """Write jobs down in ``journal``; requests of its model that are in ``jobs`` of an earlier process are awaited,
        each in the latest job that holds it, and not sent."""
        self._journal = journal
        latest = {line: job for job in jobs for line in job.lines}
        self._claims = {line: job for line, job in latest.items() if job.model in ("", self._model)}

    def awaits(self, line: BatchLine) -> bool:
        """Whether a job of an earlier process holds this request."""
        return line in self._claims

    async def _traces(
        self, prompt: Prompt, n: int, seed: int, sampling: Sampling, body: Body, stream: TraceStream | None = None
    ) -> list[Completion]:
        endpoint, future = f"/v1{path_of(prompt)}", asyncio.get_running_loop().create_future()
        self._gathered.append(_Request((seed, n), endpoint, request_line((seed, n), endpoint, body), future))
        if len(self._gathered) == 1:
            self._start(self._gather())
        reply = await future
        if isinstance(reply, SamplerError):
            raise reply.with_traceback(None)  # which others wait for, too
        if reply.status is None:
            raise reply.failure()
        content = self._redactor.data(reply.content)
        if reply.status != HTTPStatus.OK:
            raise self._error(reply.status, {}, content, body)
        reader = ResponseReader(n, sampling, usage_of_one=self.usage_of_one, prompt_limit=prompt.max_tokens)
        reader.read(content)
        self.usage_of_one = self.usage_of_one or reader.usage_of_one
        return reader.completions()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _gather(self) -> None:
        """Hand in what has come together, once nothing more comes: in jobs of an earlier process, and in new ones."""
        size = 0
        while len(self._gathered) != size or self.arriving():
            size = len(self._gathered)
            await asyncio.sleep(GATHER_S)
        groups: dict[str, tuple[BatchJob | None, list[_Request]]] = {}
        requests, self._gathered = self._gathered, []
        for request in requests:
            job = self._claims.pop(request.line, None)
            groups.setdefault(request.endpoint if job is None else job.key, (job, []))[1].append(request)
        for job, group in groups.values():
            for part in [group] if job else _job_parts(group, self.provider.limits):
                self._start(self._run(job, part))

    async def write_job(self, job: BatchJob) -> None:
        if job.key in self.open_jobs:
            self.open_jobs[job.key] = job
        await self._journal.write_job(job)
        if job.id is not None:
            self.on_job(job)

    async def drop_job(self, job: BatchJob) -> None:
        await self._journal.drop_job(job)

    async def _run(self, job: BatchJob | None, requests: list[_Request]) -> None:
        """A job, a new one if not given, to its last reply; what goes wrong, everyone who waits for one is told.

        What is too much for the provider's queue goes in smaller jobs, one by one.
        """
        parts, wait_s = [requests], 0.0  # that are left, the next one at the end
        while parts:
            await asyncio.sleep(wait_s)
            requests, wait_s, new = parts.pop(), 0.0, job is None
            try:
                if job is None:
                    key, lines = secrets.token_hex(12), tuple(request.line for request in requests)
                    job = BatchJob(key, requests[0].endpoint, lines, time.time(), self.wave(), model=self._model)
                    await self.write_job(job)
                self.open_jobs[job.key] = job
                contents = [request.content for request in requests]
                await self._deliver(*await self.provider.run(job, contents, self, new=new), requests)
            except JobQueueFullError as error:
                LOGGER.warning("%s: %d requests go in smaller jobs, one by one.", error, len(requests))
                middle, wait_s = -(-len(requests) // 2), QUEUE_WAIT_S if len(requests) == 1 else 0.0
                parts += [half for half in (requests[middle:], requests[:middle]) if half]
            except Exception as error:  # noqa: BLE001 (handed over to those who wait)
                for request in requests:
                    if not request.reply.done():
                        request.reply.set_exception(error)
            finally:
                if job is not None:
                    self.open_jobs.pop(job.key, None)
            job = None

    async def _deliver(self, replies: BatchReplies, missing: SamplerError | None, requests: Sequence[_Request]) -> None:
        """Give everyone who waits a reply, some at a time: they are read before others are in memory."""
        try:
            for count, request in enumerate(requests, 1):
                reply: BatchReply | SamplerError | None = replies.get(custom_id(request.line))
                if reply is None or (reply.status is None and isinstance(missing, JobError)):
                    reply = missing
                if reply is None:
                    self.left += 1
                elif not request.reply.done():
                    request.reply.set_result(reply)
                if count % TELL_AT_ONCE == 0:
                    await asyncio.sleep(0)
        finally:
            if missing is not None:
                replies.close()

    async def close(self) -> None:
        """Close every connection; jobs stay where they are."""
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._gathered = []
        await self.provider.close()
        await super().close()


def _job_parts(requests: Sequence[_Request], limits: BatchLimits) -> Iterator[list[_Request]]:
    """Requests in as few jobs as the limits allow."""
    part, size = list[_Request](), 0
    for request in requests:
        if part and (len(part) == limits.requests or size + len(request.content) > limits.bytes):
            yield part
            part, size = [], 0
        part.append(request)
        size += len(request.content)
    yield part


class FileBatches(BatchProvider):
    """Jobs as files, for engines that have no server: ``output`` gets the requests, ``replies`` are what came of them.

    Requests that are written to a file raise a ``JobLeftError``: their replies are another process's matter.
    """

    limits = BatchLimits(requests=1 << 60, bytes=1 << 60)

    def __init__(self, output: Path | None = None, replies: BatchReplies | None = None) -> None:
        self._output, self._replies = output, replies
        self._lines: list[bytes] = []

    @property
    def requests(self) -> int:
        """Written so far."""
        return len(self._lines)

    async def run(self, job: BatchJob, lines: Sequence[bytes], journal: JobJournal, *, new: bool) -> JobOutcome:
        if self._replies is not None:
            return self._replies, None
        if self._output is not None:
            self._lines += lines
            with atomic_write(self._output) as file:  # jobs of one wave have one file
                file.writelines(self._lines)
        raise JobLeftError("the wave is in its file.")

    async def close(self) -> None:
        if self._replies is not None:
            self._replies.close()


class OpenAIBatches(BatchProvider):
    """OpenAI's Batch interface at ``url`` (with its ``/v1``).

    A job is looked for by its key wherever it may be there already. Where it is not found, the file that was uploaded
    for it is deleted before another is: a request to create it that is still on its way then comes to nothing.
    """

    def __init__(
        self, url: str, *, key: str | None = None, headers: Mapping[str, str] | None = None, timeout: float = 600.0
    ) -> None:
        self._url = url.rstrip("/")
        self._redactor = Redactor(key, *secrets_of(headers or {}))
        self._client = HttpClient(self._url, key=key, headers=headers, timeout=timeout)
        self._answered = False
        self._random = random.Random()

    async def run(self, job: BatchJob, lines: Sequence[bytes], journal: JobJournal, *, new: bool) -> JobOutcome:
        if job.id is None:
            job = await self._submit(job, lines, journal, new=new)
        batch, waited = await self._wait_for_end(job)
        if batch["status"] == "failed":
            await journal.drop_job(job)
            raise _validation_error(job, batch)
        replies, answered = await self._retried(partial(self._download, job, batch))
        if batch["status"] == "cancelled" and waited and not self.cancels:
            return replies, JobError(
                f"batch job {job.id} was cancelled at its provider: {len(replies)} of {len(job.lines)} requests were "
                "answered, and those are kept. The same command again hands in the others."
            )
        if (batch.get("request_counts") or {}).get("completed", answered) > answered:
            return replies, ReplyError(f"the output of batch job {job.id} lacks a reply that was paid for.")
        return replies, NotExecutedError("no file of the job has it.", "ended")

    async def close(self) -> None:
        await self._client.close()

    async def _submit(self, job: BatchJob, lines: Sequence[bytes], journal: JobJournal, *, new: bool) -> BatchJob:
        """The job with its provider's name, handed in if it is not there."""
        import aiohttp

        async def hand_in() -> BatchJob:
            nonlocal job, new
            batch, new = None if new else await self._find_or_clean_up(job), False
            if batch is None:
                form = aiohttp.FormData({"purpose": "batch"})
                file = io.BytesIO(b"".join(lines))
                form.add_field("file", file, filename=_file_name(job), content_type="application/jsonl")
                job = replace(job, file=str((await self._call("POST", "/files", form))["id"]))
                await journal.write_job(job)
                fields = {"input_file_id": job.file, "endpoint": job.endpoint, "completion_window": "24h"}
                metadata = {KEY: job.key, WAVE: str(job.wave)}
                content = json.dumps({**fields, "metadata": metadata}).encode()
                batch = await self._call("POST", "/batches", content)
            return replace(job, id=str(batch["id"]), file=str(batch["input_file_id"]))

        job = await self._retried(hand_in)
        await journal.write_job(job)
        LOGGER.info("batch job %s: %d requests", job.id, len(job.lines))
        return job

    async def _find_or_clean_up(self, job: BatchJob) -> dict[str, Any] | None:
        """The job, where it was created; else files of earlier tries are deleted, so that none becomes a job later."""
        if (batch := await self._find(job)) is not None:
            return batch
        async for files in self._pages(f"/files?purpose=batch&limit={PAGE_FILES}"):
            for file in files:
                if file.get("filename") == _file_name(job):
                    try:
                        await self._retried(partial(self._call, "DELETE", f"/files/{file['id']}"))
                    except JobError as error:  # it is gone where an answer to an earlier try was lost
                        if error.status != HTTPStatus.NOT_FOUND:
                            raise
        return await self._find(job)

    async def _find(self, job: BatchJob) -> dict[str, Any] | None:
        """The job of this key, among those that are young enough; the newest come first."""
        async for batches in self._pages(f"/batches?limit={PAGE_JOBS}"):
            for batch in batches:
                if (batch.get("metadata") or {}).get(KEY) == job.key and batch["status"] != "failed":
                    return dict(batch)
            if any(batch["created_at"] < job.created - CLOCK_SKEW_S for batch in batches):
                break
        return None

    async def _pages(self, path: str) -> AsyncIterator[list[dict[str, Any]]]:
        page = await self._get(path)
        yield page["data"]
        while page.get("has_more") and page["data"]:
            page = await self._get(f"{path}&after={quote(page['data'][-1]['id'])}")
            yield page["data"]

    async def _wait_for_end(self, job: BatchJob) -> tuple[dict[str, Any], bool]:
        """The batch object once it has ended, and whether it had not when it was first looked at."""
        wait_s, waited = FIRST_POLL_S, False
        while True:
            batch = await self._get(f"/batches/{job.id}")
            if batch["status"] in ENDED:
                return batch, waited
            if self.cancels and batch["status"] != "cancelling":
                with suppress(JobError, BusyError, ReplyError):  # the next look tells
                    await self._call("POST", f"/batches/{job.id}/cancel")
            waited = True
            await asyncio.sleep(wait_s)
            wait_s = min(MAX_POLL_S, wait_s * POLL_GROWTH)

    async def _download(self, job: BatchJob, batch: Mapping[str, Any]) -> tuple[BatchReplies, int]:
        """The replies to a job's requests, and how many of them are in its output; the others are errors."""
        replies, in_output = BatchReplies({custom_id(line) for line in job.lines}), 0
        try:
            for name in ("output_file_id", "error_file_id"):
                if (file := batch.get(name)) is not None:
                    async with self._open("GET", f"/files/{file}/content") as response:
                        number = 0
                        async for lines in split_lines(parts_of(response, MAX_OUTPUT_BYTES), MAX_LINE_BYTES):
                            for line in lines:
                                number += 1
                                if line.strip():
                                    replies.add_line(line, f"{file} line {number}")
                if name == "output_file_id":
                    in_output = len(replies)
        except BaseException:
            replies.close()
            raise
        return replies, in_output

    async def _get(self, path: str) -> dict[str, Any]:
        return await self._retried(partial(self._call, "GET", path))

    async def _retried(self, work: Callable[[], Awaitable[T]]) -> T:
        """What is free to try again is tried until it succeeds, or the provider was never there."""
        failures = 0
        while True:
            try:
                return await work()
            except (BusyError, ReplyError) as error:
                failures += 1
                if not self._answered and failures >= FIRST_CONTACT_TRIES:
                    raise JobError(str(error)) from None
                LOGGER.info("%s: %s", self._url, error)
                wait_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 10))
                await asyncio.sleep(max(wait_s * (0.5 + self._random.random()), error.retry_after or 0.0))

    async def _call(self, method: str, path: str, data: Payload = None) -> dict[str, Any]:
        """One request, JSON back; a refusal ends the run."""
        async with self._open(method, path, data) as response:
            content = self._redactor.data(await body_of_reply(response, MAX_PAGE_BYTES))
        reply = json_reply(content)
        if not isinstance(reply, dict):
            raise ReplyError(f"{method} {path}: the reply is no JSON object: {excerpt(content)}")
        return reply

    @asynccontextmanager
    async def _open(self, method: str, path: str, data: Payload = None) -> AsyncIterator["aiohttp.ClientResponse"]:
        with sampler_errors(self._url, self._redactor):
            try:
                async with self._client.request(method, self._url + path, data) as response:
                    self._answered = True
                    if response.status != HTTPStatus.OK:
                        content = self._redactor.data(await start_of_reply(response))
                        raise error_from(response.status, response.headers, content)
                    yield response
            except RefusedError as error:
                raise JobError(f"{method} {path}: {error}", status=error.status) from error


def _file_name(job: BatchJob) -> str:
    return f"pets-{job.key}.jsonl"


def _validation_error(job: BatchJob, batch: Mapping[str, Any]) -> JobError:
    """Why a job was not executed at all."""
    errors = (batch.get("errors") or {}).get("data") or [{}]
    words = "; ".join(
        (f"line {error['line']}: " if error.get("line") else "") + str(error.get("message") or error.get("code"))
        for error in errors
    )
    error_type = JobQueueFullError if errors[0].get("code") == QUEUE_FULL else JobError
    return error_type(f"batch job {job.id} failed validation, and nothing of it was executed: {words[:500]}")
