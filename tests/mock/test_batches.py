"""OpenAI's Batch interface of the mock: the SDK, unmodified, is the witness; what is paid for is counted."""

import json

import pytest

from pets.mock import Faults, MockModel, PoolAnswers
from pets.mock.batches import MockBatches
from pets.openai.batch import MAX_REQUESTS
from pets.openai.errors import ApiError

from .conftest import POOL

CHAT = "/v1/chat/completions"


def request(custom_id, **fields):
    body = {"model": "mock", "messages": [{"role": "user", "content": "Question q1"}], "seed": 0, **fields}
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def connect(openai, serve):
    clients = []

    def start(**settings):
        mock = serve(**settings)
        clients.append(openai.OpenAI(base_url=mock.v1, api_key="key", max_retries=0))
        return clients[-1], mock.mock.stats

    yield start
    for client in clients:
        client.close()


def begin(client, *rows, **fields):
    file = client.files.create(file=("wave.jsonl", jsonl(*rows)), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", **fields)


def lines(client, file_id):
    return (
        {}
        if file_id is None
        else {row["custom_id"]: row for row in map(json.loads, client.files.content(file_id).text.splitlines())}
    )


def test_a_file_is_uploaded_found_read_and_deleted(openai, connect):
    client, _ = connect()
    content = jsonl(request("ä"))
    file = client.files.create(file=("wave.jsonl", content), purpose="batch")
    assert (file.filename, file.bytes, file.purpose) == ("wave.jsonl", len(content), "batch")
    assert client.files.retrieve(file.id) == file and client.files.content(file.id).content == content
    assert [listed.id for listed in client.files.list(purpose="batch")] == [file.id]
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)


def test_a_batch_answers_its_lines_as_the_server_would_at_once(connect):
    client, stats = connect()
    job = begin(client, request("a", n=2), request("b", seed=5), metadata={"wave": "7"})
    done = client.batches.retrieve(job.id)
    assert (done.status, done.metadata, done.error_file_id) == ("completed", {"wave": "7"}, None)
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (2, 2, 0)
    replies = lines(client, done.output_file_id)
    at_once = client.chat.completions.create(**request("a", n=2)["body"])
    body = replies["a"]["response"]["body"]
    assert [choice["message"]["content"] for choice in body["choices"]] == [
        choice.message.content for choice in at_once.choices
    ]
    assert body["usage"]["completion_tokens"] == at_once.usage.completion_tokens
    assert replies["b"]["response"]["status_code"] == 200 and replies["b"]["error"] is None
    assert (stats.batches, stats.traces) == (1, 5)


def test_jobs_are_listed_the_newest_first_page_by_page(connect):
    client, _ = connect()
    ids = [begin(client, request("a")).id for _ in range(5)]
    assert [job.id for job in client.batches.list(limit=2)] == ids[::-1]
    page = client.batches.list(limit=2)
    assert [job.id for job in page.data] == ids[:2:-1] and page.has_more


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"", "empty_file", None),
        (b"{}\n", "invalid_request", 1),
        (b"nothing\n", "invalid_json_line", 1),
        (jsonl(request("a"), request("a")), "duplicate_custom_id", 2),
        (jsonl(request("a") | {"url": "/v1/completions"}), "mismatched_url", 1),
        (b"{}\n" * (MAX_REQUESTS + 1), "too_many_tasks", None),
    ],
)
def test_a_file_that_is_not_valid_fails_the_job_and_says_where(connect, content, code, line):
    client, stats = connect()
    file = client.files.create(file=("wave.jsonl", content), purpose="batch")
    job = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert job.status == "failed" and stats.traces == 0
    assert (job.errors.data[0].code, job.errors.data[0].line) == (code, line)


def test_what_no_job_can_be_made_of_is_refused(openai, connect):
    client, _ = connect()
    with pytest.raises(openai.NotFoundError):
        client.batches.create(input_file_id="file-none", endpoint=CHAT, completion_window="24h")
    file = client.files.create(file=("wave.jsonl", jsonl(request("a"))), purpose="batch")
    for wrong in ({"completion_window": "1h"}, {"endpoint": "/v1/embeddings"}):
        fields = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
        with pytest.raises(openai.BadRequestError):
            client.batches.create(**fields | wrong)
    with pytest.raises(openai.BadRequestError):
        client.files.create(file=("wave.jsonl", b""), purpose="fine-tune")
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve("batch_none")


def test_a_line_that_is_refused_stands_in_the_file_of_errors_and_costs_nothing(connect):
    client, stats = connect(n_limit=1)
    job = client.batches.retrieve(begin(client, request("a", n=2), request("b")).id)
    failed = lines(client, job.error_file_id)["a"]["response"]
    assert failed["status_code"] == 400 and failed["body"]["error"]["param"] == "n"
    assert (job.request_counts.completed, job.request_counts.failed, stats.traces) == (1, 1, 1)


def test_faults_of_lines_come_as_500_in_the_file_of_errors(connect):
    client, stats = connect(faults=Faults(batch_error=1))
    job = client.batches.retrieve(begin(client, request("a")).id)
    assert job.status == "completed" and job.output_file_id is None
    assert lines(client, job.error_file_id)["a"]["response"]["status_code"] == 500
    assert stats.faults == {"batch_error": 1} and stats.traces == 0


def test_an_expired_job_has_what_was_ready_and_names_the_rest(connect):
    client, stats = connect(faults=Faults(batch_expired=1))
    job = client.batches.retrieve(begin(client, *map(request, "abc")).id)
    assert job.status == "expired" and set(lines(client, job.output_file_id)) == {"a", "c"}
    left = lines(client, job.error_file_id)["b"]
    assert left["response"] is None and left["error"]["code"] == "batch_expired" and stats.traces == 2


def test_a_partial_output_lacks_replies_that_were_paid_for(connect):
    client, stats = connect(faults=Faults(batch_partial=1))
    job = client.batches.retrieve(begin(client, *map(request, "abc")).id)
    assert job.request_counts.completed == 3 and set(lines(client, job.output_file_id)) == {"a", "c"}
    assert job.error_file_id is None and (stats.traces, stats.lost) == (2, 1)


def test_a_job_can_fail_validation_on_purpose(connect):
    client, stats = connect(faults=Faults(batch_invalid=1))
    job = begin(client, request("a"))
    assert job.status == "failed" and "on purpose" in job.errors.data[0].message and stats.traces == 0


def upload(batches, *rows):
    file = batches.upload("wave.jsonl", "batch", jsonl(*rows))
    return batches.create({"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"})["id"]


def test_a_job_takes_the_time_of_its_longest_trace_and_is_late_on_demand():
    now = 0.0
    mock = MockModel(PoolAnswers(POOL), tokens_per_second=10, faults=Faults(batch_seconds=60))
    batches = MockBatches(mock, clock=lambda: now)
    job = upload(batches, request("a", n=8))
    assert batches.job(job)["status"] == "in_progress"
    now = 62.9
    assert batches.job(job)["status"] == "in_progress" and mock.stats.traces == 0
    now = 63.0
    assert batches.job(job)["status"] == "completed" and mock.stats.traces == 8


def test_a_cancelled_job_is_paid_for_what_was_ready():
    now = 0.0
    mock = MockModel(PoolAnswers(POOL), tokens_per_second=10)
    batches = MockBatches(mock, clock=lambda: now)
    job = upload(batches, request("short", max_tokens=5), request("long", n=8))
    now = 1.0
    done = batches.cancel(job)
    assert (done["status"], done["request_counts"]["completed"], mock.stats.traces) == ("cancelled", 1, 1)
    assert b"batch_cancelled" in batches.file(done["error_file_id"]).content
    with pytest.raises(ApiError, match="Cannot cancel"):
        batches.cancel(job)


def test_a_key_is_asked_for_and_a_form_without_a_file_refused(serve):
    client = serve(api_key="sesame")
    assert client.get("/v1/batches").status_code == client.get("/v1/files").status_code == 401
    client.headers["authorization"] = "Bearer sesame"
    assert client.post("/v1/files", data={"purpose": "batch"}, files={"x": b"y"}).json()["error"]["param"] == "file"
    assert client.post("/v1/files", content=b"x").status_code == 400
    assert client.get("/v1/batches?limit=0").status_code == 400


def test_a_stream_in_a_batch_is_refused(connect):
    client, _ = connect()
    job = client.batches.retrieve(begin(client, request("a", stream=True)).id)
    assert lines(client, job.error_file_id)["a"]["response"]["body"]["error"]["param"] == "stream"
