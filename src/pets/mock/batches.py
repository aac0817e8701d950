"""OpenAI's Batch interface without its socket: files, and jobs that answer a file of requests later.

A job runs its lines side by side, each as long as its longest trace takes, and is brought up to date when a client asks
for it: replies that were ready by then are paid for, requests that a cancelled or expired job did not execute are not.
"""

import itertools
import json
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pets.mock.completions import CompletionResponse
from pets.mock.faults import BatchFault
from pets.mock.model import MockModel
from pets.openai.batch import MAX_FILE_BYTES, MAX_REQUESTS
from pets.openai.errors import ApiError
from pets.openai.fields import json_object, object_field, whole_number

MAX_ERRORS = 20  # of a file that is not valid, told
ENDPOINTS = {"/v1/chat/completions": True, "/v1/completions": False}  # whether it is a chat's
NOT_EXECUTED = {
    "expired": "This request could not be executed before the completion window expired.",
    "cancelled": "This request was not executed: the batch was cancelled.",
}
WINDOW_S = 24 * 3600
JOB_FAULTS: tuple[BatchFault, ...] = ("batch_expired", "batch_partial", "batch_invalid")

Ending = Literal["completed", "expired", "cancelled"]


class StoredFile(NamedTuple):
    """A file that was uploaded, or that a job wrote: the file object that clients see, and its content."""

    about: dict[str, Any]
    content: bytes


@dataclass(frozen=True, slots=True)
class _Job:
    """A job: the batch object that clients see, what comes of each request, and when all of them are ready."""

    batch: dict[str, Any]
    replies: Mapping[str, CompletionResponse | ApiError]
    begun: float
    ready_s: float  # after the beginning
    faults: frozenset[BatchFault]


class MockBatches:
    """The files and jobs of a mock; ``clock`` gives seconds."""

    def __init__(self, mock: MockModel, clock: Callable[[], float] = time.monotonic) -> None:
        self._mock, self._clock = mock, clock
        self._files: dict[str, StoredFile] = {}
        self._jobs: dict[str, _Job] = {}
        self._random = random.Random(f"batches {mock.seed}")
        self._numbers = itertools.count(1)

    # -- files ----------------------------------------------------------------------------------------------------

    def upload(self, name: str, purpose: str, content: bytes) -> dict[str, Any]:
        """Keep a file; one that no job could use is refused."""
        if purpose != "batch":
            raise ApiError(f"'{purpose[:40]}' is not one of ['batch'].", param="purpose")
        if len(content) > MAX_FILE_BYTES:
            raise ApiError(f"The file is over {MAX_FILE_BYTES} bytes.", param="file", status=413)
        return self._keep(name, purpose, content)

    def file(self, id: str) -> StoredFile:
        if id not in self._files:
            raise ApiError(f"No such File object: {id[:80]}", param="id", status=404)
        return self._files[id]

    def delete(self, id: str) -> dict[str, Any]:
        self.file(id)
        del self._files[id]
        return {"id": id, "object": "file", "deleted": True}

    def files(self, query: Mapping[str, str]) -> dict[str, Any]:
        """A page of the files, the newest first."""
        files = [about for about, _ in reversed(self._files.values())]
        return _page(query, [about for about in files if query.get("purpose") in (None, about["purpose"])], 10_000)

    def _keep(self, name: str, purpose: str, content: bytes) -> dict[str, Any]:
        id, size = f"file-{secrets.token_hex(12)}", {"bytes": len(content), "created_at": int(time.time())}
        about = {"id": id, "object": "file", **size, "filename": name, "purpose": purpose, "status": "processed"}
        self._files[id] = StoredFile(about, content)
        return about

    # -- jobs -----------------------------------------------------------------------------------------------------

    def create(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a job; what is wrong within its file is told later, as its failure."""
        endpoint, window = str(fields.get("endpoint")), fields.get("completion_window")
        if endpoint not in ENDPOINTS:
            raise ApiError(f"'endpoint' is one of {', '.join(ENDPOINTS)}.", param="endpoint")
        if window != "24h":
            raise ApiError("'completion_window' is 24h.", param="completion_window")
        file, now = self.file(str(fields.get("input_file_id"))), int(time.time())
        faults = frozenset(name for name in JOB_FAULTS if self._random.random() < getattr(self._mock.faults, name))
        self._mock.stats.faults.update(faults)
        requests, errors = _checked_lines(file.content.splitlines(), endpoint)
        if "batch_invalid" in faults:
            errors = [_error("invalid_request", "This file cannot be used (on purpose).", None)]
        replies = {} if errors else {id: self._run(body, ENDPOINTS[endpoint]) for id, body in requests.items()}
        batch: dict[str, Any] = {
            "id": f"batch_{secrets.token_hex(12)}",
            "object": "batch",
            "endpoint": endpoint,
            "errors": {"object": "list", "data": errors} if errors else None,
            "input_file_id": file.about["id"],
            "completion_window": window,
            "status": "failed" if errors else "in_progress",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "failed_at" if errors else "in_progress_at": now,
            "expires_at": now + WINDOW_S,
            "request_counts": {"total": len(replies), "completed": 0, "failed": 0},
            "metadata": object_field(fields, "metadata") or None,
        }
        ready_s = max(map(self._seconds, replies.values()), default=0.0) + self._mock.faults.batch_seconds
        self._jobs[batch["id"]] = _Job(batch, replies, self._clock(), ready_s, faults)
        self._mock.stats.batches += 1
        return batch

    def job(self, id: str) -> dict[str, Any]:
        """A job as it stands now."""
        return self._looked_at(id).batch

    def cancel(self, id: str) -> dict[str, Any]:
        """Stop a job; what is ready stays."""
        job = self._looked_at(id)
        if job.batch["status"] != "in_progress":
            raise ApiError(f"Cannot cancel a batch with status '{job.batch['status']}'.", status=409)
        elapsed_s = self._clock() - job.begun
        self._end(job, "cancelled", [self._seconds(reply) <= elapsed_s for reply in job.replies.values()])
        return job.batch

    def jobs(self, query: Mapping[str, str]) -> dict[str, Any]:
        """A page of the jobs, the newest first."""
        return _page(query, [self._looked_at(id).batch for id in reversed(self._jobs)], 100)

    def _run(self, body: Mapping[str, Any], chat: bool) -> CompletionResponse | ApiError:
        mock = self._mock
        try:
            request = mock.parse(json.dumps(body).encode(), chat)
            if request.stream:
                raise ApiError("'stream' is not supported in a batch.", param="stream")
            mock.admit(request)
            if self._random.random() < mock.faults.batch_error:
                mock.stats.faults["batch_error"] += 1
                raise ApiError("The server had an error (on purpose).", status=500)
        except ApiError as error:
            return error
        return mock.respond(request)[0]

    def _seconds(self, reply: CompletionResponse | ApiError) -> float:
        """How long a request takes; one that fails takes no time."""
        return 0.0 if isinstance(reply, ApiError) else self._mock.seconds(reply)

    def _looked_at(self, id: str) -> _Job:
        """A job, ended if its time has come."""
        job = self._jobs.get(id)
        if job is None:
            raise ApiError(f"No batch found with id '{id[:80]}'.", status=404)
        if job.batch["status"] == "in_progress" and self._clock() - job.begun >= job.ready_s:
            expires = "batch_expired" in job.faults
            ready = [not (expires and index % 2) for index in range(len(job.replies))]
            self._end(job, "expired" if expires else "completed", ready)
        return job

    def _end(self, job: _Job, status: Ending, ready: Sequence[bool]) -> None:
        """Write what came to the output file and what did not to that of errors, and count what is charged."""
        output, errors, completed = list[bytes](), list[bytes](), 0
        for (id, reply), is_ready in zip(job.replies.items(), ready, strict=True):
            if not is_ready:
                error = {"code": f"batch_{status}", "message": NOT_EXECUTED[status]}
                errors.append(self._result(id, None, error))
            elif isinstance(reply, ApiError):
                errors.append(self._result(id, (reply.status, reply.body()), None))
            else:
                completed += 1
                if "batch_partial" in job.faults and completed % 2 == 0:
                    self._mock.count_lost(reply)
                    continue
                self._mock.count_served(reply)
                output.append(self._result(id, (200, reply.whole()), None))
        job.batch.update({"status": status, f"{status}_at": int(time.time())})
        job.batch["request_counts"] |= {"completed": completed, "failed": len(errors)}
        for name, lines in (("output", output), ("error", errors)):
            if lines:
                file = self._keep(f"{job.batch['id']}_{name}.jsonl", "batch_output", b"".join(lines))
                job.batch[f"{name}_file_id"] = file["id"]

    def _result(self, custom_id: str, reply: tuple[int, bytes] | None, error: Mapping[str, str] | None) -> bytes:
        """A line of the output or of the errors; the body stands in it as it would be sent."""
        number, status, body = next(self._numbers), *(reply or (0, b""))
        response = f'{{"status_code":{status},"request_id":"req_{number}","body":{body.decode()}}}' if reply else "null"
        head = f'{{"id":"batch_req_{number}","custom_id":{json.dumps(custom_id)}'
        return f'{head},"response":{response},"error":{json.dumps(error)}}}\n'.encode()


def _page(query: Mapping[str, str], rows: list[dict[str, Any]], most: int) -> dict[str, Any]:
    """Rows after the one that ``after`` names, ``limit`` of them."""
    text = query.get("limit", str(min(20, most)))
    limit = whole_number({"limit": int(text) if text.isdecimal() else text}, "limit", 1, most) or most
    after = query.get("after")
    start = next((index + 1 for index, row in enumerate(rows) if row["id"] == after), 0)
    page = rows[start : start + limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"object": "list", "data": page, **ends, "has_more": start + limit < len(rows)}


def _checked_lines(lines: Sequence[bytes], endpoint: str) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """The requests of a file, each under its id, and what is wrong with it."""
    requests: dict[str, dict[str, Any]] = {}
    errors: list[dict[str, Any]] = []
    if not lines:
        errors.append(_error("empty_file", "The batch file is empty.", None))
    if len(lines) > MAX_REQUESTS:
        errors.append(_error("too_many_tasks", f"The batch file has over {MAX_REQUESTS} requests.", None))
    for number, line in enumerate(lines[:MAX_REQUESTS], 1):
        try:
            data = json_object(line)
        except ApiError:
            errors.append(_error("invalid_json_line", "This line is not a JSON object.", number))
            continue
        custom_id, body = data.get("custom_id"), data.get("body")
        if not isinstance(custom_id, str) or not isinstance(body, dict) or data.get("method") != "POST":
            message = "A request has a custom_id, the method POST, a url and a body."
            errors.append(_error("invalid_request", message, number))
        elif data.get("url") != endpoint:
            errors.append(_error("mismatched_url", "The url is not the batch's endpoint.", number, "url"))
        elif custom_id in requests:
            errors.append(_error("duplicate_custom_id", "This custom_id came before.", number, "custom_id"))
        else:
            requests[custom_id] = body
    return requests, errors[:MAX_ERRORS]


def _error(code: str, message: str, line: int | None, param: str | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "param": param, "line": line}
