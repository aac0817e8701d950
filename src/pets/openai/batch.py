"""OpenAI's batch files: requests as lines of JSON, their replies and errors as lines of other files, in any order.

A request's ``custom_id`` is the seed of its first trace and how many traces it asks for. Every launch has a seed of its
own, so that a line that comes back is known by it, in whichever process.
"""

import json
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pets.errors import BusyError, JobError, ReplyError, SamplerError
from pets.openai.response import error_message

MAX_REQUESTS = 50_000  # in one job
MAX_FILE_BYTES = 200_000_000
NOT_EXECUTED = {"batch_expired", "batch_cancelled"}  # codes of lines that cost nothing
BatchLine = tuple[int, int]
"""One request of a job: the seed of its first trace, and how many it asks for."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    """One job: what it asks for, under which key it can be found, and what its provider calls it.

    ``key`` is written down before anything is sent and goes with the job. ``wave`` is the number of its wave.
    ``file`` and ``id`` are the provider's names of its input and of the job, as far as they are known. ``model`` is the
    one that is asked, empty where a run of before asked its only one.
    """

    key: str
    endpoint: str
    lines: tuple[BatchLine, ...]
    created: float
    wave: int = 0
    file: str | None = None
    id: str | None = None
    model: str = ""


def custom_id(line: BatchLine) -> str:
    """The name of a request within its job.

    >>> custom_id((1270, 4))
    '1270-4'
    """
    return f"{line[0]}-{line[1]}"


def request_line(line: BatchLine, endpoint: str, body: Mapping[str, object]) -> bytes:
    r"""A request as a line of a job's file.

    >>> request_line((5, 1), "/v1/completions", {"model": "m"})
    b'{"custom_id": "5-1", "method": "POST", "url": "/v1/completions", "body": {"model": "m"}}\n'
    """
    request = {"custom_id": custom_id(line), "method": "POST", "url": endpoint, "body": body}
    return json.dumps(request).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class BatchReply:
    """What came of one request: a body with its status, or why there is none."""

    status: int | None
    content: bytes
    code: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "BatchReply":
        """The reply that a line holds; vLLM says why a request failed beside its response, OpenAI within it.

        >>> BatchReply.of({"custom_id": "5-1", "response": None, "error": {"code": "batch_expired"}}).code
        'batch_expired'
        """
        response, error = row.get("response"), row.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if not isinstance(response, dict):
            return cls(None, json.dumps(error).encode(), str(code or ""))
        body, status = response.get("body"), response.get("status_code")
        content = json.dumps(error if body is None else body).encode()
        return cls(status if isinstance(status, int) else None, content)

    def failure(self) -> SamplerError:
        """Why there is no status: the request was not executed, which is free, or for an unknown reason."""
        words = error_message(json.loads(self.content))
        if self.code in NOT_EXECUTED:
            return NotExecutedError(words, self.code.removeprefix("batch_"))
        return ReplyError(f"the batch job gave no reply: {words}")


class NotExecutedError(BusyError):
    """A request that its job never came to: nothing was sampled or paid for. ``reason`` is one word."""

    def __init__(self, words: str, reason: str) -> None:
        super().__init__(f"the batch job {reason} before this request: {words}", status=503)
        self.reason = reason


class BatchReplies:
    """The replies of a job, kept in a temporary file: a job's output may be larger than memory.

    ``add`` takes them line by line and refuses a line that answers no request of the job, or one that was answered.

    >>> with BatchReplies({"5-1"}) as replies:
    ...     replies.add([b'{"custom_id": "5-1", "response": {"status_code": 200, "body": {}}}'], "output")
    ...     replies.get("5-1").status, replies.get("6-1")
    (200, None)
    """

    def __init__(self, expected: Collection[str]) -> None:
        self._expected = expected
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the object)
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0
        self.failed = 0  # how many of them are errors
        self.first_error = ""

    def __enter__(self) -> "BatchReplies":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, lines: Iterable[bytes], name: str) -> None:
        """Take in the lines of a file, which errors call ``name``."""
        for number, line in enumerate(lines, 1):
            if line.strip():
                self.add_line(line, f"{name} line {number}")

    def add_line(self, line: bytes, place: str) -> None:
        """Take in one line; what cannot be an answer to the job is refused."""
        try:
            row: dict[str, Any] = json.loads(line)
            id = str(row["custom_id"])
        except (ValueError, RecursionError, TypeError, KeyError):
            raise JobError(f"{place}: no JSON object with a custom_id. Is the file whole?") from None
        if id not in self._expected:
            raise JobError(f"{place}: the custom_id {id[:40]!r} is not of this job. Is it another job's output?")
        if id in self._places:
            raise JobError(f"{place}: the custom_id {id!r} came before; a request has one reply.")
        response = row.get("response")
        if not isinstance(response, dict) or response.get("status_code") != 200:
            self.failed += 1
            self.first_error = self.first_error or error_message(json.loads(BatchReply.of(row).content))
        self._places[id] = (self._end, len(line))
        try:
            self._file.seek(self._end)
            self._end += self._file.write(line)
        except OSError as error:  # of this disk, and not of the connection by which the line came
            raise JobError(f"{place}: it cannot be kept ({error}). Free the disk, or set TMPDIR.") from None

    def get(self, id: str) -> BatchReply | None:
        """The reply to a request; ``None`` where none came."""
        if id not in self._places:
            return None
        start, length = self._places[id]
        self._file.seek(start)
        return BatchReply.of(json.loads(self._file.read(length)))

    def close(self) -> None:
        """Delete the file; twice does no harm."""
        self._file.close()
