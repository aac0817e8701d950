"""Stores and plans of before are read and resumed.

``fixtures/v0_1_0/README.md`` and ``fixtures/schema_15/make.py`` say how they came.
"""

import asyncio
import gzip
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from pets import Engine
from pets.cli.main import cli
from pets.errors import StateError
from pets.gateway import shared_store
from pets.gateway.auth import ApiKey, KeyStore
from pets.gateway.ledger import GatewayLedger
from pets.gateway.ledger_backend import LedgerBackend
from pets.gateway.shared_store import SharedStore
from pets.gateway.sqlite_store import SQLiteStore
from pets.mock import MockModel, running, synthetic
from pets.openai.batch import BatchReplies, NotExecutedError, custom_id
from pets.plans import read_plan
from pets.samplers import Completion, Sampler
from pets.samplers.batch import BatchLimits, BatchSampler
from pets.store import Store
from pets.store.store import open_database

from .waiting import until

FIXTURES = Path(__file__).parent / "fixtures" / "v0_1_0"
SECRET = "pets-JrljRxWUYS5Gj2iwB9LmeSoV5m1z78Ccs41aofL8Nsk"


class Constant(Sampler):
    """Answers B, or these letters in turn, in three tokens, to a prompt of two."""

    def __init__(self, letters="B"):
        self.letters, self.traces = letters, 0

    async def sample(self, prompt, n, seed, sampling):
        self.traces += n
        letters = [self.letters[(seed + place) % len(self.letters)] for place in range(n)]
        return [Completion(f"The answer is \\boxed{{{letter}}}.", "stop", 3, 2) for letter in letters]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.executescript((FIXTURES / "store.sql").read_text())
    connection.close()
    return path


def resume(path, run, sampler, **options):
    async def to_the_end():
        async with Engine.resume(path, run, sampler=sampler, **options) as engine:
            solution = await engine.run()
            return solution, list(engine.answers())

    return asyncio.run(to_the_end())


def test_the_runs_of_an_old_store_are_listed(path):
    with Store.open(path, create=False) as store:
        rows = [(run.id, run.state, run.questions, run.traces, run.lost, run.spent) for run in store.runs()]
    assert rows == [(1, "finished", 8, 48, 0, 48), (2, "stopped", 8, 30, 6, 36), (3, "stopped", 8, 28, 4, 470)]
    listing = CliRunner().invoke(cli, ["runs", "--store", str(path), "--format", "jsonl"])
    assert listing.exit_code == 0
    assert [json.loads(line)["spent"] for line in listing.stdout.splitlines()] == [48, 36, 470]


def test_an_old_run_that_was_killed_resumes_to_its_exact_budget(path):
    sampler = Constant()
    solution, answers = resume(path, 2, sampler)
    assert solution.complete and solution.spent == solution.total == 80
    assert solution.lost == 6 and sampler.traces == 80 - 36
    assert len(answers) == 8 and sum(answer.traces for answer in answers) == 80
    with Store.open(path) as store:
        assert store.runs()[1].state == "finished"


def test_an_old_budget_in_tokens_is_kept(path):
    sampler = Constant("AB")  # were they all B, the run would be settled before its budget is spent
    solution, _ = resume(path, 3, sampler)
    assert solution.complete and solution.unit == "tokens" and not solution.settled
    assert 950 <= solution.spent <= solution.total == 1000
    assert solution.spent == 470 + 5 * sampler.traces


def test_an_old_run_that_is_finished_takes_a_top_up(path):
    sampler = Constant()
    solution, answers = resume(path, 1, sampler, budget="+16")
    assert solution.spent == solution.total == 64 and sampler.traces == 16
    assert sum(answer.traces for answer in answers) == 64


def test_an_old_gateways_spend_and_key_count(path):
    with closing(LedgerBackend(SQLiteStore(path))) as backend:
        assert backend.store.keys.find(SECRET) == ApiKey("alice", budget=500)
        ledger = GatewayLedger(backend, total=5000)
        assert ledger.total.spent == 19 + 4  # what was in flight when it was killed counts as spent


def test_an_old_plan_is_read():
    plan = read_plan(FIXTURES / "plan.json")
    assert (plan.mean_budget, plan.rounds, plan.provenance.questions) == (8.0, 2, 300)


GOLDEN = Path(__file__).parent / "fixtures" / "schema_15"
HELD = json.loads((GOLDEN / "golden.json").read_text())
RUNS = [(database, kind) for database in ("sqlite", "postgres") for kind in HELD[database]]
UNFINISHED = [(database, kind) for database, kind in RUNS if HELD[database][kind]["state"] == "stopped"]
ASKED_ON = [case for case in UNFINISHED if case[1] not in ("shared", "batch jobs, killed")]
REPEATED = [case for case in RUNS if not case[1].startswith("stream") and case not in UNFINISHED]


@pytest.fixture
def golden(request, tmp_path):
    """``golden(database)`` is where a copy of its golden store is."""

    def copy(database):
        if database != "postgres":
            path = tmp_path / f"{database}.db"
            path.write_bytes(
                gzip.decompress((GOLDEN / f"{'runs' if database == 'sqlite' else database}.db.gz").read_bytes())
            )
            return str(path)
        import psycopg

        url = request.getfixturevalue("postgres_url")
        server, _, schema = url.rpartition("schema=")
        dump = gzip.decompress((GOLDEN / "postgres.sql.gz").read_bytes()).decode()
        with psycopg.connect(server[:-1], autocommit=True) as connection:
            connection.execute(re.sub(r"\bgolden\b", schema, dump))
        return url

    return copy


@pytest.fixture
def served():
    """The mock that the golden runs asked, and how to ask it."""
    mock = MockModel(synthetic(6, strength=0.4, tokens=12))
    with running(mock) as url:
        yield mock, ("--endpoint", url)


def invoke(*arguments):
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def summary_of(location, run):
    with Store.open(location, create=False) as store:
        return store.view(run).summary()


def numbers_of(location, run):
    """The numbers of the traces of each question."""
    with Store.open(location, create=False) as store:
        rows = [(trace.question, trace.number) for trace in store.view(run).traces(texts=False)]
    return {id: [number for other, number in rows if other == id] for id, _ in rows}


def check_answers(rows, held):
    fields = ("answer", "votes", "traces")
    found = {row["id"]: {name: row[name] for name in fields} for row in rows}
    assert found == {id: {name: row[name] for name in fields} for id, row in held["answers"].items()}


@pytest.mark.parametrize(("database", "kind"), RUNS)
def test_a_golden_run_is_read_as_it_was_written(golden, database, kind):
    location, held = golden(database), HELD[database][kind]
    run = held["run"]
    (listed,) = [row for row in invoke("runs", "--store", location, "--format", "jsonl") if row["run"] == run]
    (shown,) = invoke("runs", "show", run, "--store", location, "--format", "jsonl")
    for facts in (listed, shown):
        names = ("state", "questions", "traces", "lost", "spent")
        assert {name: facts[name] for name in names} == {name: held[name] for name in names}
    check_answers(invoke("runs", "export", run, "--store", location), held)
    numbers = {id: row["numbers"] for id, row in held["answers"].items() if row["numbers"]}
    assert numbers_of(location, run) == numbers
    texts = [row["text"] for row in invoke("runs", "export", run, "--what", "traces", "--store", location)]
    assert len(texts) == held["traces"] and any(texts) == ("weighted" not in kind)


def check_resumed(location, held, sampled):
    """Nothing was paid twice: beyond what came and what was lost, there is what was sampled, each trace once."""
    after, numbers = summary_of(location, held["run"]), numbers_of(location, held["run"])
    assert after.state == "finished" and after.lost == 0
    assert after.traces == held["traces"] + held["lost"] + sampled
    for id, row in held["answers"].items():
        assert set(row["numbers"]) <= set(numbers[id]) and len(set(numbers[id])) == len(numbers[id])
    assert held["spent"] <= after.spent <= after.settings.total * 1.1
    if after.settings.currency.counts_traces:
        assert after.spent == held["spent"] + sampled <= after.settings.total


@pytest.mark.parametrize(("database", "kind"), ASKED_ON)
def test_a_golden_run_that_was_killed_goes_on_to_its_end(golden, served, database, kind):
    location, held, (mock, at) = golden(database), HELD[database][kind], served
    questions = [GOLDEN / "questions.jsonl"] if kind.startswith("stream") else []
    rows = invoke("resume", held["run"], *questions, "--store", location, *at)
    assert mock.stats.traces > 0
    check_resumed(location, held, mock.stats.traces)
    if not kind.startswith("stream"):
        assert summary_of(location, held["run"]).spent >= 0.9 * summary_of(location, held["run"]).settings.total
        assert len(rows) == 6 and all(row["answer"] for row in rows)


class Provider:
    """Answers every request of a job with A; counts what it sampled, by the name of the request."""

    limits = BatchLimits()

    def __init__(self):
        self.sampled, self.jobs = Counter(), []

    async def run(self, job, lines, journal, *, new):
        self.jobs.append(job.id)
        replies = BatchReplies({custom_id(line) for line in job.lines})
        for row in map(json.loads, lines):
            n = row["body"].get("n", 1)
            choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": "The answer is A."}}
            usage = {"prompt_tokens": 5, "completion_tokens": 6 * n}
            body = {"choices": [{"index": place, **choice} for place in range(n)], "usage": usage}
            reply = {"custom_id": row["custom_id"], "response": {"status_code": 200, "body": body}}
            replies.add_line(json.dumps(reply).encode(), "the job")
            self.sampled[row["custom_id"]] += n
        return replies, NotExecutedError("no reply", "ended")

    async def close(self):
        pass


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_golden_run_by_batch_jobs_reads_what_is_with_its_provider_and_goes_on(golden, database):
    location, held = golden(database), HELD[database]["batch jobs, killed"]
    with Store.open(location, create=False) as store:
        last_job = store.view(held["run"]).jobs()[-1]
    provider = Provider()
    resume(location, held["run"], BatchSampler("http://127.0.0.1:1/v1", "mock", provider))
    assert provider.jobs.count(last_job.id) == bool(held["lost"])  # those launches are in it, not lost
    assert sum(provider.sampled[custom_id(line)] for line in last_job.lines) == held["lost"]
    check_resumed(location, {**held, "lost": 0, "spent": held["spent"] - held["lost"]}, provider.sampled.total())


def test_a_golden_run_that_processes_shared_is_read_and_does_not_go_on(golden, served):
    location, (mock, at) = golden("postgres"), served
    result = CliRunner().invoke(cli, ["resume", "13", "--store", location, *at])
    assert isinstance(result.exception, StateError) and "--join" in str(result.exception)
    assert mock.stats.traces == 0


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_golden_run_takes_another_top_up(golden, served, database):
    location, held, (mock, at) = golden(database), HELD[database]["topped up"], served
    invoke("resume", held["run"], "--budget", "+12", "--store", location, *at)
    assert mock.stats.traces == 12 and summary_of(location, held["run"]).spent == held["spent"] + 12


@pytest.mark.parametrize(("database", "kind"), REPEATED)
def test_the_command_of_a_golden_run_that_is_finished_pays_for_nothing(golden, served, monkeypatch, database, kind):
    location, held, (mock, at) = golden(database), HELD[database][kind], served
    monkeypatch.chdir(GOLDEN)
    of_both = ("--endpoint", f"mock={at[1]}", "--endpoint", f"other={at[1]}", "--model", "mock=2", "--model", "other")
    command = [*held["command"], *(of_both if kind == "mixture" else (*at, "--model", "mock"))]
    if "--waves" in command:  # a former option: such a run is asked for by its number
        former = CliRunner().invoke(cli, [*command, "--store", str(location)])
        assert former.exit_code == 2 and "--policy okg:waves=N; pets resume RUN" in former.stderr
        command = ["resume", held["run"], *at]
    check_answers(invoke(*command, "--store", location), held)
    assert mock.stats.traces == 0


def test_the_keys_and_the_spend_of_a_golden_gateway_count(golden):
    held = HELD["gateway"]
    with closing(LedgerBackend(SQLiteStore(golden("gateway")))) as backend:
        check_gateway(held, backend.store.keys, GatewayLedger(backend, total=5000))


def test_the_keys_and_the_spend_of_a_golden_shared_ledger_count(golden, monkeypatch):
    monkeypatch.setattr(shared_store, "DEAD_AFTER_S", 0.6)
    held, url = HELD["shared gateway"], golden("postgres")
    with closing(LedgerBackend(SharedStore(url, "the next"))) as backend:
        ledger = GatewayLedger(backend, total=5000)
        assert ledger.total.spent == sum(spent for spent, _ in held["spent and held"].values())
        assert ledger.total.held == sum(on_its_way for _, on_its_way in held["spent and held"].values())

        async def find_the_killed_replica_dead():
            ledger.backend.begin()
            await until(lambda: ledger.total.held == 0)

        asyncio.run(find_the_killed_replica_dead())
    with closing(open_database(url, create=False)) as database:
        check_gateway(held, KeyStore(database), ledger)


def check_gateway(held, keys, ledger):
    """What was on its way when the gateway was killed counts as spent."""
    assert keys.find(held["secrets"]["alice"]) == ApiKey("alice", budget=500, unit="traces")
    assert keys.find(held["secrets"]["bob"]) == ApiKey("bob") and keys.find(held["secrets"]["carol"]) is None
    for name, (spent, on_its_way) in held["spent and held"].items():
        assert on_its_way > 0 and keys.spent(name) == {"traces": spent + on_its_way}
    assert ledger.total.spent == sum(map(sum, held["spent and held"].values()))
