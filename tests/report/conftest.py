"""Small synthetic pools, replayed once, and stored runs."""

from dataclasses import replace

import numpy as np
import pytest

from pets.engine import RunSpec
from pets.engine.resume import run_record
from pets.engine.sources import Sources
from pets.lab import ReplayConfig, replay
from pets.pools import Pool, PooledQuestion
from pets.prompts import Prompt
from pets.questions import Problem
from pets.store import Store, StoredTrace
from pets.types import Launch

POLICIES = ("uniform", "okg:prior=1", "asc", "dsc", "online_grid")
VOTES = {"easy": "AAAA", "hard": "ABABBAC", "wrong": "BBB"}


def write_run(store, votes, *, gold="A", prompt="Example. <b>{}</b>? Answer:", **options):
    """A run of okg over multiple-choice questions with these votes (id -> one letter per trace), its number."""
    problems = [Problem(id, Prompt(prompt.format(id)), answer_type="choice", gold=gold) for id in votes]
    spec = RunSpec.of(**{"budget": "6x", "policy": "okg"} | options)
    settings = run_record(
        spec, problems, Sources(endpoints=["http://127.0.0.1:1/v1"], model="m"), name="set", stored=True
    )
    with store.create(settings, problems) as run:
        launches = [Launch(id, number) for id, letters in votes.items() for number in range(len(letters))]
        traces = [
            StoredTrace(id, number, letter, text=f"It is {letter} </script>", tokens=7, finish="stop")
            for id, letters in votes.items()
            for number, letter in enumerate(letters)
        ]
        run.write(launches, traces)
        return run.id


@pytest.fixture
def run_store(tmp_path):
    """A store with a run of three questions, and one without a trace."""
    with Store.open(tmp_path / "runs.db") as store:
        write_run(store, VOTES)
        write_run(store, dict.fromkeys(VOTES, ""))
        yield store


def make_pool(name="toy", questions=14, traces=24, gold=True):
    rng = np.random.default_rng(0)
    made = []
    for q in range(questions):
        theta = rng.dirichlet([0.5] * 3)
        answers = tuple("ABC"[rng.choice(3, p=theta)] for _ in range(traces))
        made.append(PooledQuestion(f"q{q}", answers, gold="ABC"[int(theta.argmax())] if gold else None))
    return Pool(name, tuple(made))


@pytest.fixture(scope="session")
def pool():
    return make_pool()


@pytest.fixture(scope="session")
def timed_pool(pool):
    """The same pool with the length of every trace."""
    questions = (replace(q, tokens=tuple(range(9, 9 + len(q.answers)))) for q in pool.questions)
    return replace(pool, questions=tuple(questions))


@pytest.fixture(scope="session")
def pool_result(pool):
    (result,) = replay([pool], POLICIES, config=ReplayConfig(2, 16, budgets=(4.0, 8.0, 16.0)))
    return result


@pytest.fixture(scope="session")
def without_gold():
    (result,) = replay([make_pool("bare", gold=False)], ["uniform"], config=ReplayConfig(1, 8, "disjoint"))
    return result
