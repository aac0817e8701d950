"""``pets solve --join`` from the shell: processes on one run, the one that allocates killed."""

import asyncio
import contextlib
import json
import sys
from dataclasses import asdict

import pytest
from click.testing import CliRunner

from pets._version import __version__
from pets.cli._join import _follow
from pets.cli.main import cli
from pets.engine.config import RunConfig
from pets.engine.models import ModelShare
from pets.engine.sources import make_samplers
from pets.engine.workers import Worker
from pets.errors import InputError, StateError, UnreachableError
from pets.mock import MockModel, running, synthetic
from pets.questions import Problem
from pets.samplers import Prompt, Sampling
from pets.store import RunSettings, Store
from pets.store.tasks import TaskQueue

from ..waiting import until, wait_until

MAIN = [sys.executable, "-c", "from pets.cli.main import main; main()"]
QUESTIONS, MEAN = 60, 8
NOBODY = "http://127.0.0.1:1/v1"


def invoke(*arguments):
    return CliRunner().invoke(cli, [*map(str, arguments)])


def test_a_file_is_not_shared(tmp_path):
    reply = invoke("solve", "--join", "1", "--store", tmp_path / "runs.db")
    assert isinstance(reply.exception, InputError) and "postgresql://" in str(reply.exception)


def test_a_joined_run_has_its_own_settings(postgres_url):
    reply = invoke("solve", "--join", "1", "--store", postgres_url, "--budget", "9x")
    assert isinstance(reply.exception, InputError) and "leave out --budget" in str(reply.exception)


def test_a_run_of_another_version_is_refused(postgres_url):
    with Store.open(postgres_url) as store:
        store.create(RunSettings("okg", 10, version=f"{__version__}.old"), [Problem("q", Prompt("p"))]).close()
    reply = invoke("solve", "--join", "1", "--store", postgres_url)
    assert isinstance(reply.exception, StateError) and "of one version" in str(reply.exception)


@pytest.mark.parametrize(
    "config",
    [RunConfig(batch_api=True), RunConfig(models=(ModelShare("one"), ModelShare("two")))],
)
def test_a_run_that_is_not_shared_is_refused_before_anything_else(postgres_url, config):
    settings = RunSettings("okg", 10, version=__version__, more={"plan": config.to_plain()})
    with Store.open(postgres_url) as store:
        store.create(settings, [Problem("q", Prompt("p"))]).close()
    reply = invoke("solve", "--join", "1", "--store", postgres_url)
    assert isinstance(reply.exception, InputError) and "`--resume --run 1`" in str(reply.exception)
    assert "allocates" not in reply.stderr and "waiting" not in reply.stderr


def test_a_server_that_cannot_be_reached_ends_the_run_free_of_charge(postgres_url, tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps({"id": f"q{n}", "question": f"Question {n}"}) + "\n" for n in range(8)))
    server = ["--endpoint", NOBODY, "--model", "mock", "--answer", "choice", "--budget", "3x"]
    reply = invoke("solve", questions, *server, "--join", "new", "--store", postgres_url)
    assert isinstance(reply.exception, UnreachableError) and NOBODY in str(reply.exception)
    with Store.open(postgres_url, create=False) as store:
        summary = store.view().summary()
        assert (summary.state, summary.spent, summary.lost) == ("stopped", 0, 0)


def test_one_that_joined_says_that_its_server_cannot_be_reached(postgres_url, capsys):
    request = {"prompt": "p", "body": None, "n": 1, "seed": 0, "sampling": asdict(Sampling())}
    errors = []

    async def work(run):
        worker = Worker(postgres_url, make_samplers([NOBODY], "mock"), 1)
        task = asyncio.create_task(_follow(postgres_url, run.id, worker, "Run 1"))
        await until(lambda: errors.append(capsys.readouterr().err) or "Unreachable since" in "".join(errors), task)
        worker.drain()
        assert await task == "running"

    with Store.open(postgres_url) as store:
        run = store.create(RunSettings("okg", 10, version=__version__), [Problem("q", Prompt("p"))])
        with contextlib.closing(TaskQueue(postgres_url, run.id)) as queue:
            queue.add([(1, json.dumps(request))])
        asyncio.run(work(run))
        run.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_run_ends_as_it_should_though_the_one_that_allocates_is_killed(popen, postgres_url, tmp_path):
    mock = MockModel(synthetic(QUESTIONS, strength=0.5), tokens_per_second=400)
    with running(mock) as url:
        questions = tmp_path / "questions.jsonl"
        rows = [{"id": f"q{n}", "question": f"Question q{n}"} for n in range(QUESTIONS)]
        questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
        server = ["--endpoint", url, "--model", "mock", "--budget", f"{MEAN}x", "--concurrency", "8"]
        leader = popen(
            [*MAIN, "solve", questions, *server, "--answer", "choice", "--join", "new", "--store", postgres_url]
        )
        wait_until(lambda: mock.stats.traces > 20 or leader.poll() is not None)
        join = [*MAIN, "solve", "--join", "last", "--concurrency", "8", "--store", postgres_url, "-o"]
        joined = [popen([*join, tmp_path / f"{n}.jsonl"]) for n in range(2)]
        wait_until(lambda: mock.stats.traces > 150 or leader.poll() is not None)
        assert leader.poll() is None
        leader.kill()
        assert [child.wait() for child in joined] == [0, 0]
    outputs = list(tmp_path.glob("?.jsonl"))
    assert len(outputs) == 1  # whoever allocated last
    assert len(outputs[0].read_text().splitlines()) == QUESTIONS
    with Store.open(postgres_url, create=False) as store:
        summary = store.view().summary()
        assert (summary.state, summary.spent, summary.lost) == ("finished", QUESTIONS * MEAN, 0)
        assert len({trace.question for trace in store.view().traces() if trace.answer}) == QUESTIONS
