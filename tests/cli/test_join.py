"""``pets solve --join`` from the shell: processes on one run, the one that allocates killed."""

import json
import sys

import pytest
from click.testing import CliRunner

from pets._version import __version__
from pets.cli.main import cli
from pets.errors import InputError, StateError
from pets.mock import MockModel, running, synthetic
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import RunSettings, Store

from ..waiting import wait_until

MAIN = [sys.executable, "-c", "from pets.cli.main import main; main()"]
QUESTIONS, MEAN = 60, 8


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
