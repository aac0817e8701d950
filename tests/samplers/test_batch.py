"""Traces by batch jobs over real HTTP: the mock is the provider, and its own account says what was paid for."""

import asyncio
import contextlib
import io

import aiohttp
import httpx
import pytest

from pets.errors import BusyError, JobError, JobLeftError, RefusedError, ReplyError
from pets.mock import DistributionAnswers, Faults, MockModel, running
from pets.openai import batch as replies
from pets.openai.batch import BatchReplies, NotExecutedError
from pets.samplers import Prompt, Sampling
from pets.samplers import batch as module
from pets.samplers.batch import BatchLimits, BatchSampler, FileBatches, JobQueueFullError, OpenAIBatches
from pets.samplers.openai import OpenAISampler
from pets.samplers.transport import HttpClient

from ..other_hosts import RefusingMock, StrictMock
from ..waiting import until

ANSWERS = DistributionAnswers({f"q{i}": {"A": 0.5, "B": 0.5} for i in range(20)})


class Journal:
    """Keeps jobs in memory, and what was written when; dies at the ``fatal``-th write."""

    def __init__(self, fatal=None):
        self.jobs, self.writes, self.fatal = {}, [], fatal

    async def write_job(self, job):
        if len(self.writes) == self.fatal:
            raise JobError("killed")
        self.writes.append(job)
        self.jobs[job.key] = job

    async def drop_job(self, job):
        del self.jobs[job.key]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    for name in ("GATHER_S", "FIRST_POLL_S", "FIRST_BACKOFF_S", "QUEUE_WAIT_S"):
        monkeypatch.setattr(module, name, 0.01)


@pytest.fixture
def provide():
    """``provide(faults=..., ...)`` gives a mock and its URL."""
    with contextlib.ExitStack() as stack:

        def start(kind=MockModel, **settings):
            mock = kind(ANSWERS, **settings)
            return mock, stack.enter_context(running(mock))

        yield start


def ask(url, requests, journal=None, jobs=(), provider=None, sampling=None):
    """What becomes of requests (question, n, seed) that come together: traces, or the error of each."""

    async def work():
        batches = provider or OpenAIBatches(url)
        async with BatchSampler(url, "mock", batches) as sampler:
            sampler.begin(journal or Journal(), jobs)
            prompts = [Prompt.chat(f"Question {id}") for id, _, _ in requests]
            calls = [
                sampler.sample(prompt, n, seed, sampling or Sampling())
                for prompt, (_, n, seed) in zip(prompts, requests, strict=True)
            ]
            return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(work())


def test_requests_that_come_together_are_one_job_and_bring_what_the_server_gives_at_once(provide):
    mock, url = provide()
    requests = [(f"q{i}", 3, 100 * i) for i in range(5)]
    traces = ask(url, requests)
    assert (mock.stats.batches, mock.stats.traces, mock.stats.requests) == (1, 15, 0)

    async def at_once():
        async with OpenAISampler(url, "mock") as sampler:
            return [
                await sampler.sample(Prompt.chat(f"Question {id}"), n, seed, Sampling()) for id, n, seed in requests
            ]

    assert traces == asyncio.run(at_once())


def test_a_job_is_written_down_before_anything_of_it_is_sent(provide):
    mock, url = provide()
    journal = Journal(fatal=0)
    (error,) = ask(url, [("q1", 1, 0)], journal)
    assert isinstance(error, JobError) and mock.stats.batches == 0
    assert httpx.get(f"{url}/files").json()["data"] == []
    journal = Journal()
    ask(url, [("q1", 1, 0), ("q2", 2, 50)], journal)
    assert [(bool(job.file), bool(job.id)) for job in journal.writes] == [(False, False), (True, False), (True, True)]
    assert {job.lines for job in journal.writes} == {((0, 1), (50, 2))}


@pytest.mark.parametrize(
    ("limits", "jobs"), [(BatchLimits(requests=2), 3), (BatchLimits(bytes=1), 5), (BatchLimits(bytes=900), 3)]
)
def test_more_than_a_job_may_hold_goes_in_several(provide, limits, jobs):
    mock, url = provide()
    provider = OpenAIBatches(url)
    provider.limits = limits
    traces = ask(url, [(f"q{i}", 1, i) for i in range(5)], provider=provider)
    assert (mock.stats.batches, mock.stats.traces) == (jobs, 5) and all(len(trace) == 1 for trace in traces)


@pytest.mark.parametrize("fatal", [1, 2])
def test_whenever_a_process_dies_the_next_one_hands_nothing_in_twice(provide, fatal):
    mock, url = provide()
    journal, requests = Journal(fatal=fatal), [("q1", 2, 0), ("q2", 1, 50)]
    assert all(isinstance(error, JobError) for error in ask(url, requests, journal))
    assert mock.stats.batches == (fatal == 2)  # uploaded alone, or created: the answer was not written down
    journal.fatal = None
    traces = ask(url, requests, journal, list(journal.jobs.values()))
    assert [len(trace) for trace in traces] == [2, 1]
    assert (mock.stats.batches, mock.stats.traces, len(journal.jobs)) == (1, 3, 1)
    assert len(httpx.get(f"{url}/files?purpose=batch").json()["data"]) == 1


def test_a_job_that_has_ended_is_read_again_and_the_latest_job_of_a_request_counts(provide):
    mock, url = provide()
    journal = Journal()
    first = ask(url, [("q1", 2, 0)], journal)
    assert ask(url, [("q1", 2, 0)], journal, list(journal.jobs.values())) == first
    assert (mock.stats.batches, mock.stats.traces) == (1, 2)


def test_a_job_whose_creation_was_not_heard_of_is_found_by_listing(provide, monkeypatch):
    mock, url = provide()

    others = [ask(url, [("q5", 1, seed)]) for seed in range(3)]  # of somebody else
    heard, request = [], HttpClient.request

    @contextlib.asynccontextmanager
    async def deaf(self, method, address, *arguments, **fields):
        async with request(self, method, address, *arguments, **fields) as response:
            if method == "POST" and address.endswith("/batches") and not heard:
                heard.append(address)
                raise aiohttp.ServerDisconnectedError
            yield response

    monkeypatch.setattr(HttpClient, "request", deaf)
    (traces,) = ask(url, [("q1", 2, 0)])
    assert len(traces) == 2 and len(others) == 3 and mock.stats.batches == 4


def test_a_file_whose_deletion_was_not_heard_of_is_gone_all_the_same(provide, monkeypatch):
    mock, url = provide()
    journal, requests, heard, request = Journal(fatal=1), [("q1", 2, 0)], [], HttpClient.request
    ask(url, requests, journal)  # uploaded alone

    @contextlib.asynccontextmanager
    async def deaf(self, method, *arguments, **fields):
        async with request(self, method, *arguments, **fields) as response:
            if method == "DELETE" and not heard:
                heard.append(method)
                raise aiohttp.ServerDisconnectedError
            yield response

    monkeypatch.setattr(HttpClient, "request", deaf)
    journal.fatal = None
    (traces,) = ask(url, requests, journal, list(journal.jobs.values()))
    assert len(traces) == 2 and heard and mock.stats.batches == 1


def test_jobs_are_found_beyond_the_first_page(provide, monkeypatch):
    monkeypatch.setattr(module, "PAGE_JOBS", 2)
    mock, url = provide()
    journal = Journal(fatal=2)
    ask(url, [("q1", 1, 0)], journal)
    for seed in range(5):
        ask(url, [("q5", 1, seed)])
    journal.fatal = None
    ask(url, [("q1", 1, 0)], journal, list(journal.jobs.values()))
    assert mock.stats.batches == 6


def test_lines_that_expired_were_refused_or_failed_are_told_apart(provide):
    mock, url = provide(RefusingMock, faults=Faults(batch_expired=1), refused_questions=["q2"])
    traces, expired, refused = ask(url, [("q0", 1, 0), ("q1", 1, 1), ("q2", 1, 2)])
    assert len(traces) == 1 and isinstance(expired, NotExecutedError) and expired.reason == "expired"
    assert isinstance(refused, RefusedError) and refused.status == 400 and mock.stats.traces == 1
    _, url = provide(faults=Faults(batch_error=1))
    (failed,) = ask(url, [("q0", 1, 0)])
    assert isinstance(failed, BusyError) and failed.status == 500


def test_a_reply_that_was_paid_for_and_did_not_come_is_no_free_failure(provide):
    mock, url = provide(faults=Faults(batch_partial=1))
    traces, missing = ask(url, [("q0", 1, 0), ("q1", 1, 1)])
    assert len(traces) == 1 and isinstance(missing, ReplyError) and missing.status is None and mock.stats.lost == 1


def test_fields_that_the_provider_refuses_are_left_out_of_the_next_job(provide):
    mock, url = provide(StrictMock, flavour="openai")
    traces = ask(url, [("q0", 2, 0), ("q1", 1, 50)], sampling=Sampling(max_tokens=500))
    assert [len(trace) for trace in traces] == [2, 1] and mock.stats.traces == 3


def test_a_job_that_fails_validation_is_forgotten_and_says_why(provide):
    mock, url = provide(faults=Faults(batch_invalid=1))
    journal = Journal()
    (error,) = ask(url, [("q0", 1, 0)], journal)
    assert isinstance(error, JobError) and "failed validation" in str(error) and "on purpose" in str(error)
    assert journal.jobs == {} and mock.stats.traces == 0


def test_a_job_that_is_cancelled_while_it_is_awaited_ends_the_run_and_keeps_what_came(provide):
    mock, url = provide(faults=Faults(batch_seconds=600))

    async def work():
        async with BatchSampler(url, "mock", OpenAIBatches(url)) as sampler, httpx.AsyncClient() as client:
            sampler.begin(Journal())
            call = asyncio.create_task(sampler.sample(Prompt.chat("Question q1"), 1, 0, Sampling()))
            await until(lambda: mock.stats.batches == 1)
            (job,) = (await client.get(f"{url}/batches")).json()["data"]
            await client.post(f"{url}/batches/{job['id']}/cancel")
            return await call

    traces = asyncio.run(work())  # the mock had it ready: it is kept
    assert len(traces) == 1


def test_a_provider_that_cancels_reads_what_is_ready(provide):
    mock, url = provide(tokens_per_second=0.01)
    provider = OpenAIBatches(url)
    provider.cancels = True
    (error,) = ask(url, [("q1", 1, 0)], provider=provider)
    assert isinstance(error, NotExecutedError) and error.reason == "cancelled" and mock.stats.traces == 0


@pytest.mark.parametrize("refused", [False, True])
def test_a_job_whose_cancelling_failed_is_cancelled_at_the_next_look(provide, monkeypatch, refused):
    mock, url = provide(tokens_per_second=0.01)
    failures, request = [], HttpClient.request

    @contextlib.asynccontextmanager
    async def failing(self, method, address, *arguments, **fields):
        if address.endswith("/cancel") and not failures:
            failures.append(address)
            if not refused:
                raise aiohttp.ServerDisconnectedError
            address += "/nowhere"
        async with request(self, method, address, *arguments, **fields) as response:
            yield response

    monkeypatch.setattr(HttpClient, "request", failing)
    provider = OpenAIBatches(url)
    provider.cancels = True
    (error,) = ask(url, [("q1", 1, 0)], provider=provider)
    assert isinstance(error, NotExecutedError) and error.reason == "cancelled" and failures and mock.stats.traces == 0


def test_a_provider_that_was_never_there_is_given_up(port):
    (error,) = ask(f"http://127.0.0.1:{port}/v1", [("q0", 1, 0)])
    assert isinstance(error, JobError) and "cannot be reached" in str(error)


def test_a_provider_that_wants_a_key_says_so(provide):
    _, url = provide(api_key="sesame")
    (error,) = ask(url, [("q0", 1, 0)])
    assert isinstance(error, JobError) and error.status == 401
    (traces,) = ask(url, [("q0", 1, 0)], provider=OpenAIBatches(url, key="sesame"))
    assert len(traces) == 1


def test_a_queue_that_is_full_gets_smaller_jobs_one_by_one(provide):
    _, url = provide()
    sizes = []

    class Narrow(OpenAIBatches):
        async def run(self, job, lines, journal, *, new):
            sizes.append(len(lines))
            if len(lines) > 2:
                raise JobQueueFullError("full")
            return await super().run(job, lines, journal, new=new)

    traces = ask(url, [(f"q{i}", 1, i) for i in range(5)], provider=Narrow(url))
    assert all(len(trace) == 1 for trace in traces) and sizes == [5, 3, 2, 1, 2]


def test_a_smaller_job_that_cannot_be_written_down_fails_instead_of_waiting_for_ever(provide):
    _, url = provide()

    class Full(OpenAIBatches):
        async def run(self, job, lines, journal, *, new):
            raise JobQueueFullError("full")

    errors = ask(url, [("q0", 1, 0), ("q1", 1, 1)], Journal(fatal=1), provider=Full(url))
    assert [str(error) for error in errors] == ["killed", "killed"]


def test_replies_that_cannot_be_read_back_fail_instead_of_waiting_for_ever(provide, monkeypatch):
    _, url = provide()

    def broken(replies, id):
        raise OSError("the disk is gone")

    monkeypatch.setattr(BatchReplies, "get", broken)
    (error,) = ask(url, [("q0", 1, 0)])
    assert str(error) == "the disk is gone"


def test_replies_that_cannot_be_kept_fail_instead_of_being_read_for_ever(provide, monkeypatch):
    _, url = provide()

    class FullDisk(io.BytesIO):
        def write(self, line):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(replies.tempfile, "TemporaryFile", FullDisk)
    (error,) = ask(url, [("q0", 1, 0)])
    assert isinstance(error, JobError) and "No space left on device" in str(error) and "TMPDIR" in str(error)


def test_a_request_that_finds_the_queue_full_all_day_is_handed_in_when_there_is_room(provide, monkeypatch):
    _, url = provide()
    monkeypatch.setattr(module, "QUEUE_WAIT_S", 0.0)
    tries = []

    class Crowded(OpenAIBatches):
        async def run(self, job, lines, journal, *, new):
            tries.append(job)
            if len(tries) < 1440:  # a try per minute
                raise JobQueueFullError("full")
            return await super().run(job, lines, journal, new=new)

    (traces,) = ask(url, [("q0", 1, 0)], provider=Crowded(url))
    assert len(traces) == 1


def test_a_wave_is_written_to_a_file_and_read_from_one(provide, tmp_path):
    mock, url = provide()
    journal, requests = Journal(), [("q1", 2, 0), ("q2", 1, 50)]
    errors = ask(url, requests, journal, provider=FileBatches(tmp_path / "wave.jsonl"))
    assert all(isinstance(error, JobLeftError) for error in errors) and mock.stats.traces == 0
    (job,) = journal.jobs.values()
    body = {"file": ("wave.jsonl", (tmp_path / "wave.jsonl").read_bytes())}
    file = httpx.post(f"{url}/files", data={"purpose": "batch"}, files=body).json()
    fields = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = httpx.post(f"{url}/batches", json=fields).json()
    batch = httpx.get(f"{url}/batches/{batch['id']}").json()
    replies = BatchReplies({"0-2", "50-1"})
    replies.add(httpx.get(f"{url}/files/{batch['output_file_id']}/content").content.splitlines(), "output")
    traces = ask(url, requests, journal, [job], provider=FileBatches(replies=replies))
    assert [len(trace) for trace in traces] == [2, 1]


def test_jobs_that_come_one_after_the_other_are_in_one_file(tmp_path):
    files = FileBatches(tmp_path / "wave.jsonl")
    for line in (b"first\n", b"second\n"):
        with pytest.raises(JobLeftError):
            asyncio.run(files.run(None, [line], None, new=True))
    assert (tmp_path / "wave.jsonl").read_bytes() == b"first\nsecond\n" and files.requests == 2
