"""Soft votes read from log-probabilities, and runs that count them: over HTTP, in a store, after a kill."""

import asyncio
import json
import math
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pets.answers.choice import Choice
from pets.answers.math import Math
from pets.cli._run import soft_words
from pets.cli.main import cli
from pets.engine import Engine, RunSpec
from pets.engine.reading import soft_vote
from pets.engine.resume import restored, results
from pets.errors import InputError
from pets.mock import Faults, MockModel, running, synthetic
from pets.prompts import TokenAlternatives
from pets.questions import write_questions
from pets.samplers.openai import OpenAISampler
from pets.store import Store
from pets.types import SoftVote

from ..waiting import PATIENCE_S, wait_until
from .conftest import asked

QUESTIONS = 30


def token(word, **chances):
    return TokenAlternatives(word, {name.replace("_", " "): math.log(chance) for name, chance in chances.items()})


def test_the_first_token_that_is_not_sure_decides():
    phrase = [token("The", The=0.99, A=0.01), token(" answer", _answer=0.97, _B=0.03)]
    vote = soft_vote([*phrase, token(" B", _B=0.7, _C=0.3), token(".", **{".": 0.5, "!": 0.5})], "B", Choice(), 1.0)
    assert vote == SoftVote("B", (("B", 0.7), ("C", 0.3)))


def test_a_sure_token_decides_where_it_spells_the_answer():
    assert soft_vote([token(" B", _B=0.99, _C=0.01)], "B", Choice(), 1.0) == SoftVote("B", (("B", 0.99), ("C", 0.01)))
    assert soft_vote([token(" So", _So=0.99, _B=0.01)], "B", Choice(), 1.0) is None


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.0, 2.0])
def test_the_temperature_is_applied_as_the_server_samples(temperature):
    vote = soft_vote([token("A", A=0.6, B=0.3, C=0.1)], "A", Choice(), temperature)
    weights = [chance ** (1 / temperature) for chance in (0.6, 0.3, 0.1)]
    assert [share for _, share in vote.shares] == pytest.approx([w / sum(weights) for w in weights], abs=1e-4)


def test_tokens_that_spell_no_option_are_together():
    vote = soft_vote([token(" The", _The=0.4, _Well=0.1, _B=0.3, B=0.2)], "B", Choice(), 1.0)
    assert vote == SoftVote("", (("", 0.5), ("B", 0.5)))


def test_there_is_none_without_probabilities_at_temperature_0_or_where_forms_are_compared():
    sure = [token("A", A=0.6, B=0.4)]
    assert soft_vote([], "A", Choice(), 1.0) is None
    assert soft_vote([TokenAlternatives("A", {"A": -0.1, "B": -math.inf})], "A", Choice(), 1.0) is None
    assert soft_vote(sure, "A", Choice(), 0.0) is None
    assert soft_vote(sure, "A", Math(), 1.0) is None


async def run_whole(engine):
    async with engine:
        solution = await engine.run()
        return solution, list(engine.answers()), engine.allocator.votes_per_trace


def run_mock(tokens, *, soft=True, store=None, **options):
    book = synthetic(QUESTIONS, strength=0.5, tokens=tokens)
    with running(MockModel(book)) as url:
        sampler = OpenAISampler(url, "mock", loopback=True)
        engine = Engine(asked(book.ids()), sampler=sampler, soft=soft, budget="4x", store=store, **options)
        return book, *asyncio.run(run_whole(engine))


def agreeing(book, answers):
    return sum(answer.answer == book.greedy(answer.id).answer for answer in answers)


def test_soft_votes_find_the_population_with_fewer_traces():
    book, solution, soft, votes_per_trace = run_mock(tokens=1)
    _, _, plain, nothing = run_mock(tokens=1, soft=False)
    assert solution.spent == 4 * QUESTIONS  # a trace costs one, whatever it counts as
    assert nothing is None and votes_per_trace > 1.5
    assert agreeing(book, soft) > agreeing(book, plain)
    assert all(answer.traces <= sum(answer.votes.values()) for answer in soft)


def test_traces_that_reason_first_are_worth_one_vote():
    _, _, _, votes_per_trace = run_mock(tokens=64)
    assert votes_per_trace < 1.3


def test_a_server_without_log_probabilities_leaves_plain_votes():
    book = synthetic(QUESTIONS, strength=0.5, tokens=1)
    with running(MockModel(book, faults=Faults(no_logprobs=1.0))) as url:
        sampler = OpenAISampler(url, "mock", loopback=True)
        engine = Engine(asked(book.ids()), sampler=sampler, soft=True, budget="4x", hurry=0.0)
        solution, answers, votes_per_trace = asyncio.run(run_whole(engine))
    assert votes_per_trace is None
    assert sum(sum(answer.votes.values()) for answer in answers) == solution.spent


def test_the_store_gives_the_same_answers_again(tmp_path):
    path = tmp_path / "runs.db"
    _, _, answers, _ = run_mock(tokens=1, store=path)
    with Store.open(path) as store:
        view = store.view()
        assert all(trace.soft is not None for trace in view.traces() if trace.answer is not None)
        assert list(results(view, restored(view))) == answers


@pytest.mark.slow
def test_killed_and_resumed_the_votes_are_those_of_the_store(tmp_path):
    book = synthetic(QUESTIONS, strength=0.5, tokens=1)
    path, questions = tmp_path / "runs.db", tmp_path / "questions.jsonl"
    with questions.open("w") as file:
        write_questions(asked(book.ids()), file)
    mock = MockModel(book, tokens_per_second=20)
    with running(mock) as url:
        flags = ["--endpoint", url, "--model", "mock", "--budget", "6x", "--concurrency", "4", "--store", str(path)]
        command = [sys.executable, "-c", "from pets.cli.main import main; main()", "solve", str(questions), "--soft"]
        child = subprocess.Popen([*command, *flags, "-o", str(tmp_path / "out.jsonl")])
        wait_until(lambda: mock.stats.traces >= 40 or child.poll() is not None)
        assert child.poll() is None, "it ended by itself"
        child.kill()
        child.wait(PATIENCE_S)
        engine = Engine.resume(path, sampler=OpenAISampler(url, "mock", loopback=True))
        solution, answers, votes_per_trace = asyncio.run(run_whole(engine))
    assert solution.spent == solution.total == 6 * QUESTIONS and votes_per_trace > 1.5
    with Store.open(path) as store:
        view = store.view()
        assert list(results(view, restored(view))) == answers


def test_the_command_line_says_what_a_trace_counted_as(tmp_path):
    book = synthetic(QUESTIONS, strength=0.5, tokens=1)
    questions = tmp_path / "questions.jsonl"
    with questions.open("w") as file:
        write_questions(asked(book.ids()), file)
    with running(MockModel(book)) as url:
        flags = ["--endpoint", url, "--model", "mock", "--budget", "4x", "--store", "none", "--soft"]
        outcome = CliRunner().invoke(cli, ["solve", str(questions), *flags])
    assert outcome.exit_code == 0, outcome.output
    assert "votes on average" in outcome.stderr
    assert len([json.loads(line) for line in outcome.stdout.splitlines()]) == QUESTIONS


def test_three_questions_do_not_tell_what_a_soft_vote_is_worth():
    book = synthetic(3, strength=0.5, tokens=1)
    with running(MockModel(book)) as url:
        engine = Engine(asked(book.ids()), sampler=OpenAISampler(url, "mock", loopback=True), soft=True, budget="4x")
        _, _, votes_per_trace = asyncio.run(run_whole(engine))
    assert votes_per_trace == 1.0 and not engine.allocator.votes.is_learned
    assert "too few questions" in soft_words(engine.allocator)


def test_a_policy_that_weighs_traces_itself_takes_no_soft_votes():
    with pytest.raises(InputError, match="such as okg"):
        RunSpec.of(soft=True, policy="okg_weighted")
