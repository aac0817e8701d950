"""``pets resume``: runs taken up with more budget, waves as files and as jobs, left, taken up, cancelled."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import httpx
import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import PetsError
from pets.mock import Faults, MockModel, running, synthetic
from pets.samplers import batch as samplers
from pets.store import Store

from ..agreeing_judge import AgreeingJudge
from ..waiting import PATIENCE_S, wait_until

MAIN = "import sys; from pets.cli.main import main; sys.argv[0] = 'pets'; main()"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    for name in ("GATHER_S", "FIRST_POLL_S", "FIRST_BACKOFF_S"):
        monkeypatch.setattr(samplers, name, 0.01)


@pytest.fixture
def provider(tmp_path, monkeypatch):
    """A mock with ten questions, its URL, and a folder that holds them and is the current one."""
    monkeypatch.chdir(tmp_path)
    book = synthetic(10, strength=0.5)
    mock = MockModel(book)
    with running(mock) as url:
        rows = [{"id": id, "question": f"Question {id}", "answer_type": "choice:options=4"} for id in book.ids()]
        (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        yield mock, url


def pets(*args):
    result = CliRunner().invoke(cli, [*map(str, args)], prog_name="pets")
    if isinstance(result.exception, PetsError):
        result.exit_code = 2
        return result, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result, result.stderr


def write(*more):
    return pets("solve", "mine.jsonl", "--model", "mock", "--budget", "6x", "--batch-api", "--to", "wave.jsonl", *more)


CHAT_NULLS = {"service_tier": None, "system_fingerprint": None, "prompt_logprobs": None, "prompt_token_ids": None,
              "kv_transfer_params": None}  # fmt: skip
CHOICE_NULLS = {"logprobs": None, "stop_reason": None, "token_ids": None}
MESSAGE_NULLS = {"refusal": None, "annotations": None, "audio": None, "function_call": None, "tool_calls": [],
                 "reasoning": None}  # fmt: skip


def run_batch(url, source="wave.jsonl", replies="replies.jsonl", failing=MappingProxyType({})):
    """What ``vllm run-batch`` does, by the mock: no vLLM runs here, its sources were followed.

    vllm/entrypoints/openai/run_batch.py: every request is a POST of a chat (``BatchRequestInput``), every line of the
    one output file a ``BatchRequestOutput`` with all its fields, in the requests' order. A request that failed
    (``failing`` has errors by number) has its error beside a response without a body: an ``ErrorResponse``, or a text.
    """
    with Path(source).open("rb") as file, Path(replies).open("w") as out:
        for number, line in enumerate(file):
            request = json.loads(line)
            assert request.keys() == {"custom_id", "method", "url", "body"}
            assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
            assert not request["body"].get("stream")
            status, body, error = 400, None, failing.get(number)
            if error is None:
                reply = httpx.post(url.removesuffix("/v1") + request["url"], json=request["body"]).raise_for_status()
                status, body = 200, CHAT_NULLS | reply.json()
                body["choices"] = [
                    CHOICE_NULLS | choice | {"message": MESSAGE_NULLS | choice["message"]} for choice in body["choices"]
                ]
            response = {"status_code": status, "request_id": f"vllm-batch-{number:032x}", "body": body}
            row = {"id": f"vllm-{number:032x}", "custom_id": request["custom_id"], "response": response, "error": error}
            out.write(json.dumps(row, separators=(",", ":")) + "\n")


def test_waves_go_out_as_files_and_come_back_as_files_until_the_run_is_finished(provider):
    mock, url = provider
    waves = 0
    while (result := write()[0]).exit_code == 0:
        waves += 1
        run_batch(url)
        read, words = pets("resume", "last", "--replies", "replies.jsonl", "-o", "answers.jsonl")
        assert read.exit_code == 0, words
    assert result.exit_code == 1 and 2 <= waves <= 4
    assert result.stderr == 'Run 1 of store "runs.db" is finished: there is no wave to write.\n'
    with Path("answers.jsonl").open() as file:
        answers = [json.loads(line) for line in file]
    assert len(answers) == 10 and sum(answer["traces"] for answer in answers) == 60 == mock.stats.traces
    assert all(answer["answer"] for answer in answers)


def test_requests_that_vllm_refused_are_told_and_the_next_wave_decides_anew(provider):
    _, url = provider
    write()
    too_long = {"message": "This prompt has 9000 tokens.", "type": "BadRequestError", "param": None, "code": 400}
    run_batch(url, failing={0: "The decoder prompt is empty", 1: {"error": too_long}})
    read, words = pets("resume", "last", "--replies", "replies.jsonl")
    assert read.exit_code == 0
    assert "2 requests failed; the next wave decides anew. The first error: The decoder prompt is empty\n" in words
    while write()[0].exit_code == 0:
        run_batch(url)
        read, words = pets("resume", "last", "--replies", "replies.jsonl", "-o", "answers.jsonl")
        assert read.exit_code == 0 and "failed" not in words
    answers = [json.loads(line) for line in Path("answers.jsonl").read_text().splitlines()]
    assert len(answers) == 10 and all(answer["answer"] for answer in answers)


def test_a_wave_that_was_not_read_is_written_again_and_a_file_that_was_read_does_no_harm(provider):
    _, url = provider
    write()
    with Path("wave.jsonl").open() as file:
        first = file.read()
    write()
    with Path("wave.jsonl").open() as file:
        assert sorted(file) == sorted(first.splitlines(keepends=True))
    run_batch(url)
    for _ in range(2):
        read, words = pets("resume", "last", "--replies", "replies.jsonl")
        assert read.exit_code == 0, words
    with Store.open("runs.db") as store:
        traces = list(store.view().traces())
    assert (
        len({trace.launch for trace in traces})
        == len(traces)
        == sum(json.loads(line)["body"]["n"] for line in first.splitlines())
    )


def test_replies_that_are_missing_may_come_later(provider):
    _, url = provider
    write()
    run_batch(url)
    with Path("replies.jsonl").open() as file:
        lines = file.readlines()
    with Path("some.jsonl").open("w") as file:
        file.writelines(lines[:3])
    read, words = pets("resume", "last", "--replies", "some.jsonl")
    assert read.exit_code == 0 and f"Not answered: {len(lines) - 3} requests" in words
    _, words = write()
    assert f"wave.jsonl: {len(lines) - 3} requests" in words
    read, words = pets("resume", "last", "--replies", "replies.jsonl")
    assert read.exit_code == 0 and "Not answered" not in words


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda lines: [*lines, lines[0]], "came before"),
        (lambda lines: [lines[0].replace('"custom_id":"', '"custom_id":"9')], "not of this job"),
        (lambda lines: [lines[0][:50]], "Is the file whole"),
    ],
)
def test_lines_that_answer_nothing_are_refused_and_nothing_is_read(provider, spoil, words):
    _, url = provider
    write()
    run_batch(url)
    with Path("replies.jsonl").open() as file:
        lines = file.readlines()
    with Path("replies.jsonl").open("w") as file:
        file.writelines(spoil(lines))
    read, error = pets("resume", "last", "--replies", "replies.jsonl")
    assert read.exit_code == 2 and words in error and '"replies.jsonl" line' in error
    with Store.open("runs.db") as store:
        assert list(store.view().traces()) == []


def test_what_is_no_run_by_jobs_and_no_file_is_refused(provider):
    _, url = provider
    pets("solve", "mine.jsonl", "--endpoint", url, "--model", "mock", "--budget", "1x", "-o", "out.jsonl")
    assert "asks servers: leave out --replies" in pets("resume", "last", "--replies", "mine.jsonl")[1]
    write()
    assert "no.jsonl" in pets("resume", "last", "--replies", "no.jsonl")[1]
    assert "nothing to cancel" in pets("runs", "cancel")[1]


def test_a_wave_that_cannot_be_written_is_a_users_mistake(provider, monkeypatch):
    result, words = write("--to", "nowhere/wave.jsonl")
    assert result.exit_code == 2 and 'no folder "nowhere"' in words
    assert not Path("runs.db").exists()
    monkeypatch.setattr("secrets.token_hex", lambda _: "draft")
    Path(".draft.tmp").mkdir()  # where the file is drafted
    result, words = write("--to", "taken.jsonl")
    assert result.exit_code == 2 and '"taken.jsonl" cannot be written' in words
    Path(".draft.tmp").rmdir()
    assert write()[0].exit_code == 0 and Path("wave.jsonl").stat().st_size  # the wave is not lost


def solve(url, *more):
    command = ["solve", "mine.jsonl", "--endpoint", url, "--model", "mock", "--budget", "6x", "--batch-api"]
    return pets(*command, "-o", "answers.jsonl", *more)


def test_solve_hands_every_wave_in_as_a_job(provider):
    mock, url = provider
    result, words = solve(url)
    assert result.exit_code == 0 and "Spent 60 traces of 60 traces" in words
    assert "Up to 4 waves, " in words
    assert mock.stats.traces == 60 and 2 <= mock.stats.batches <= 4 and mock.stats.requests == 0


def test_without_a_job_out_there_is_nothing_to_cancel(provider):
    solve(provider[1])
    result, words = pets("runs", "cancel")
    assert result.exit_code == 0 and words == "Run 1 has no open job: there is nothing to cancel.\n"


@pytest.mark.parametrize("policy", ["asc", "lead", "esc", "price"])
def test_policies_that_would_take_a_job_for_each_step_are_refused(provider, policy):
    for result, words in (solve(provider[1], "--policy", policy), write("--policy", policy)):
        assert result.exit_code == 2 and words.startswith(f"{policy} decides trace by trace"), words
    assert not Path("runs.db").exists()


@pytest.mark.parametrize("policy", ["uniform", "price:rounds=3"])
def test_policies_with_few_rounds_go_by_jobs(provider, policy):
    mock, url = provider
    result, words = solve(url, "--policy", policy)
    assert result.exit_code == 0, words
    assert 1 <= mock.stats.batches <= 4  # the warm-up, and three rounds


def test_a_dry_run_counts_half_the_price(provider):
    _, url = provider
    more = ("--price", "in=1,out=4", "--dry-run", "tokens=100,seconds=1")
    command = ("solve", "mine.jsonl", "--endpoint", url, "--model", "mock", "--budget", "6x")
    dear, cheap = (json.loads(pets(*command, *jobs, *more)[0].stdout) for jobs in ((), ("--batch-api",)))
    assert (cheap["traces"], cheap["tokens"]) == (dear["traces"], dear["tokens"]) == (60, 6000)
    assert dear["cost"] == pytest.approx((dear["prompt_tokens"] + 4 * 6000) / 1e6)
    assert cheap["cost"] == pytest.approx((cheap["prompt_tokens"] + 4 * 6000) / 2e6)
    assert cheap["prompt_tokens"] == pytest.approx(dear["prompt_tokens"] * 4 / 6, abs=1)  # once per question and wave


def test_an_address_that_is_none_is_refused_before_there_is_a_run(provider):
    command = ("solve", "mine.jsonl", "--endpoint", "ftp://x", "--model", "mock")
    for jobs in ((), ("--batch-api",)):
        result, words = pets(*command, *jobs)
        assert result.exit_code == 2 and words.startswith('"ftp://x" is no address of a server'), words
    assert not Path("runs.db").exists()


def test_a_judge_needs_a_server_of_its_own(provider):
    mock, url = provider
    for result, words in (write("--answer", "judge"), solve(url, "--answer", "judge"),
                          solve(url, "--answer", "judge", "--dry-run")):  # fmt: skip
        assert result.exit_code == 2 and words.startswith("batch jobs cannot judge") and "\n" not in words
    assert not Path("wave.jsonl").exists() and mock.stats.batches == 0


def test_replies_from_files_are_judged_by_the_judges_own_server(provider):
    _, url = provider
    judge = AgreeingJudge()
    with running(judge) as judge_url:
        write("--answer", f"judge:endpoint={judge_url},model=judge")
        run_batch(url)
        read, words = pets("resume", "last", "--replies", "replies.jsonl")
    assert read.exit_code == 0 and "Not answered" not in words and judge.stats.traces > 0
    assert all(len(json.loads(line)["votes"]) == 1 for line in read.stdout.splitlines())


def test_batch_jobs_need_a_store(provider):
    result, words = solve(provider[1], "--store", "none")
    assert result.exit_code == 2 and "store" in words


def test_ctrl_c_leaves_the_job_which_can_be_cancelled_or_taken_up(provider, popen):
    mock, url = provider
    mock.faults = Faults(batch_seconds=600)
    command = [sys.executable, "-c", MAIN, "solve", "mine.jsonl", "--endpoint", url, "--model", "mock"]
    child = popen([*command, "--budget", "6x", "--batch-api"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: mock.stats.batches == 1)
    with Store.open("runs.db") as store:
        wait_until(lambda: any(job.id for job in store.view().jobs()))
    child.send_signal(signal.SIGINT)
    _, words = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130 and "stay with the provider (batch_" in words, words
    assert "pets runs cancel 1" in words
    mock.faults = Faults()
    result, words = pets("runs", "cancel", "1")
    assert result.exit_code == 0, words
    done = mock.stats.traces  # what the mock had ready when it was cancelled
    result, words = solve(url)
    assert result.exit_code == 0 and "Spent 60 traces of 60 traces" in words and mock.stats.traces == 60 >= done
