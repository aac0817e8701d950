"""Stores and plans that version 0.1.0 wrote are read and resumed; ``fixtures/v0_1_0/README.md`` says how they came."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from pets import Engine
from pets.cli.main import cli
from pets.gateway.auth import ApiKey, KeyStore
from pets.gateway.ledger import GatewayLedger
from pets.gateway.ledger_store import LedgerWriter
from pets.plans import read_plan
from pets.samplers import Completion, Sampler
from pets.store import Store

FIXTURES = Path(__file__).parent / "fixtures" / "v0_1_0"
SECRET = "pets-JrljRxWUYS5Gj2iwB9LmeSoV5m1z78Ccs41aofL8Nsk"


class Constant(Sampler):
    """Answers B, in three tokens, to a prompt of two."""

    def __init__(self):
        self.traces = 0

    async def sample(self, prompt, n, seed, sampling):
        self.traces += n
        return [Completion("The answer is \\boxed{B}.", "stop", 3, 2) for _ in range(n)]


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
    listing = CliRunner().invoke(cli, ["runs", "--store", str(path), "--format", "json"])
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
    sampler = Constant()
    solution, _ = resume(path, 3, sampler)
    assert solution.complete and solution.unit == "tokens"
    assert 950 <= solution.spent <= solution.total == 1000
    assert solution.spent == 470 + 5 * sampler.traces


def test_an_old_run_that_is_finished_takes_a_top_up(path):
    sampler = Constant()
    solution, answers = resume(path, 1, sampler, top_up="+16")
    assert solution.spent == solution.total == 64 and sampler.traces == 16
    assert sum(answer.traces for answer in answers) == 64


def test_an_old_gateways_spend_and_key_count(path):
    writer = LedgerWriter(path)
    try:
        assert KeyStore(writer.database).find(SECRET) == ApiKey("alice", budget=500)
        ledger = GatewayLedger(writer, total=5000)
        assert ledger.total.spent == 19 + 4  # what was in flight when it was killed counts as spent
    finally:
        writer.close()


def test_an_old_plan_is_read():
    plan = read_plan(FIXTURES / "plan.json")
    assert (plan.mean_budget, plan.rounds, plan.provenance.questions) == (8.0, 2, 300)
