"""Texts of a stored run, read by another answer type: a new run, and nothing is paid."""

import asyncio

import pytest

from pets import reread
from pets.engine import Engine
from pets.errors import InputError, StateError
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler
from pets.store import Store


class Numbers(Sampler):
    source = "m at http://one/v1"

    async def sample(self, prompt, n, seed, sampling):
        return [Completion("The answer is 7 apples.", "stop", 10, 5) for _ in range(n)]


def run(path, **options):
    async def to_the_end():
        problems = [Problem(id, Prompt.question(f"What is {id}?"), "auto", gold="7") for id in "ab"]
        async with Engine(problems, sampler=Numbers(), store=path, budget="3x", **options) as engine:
            await engine.run()

    asyncio.run(to_the_end())


def test_a_run_is_read_anew_for_nothing(tmp_path):
    path = tmp_path / "runs.db"
    run(path, answer="text")
    answers = reread(1, answer="number", store=path)
    assert [(row.answer, row.right) for row in answers] == [("7", True)] * 2
    assert sum(row.traces for row in answers) == 6
    with Store.open(path) as store:
        view, first = store.view(2), store.view(1)
        assert view.summary().state == "finished" and view.reused() == {1: 6} and view.shared_with(first) == 6
        assert {trace.answer for trace in first.traces()} != {"7"} == {trace.answer for trace in view.traces()}
    assert reread("last", answer="text", store=path) and Store.open(path).view(3).reused() == {1: 6}


def test_texts_that_are_not_there_and_models_that_would_be_asked_are_told(tmp_path):
    path = tmp_path / "runs.db"
    run(path, answer="text", keep_texts=False)
    with pytest.raises(StateError, match="kept no texts"):
        reread(1, answer="number", store=path)
    with pytest.raises(InputError, match="needs more than the texts"):
        reread(1, answer="judge", store=path)


def test_auto_chooses_anew_for_each_question(tmp_path):
    path = tmp_path / "runs.db"
    run(path, answer="text")
    assert [(row.answer, row.read_as) for row in reread(1, answer="auto", store=path)] == [("7", "number")] * 2
