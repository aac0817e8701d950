"""The functions of ``import pets``: what they take, what they say, what they keep, and what they hand back."""

import asyncio
import json
import sqlite3
from collections import Counter
from itertools import cycle

import pyarrow
import pytest

import pets
from pets.confidence import Confidence
from pets.errors import BudgetError, InputError, PoolError, UnreachableError
from pets.policies.uniform import Uniform
from pets.pools import load
from pets.samplers import Completion, Sampler

from .engine.conftest import Scripted, asked


def says(answer="B"):
    """A model that always says the same."""
    return lambda text: f"The answer is {answer}."


class OwnPolicy(Uniform):
    """A policy that no other process can make."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def recorded():
    """Some questions of the starter pool."""
    return pets.Pool("mine", load("starter").questions[:24], "text")


# Where a run is kept, and what is said of it.


def test_a_run_is_kept_where_the_command_keeps_it_and_the_same_call_pays_for_nothing_again(folder, capsys):
    pets.solve(asked(["q1", "q2"]), model="m", sampler=says("B"), budget="4x")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == (
        'This run is kept in store "runs.db", for `pets runs` too; store=None keeps nothing.\n'
    )
    sampler = Scripted()
    again = pets.solve(asked(["q1", "q2"]), model="m", sampler=sampler, budget="4x")
    assert sampler.requests == 0 and [answer.answer for answer in again.answers] == ["B", "B"]
    assert 'Run 1 of store "runs.db": it asked the same: nothing is paid again.' in capsys.readouterr().err
    assert pets.solve(asked(["q1", "q2"]), model="m", sampler=sampler, budget="4x", new=True).run == 2


def test_a_run_that_failed_goes_on(folder, capsys):
    def dead(text):
        raise UnreachableError("no server")

    with pytest.raises(UnreachableError):
        pets.solve(asked(["q1"]), model="m", sampler=dead, budget=4, tries=1, backoff=0)
    capsys.readouterr()
    assert pets.solve(asked(["q1"]), model="m", sampler=says(), budget=4).run == 1
    assert 'Run 1 of store "runs.db": it goes on. new=True begins another.' in capsys.readouterr().err


def test_without_a_store_nothing_is_kept_and_without_progress_not_a_word_is_said(folder, capsys):
    solution = pets.solve(asked(["q1"]), sampler=says(), budget=4, store=None, progress=False)
    assert solution.run is None and list(folder.iterdir()) == [] and capsys.readouterr().err == ""


def test_a_policy_of_ones_own_is_not_kept_in_the_usual_store_and_refused_by_another(folder, capsys):
    pets.solve(asked(["q1"]), sampler=says(), budget=4, policy=OwnPolicy())
    assert list(folder.iterdir()) == [] and "This run is not kept: " in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot make OwnPolicy"):
        pets.solve(asked(["q1"]), sampler=says(), budget=4, policy=OwnPolicy(), store="other.db")


def test_how_answers_are_read_is_heard(folder, capsys):
    pets.solve(["2 + 2?"], sampler=says("4"), budget=8, store=None)
    assert "auto read 1 question as number." in capsys.readouterr().err


def test_progress_is_drawn_where_it_is_wanted(folder, capsys):
    pool = pets.record(["2 + 2?"], sampler=says("4"), traces=4, output="mine.jsonl", progress=True)
    assert "\r1 of 1 questions" in capsys.readouterr().err
    pets.replay(pool, "uniform", repetitions=1, progress=True)
    assert "\r4 of 4 traces drawn" in capsys.readouterr().err
    pets.replay(pool, "uniform", repetitions=1)  # nobody looks
    assert capsys.readouterr().err == ""


# One question.


def test_a_question_gets_at_most_16_traces_and_fewer_where_they_agree():
    alike, scattered = Counter(), Counter()

    def agree(text):
        alike[text] += 1
        return "The answer is 4."

    def scatter(text):
        scattered[text] += 1
        return f"The answer is {scattered[text] % 5}."

    answer = pets.ask("2 + 2?", sampler=agree)
    assert answer.answer == "4" and answer.traces == alike.total() < 16
    assert pets.ask("2 + 2?", sampler=scatter).traces == 16


def test_a_budget_of_ones_own_is_spent():
    assert pets.ask("2 + 2?", sampler=says("4"), budget=20).traces == 20
    with pytest.raises(BudgetError):
        pets.ask("2 + 2?", sampler=says("4"), budget=0)


def test_a_record_with_gold_is_a_question_too():
    answer = pets.ask({"question": "2 + 2?", "gold": "4", "answer_type": "number"}, sampler=says("4"))
    assert answer.right


def test_a_program_with_an_event_loop_awaits_or_waits(folder):
    async def main():
        awaited = await pets.aask("2 + 2?", sampler=says("4"))
        return awaited, pets.ask("2 + 2?", sampler=says("4"))  # in another thread

    awaited, waited = asyncio.run(main())
    assert awaited.answer == waited.answer == "4"


# Streams.


async def gathered(questions, **options):
    return [answer async for answer in pets.stream(questions, **options)]


async def arriving(questions):
    for question in questions:
        await asyncio.sleep(0)
        yield question


@pytest.mark.parametrize("questions", [asked(["q1", "q2", "q3"]), arriving(asked(["q1", "q2", "q3"]))])
def test_a_stream_answers_every_question_of_a_list_or_as_it_arrives(questions):
    answers = asyncio.run(gathered(questions, sampler=says("C"), budget="4x"))
    assert sorted((answer.id, answer.answer) for answer in answers) == [("q1", "C"), ("q2", "C"), ("q3", "C")]


def test_a_plan_gives_a_stream_its_mean_budget_unless_another_is_named(tmp_path, recorded):
    plan = pets.fit(recorded, mean_budget=6, policy="price:rounds=1")
    pets.write_plan(plan, tmp_path / "plan.json")
    questions = asked([f"q{i}" for i in range(8)])
    said = ["A", "B", "A", "C", "D"]
    scattered = Scripted(lambda prompt, seed: f"The answer is {said[seed % 5]}.")
    spent = [
        sum(answer.traces for answer in asyncio.run(gathered(questions, sampler=scattered, plan=source, **options)))
        for source, options in ((plan, {}), (tmp_path / "plan.json", {}), (plan, {"budget": "4x"}))
    ]
    assert spent == [48, 48, 32]


def test_a_stream_is_kept_in_a_store_that_is_named(tmp_path):
    asyncio.run(gathered(asked(["q1"]), sampler=says(), budget="4x", store=tmp_path / "runs.db"))
    with sqlite3.connect(tmp_path / "runs.db") as database:
        assert database.execute("select count(*) from runs").fetchone() == (1,)
    database.close()


def test_a_voter_reads_answers_as_it_was_told():
    async def votes(**options):
        replies = cycle(["The answer is $5.", "The answer is 5.00."])
        async with pets.Voter(sampler=lambda question: next(replies), budget="6x", **options) as voter:
            answer = await voter.ask({"question": "What is it?", "answer_type": "text"})
            return len(answer.votes)

    assert (asyncio.run(votes()), asyncio.run(votes(answer="number"))) == (2, 1)


def test_a_voter_weighs_votes_as_its_policy_does():
    class Unsure(Sampler):
        async def sample(self, prompt, n, seed, sampling):
            letters = ["AAABB"[at % 5] for at in range(seed, seed + n)]
            confidences = {"A": Confidence(1.0, 1.0, 1.0, 1.0, 9), "B": Confidence(40.0, 40.0, 40.0, 40.0, 9)}
            return [Completion(f"The answer is {one}.", "stop", 9, 5, confidences[one]) for one in letters]

    async def vote():
        async with pets.Voter(sampler=Unsure(), policy="okg_weighted", budget="10x", max_traces=10) as voter:
            return await voter.ask({"question": "A or B?", "answer_type": "text"})

    answer = asyncio.run(vote())
    assert answer.answer == "B" and answer.votes == {"A": 6, "B": 4}


def test_leaving_a_stream_ends_it():
    sampler = Scripted()

    async def first():
        answers = pets.stream(asked([f"q{i}" for i in range(500)]), sampler=sampler, budget="4x", open_questions=1)
        async for answer in answers:
            await answers.aclose()
            return answer
        return None

    assert asyncio.run(first()).answer == "A"
    assert sampler.seeds.total() < 100


def test_a_stream_that_cannot_go_on_raises_and_refuses_what_streams_do_not_honour():
    def broken(text):
        raise ZeroDivisionError("of my own")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(gathered(asked(["q1"]), sampler=broken, budget="4x"))
    with pytest.raises(InputError, match="soft is True, which `pets stream` does not honour"):
        asyncio.run(gathered(asked(["q1"]), sampler=says(), soft=True))


# Recordings, plans, replays.


def test_a_recording_is_a_file_that_the_same_call_goes_on_with(folder, capsys):
    (folder / "mine.jsonl").write_text('{"id": "q1", "question": "2 + 2?"}\n')
    pool = pets.record("mine.jsonl", sampler=says("4"), traces=3)
    assert "Traces are kept in mine.pool.jsonl" in capsys.readouterr().err
    assert pool.name == "mine.pool" and pool.questions[0].answers == ("4", "4", "4")
    sampler = Scripted()
    assert pets.record("mine.jsonl", sampler=sampler, traces=3) == pool and sampler.requests == 0
    with pytest.raises(PoolError, match="this recording has 4"):
        pets.record("mine.jsonl", sampler=sampler, traces=4)


def test_a_table_is_a_set_of_questions_and_a_pool(recorded):
    table = pyarrow.table({"question": ["2 + 2?", "2 + 3?"], "gold": ["4", None], "answer_type": ["number"] * 2})
    solution = pets.solve(table, sampler=says("4"), budget="2x", store=None, progress=False)
    assert [(answer.answer, answer.gold) for answer in solution.answers] == [("4", "4"), ("4", None)]
    answers = asyncio.run(gathered(table, sampler=says("4"), budget="4x"))
    assert sorted(answer.id for answer in answers) == ["1", "2"]
    pool = pyarrow.Table.from_pylist(rows_of(recorded))
    assert pets.replay(pool, "uniform", repetitions=1)[0].questions == 24


def test_a_recording_says_what_it_does_not_take(folder):
    with pytest.raises(InputError, match=r"must end in \.jsonl: it grows"):
        pets.record(["2 + 2?"], sampler=says(), output="mine.csv")
    with pytest.raises(InputError, match="budget is '4x', which `pets sample` does not honour"):
        pets.record(["2 + 2?"], sampler=says(), budget="4x")
    with pytest.raises(InputError, match='such as "number"; got Number'):
        pets.record(["2 + 2?"], sampler=says(), answer=pets.make_answer_type("number"))
    read = pets.record(["2 + 2?"], sampler=says("4 apples"), traces=2, answer="number")
    assert read.questions[0].answers == ("4", "4")


def rows_of(pool):
    return [{"id": q.id, "gold": q.gold, "answers": list(q.answers)} for q in pool.questions]


def test_a_pool_is_taken_as_a_file_records_or_a_pool(tmp_path, recorded):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(recorded)))
    plans = [
        pets.fit(pool, 8, policy="price:rounds=1", answer="text")
        for pool in (path, str(path), rows_of(recorded), recorded)
    ]
    assert len({plan.provenance.digest for plan in plans}) == 1
    results = [pets.replay(pool, "uniform", repetitions=1) for pool in (path, [path], rows_of(recorded), [recorded])]
    assert {result[0].questions for result in results} == {24}
    assert [pool.pool for pool in pets.replay([path, rows_of(recorded)], "uniform", repetitions=1)] == ["mine", "pool"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: pets.solve(["2 + 2?"], sampler=lambda text: "4", budget="5usd", store=None),
            'needs a price: price="in=DOLLARS,',
        ),
        (lambda: pets.ask("2 + 2?", endpoint="http://127.0.0.1:9/v1"), "an endpoint needs model=NAME: which"),
        (lambda: asyncio.run(_first_of_a_stream()), "an endpoint needs model=NAME: which"),
        (lambda: pets.replay([{"id": "q", "answers": ["A", "B"]}], "okg", weighted=True), "Drop weighted=True."),
    ],
)
def test_messages_name_the_keywords_of_python(call, says):
    with pytest.raises(pets.PetsError) as raised:
        call()
    assert says in str(raised.value) and "--" not in str(raised.value)


async def _first_of_a_stream():
    return [answer async for answer in pets.stream(["2 + 2?"], endpoint="http://127.0.0.1:9/v1")]
