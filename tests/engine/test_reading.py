"""Reading outside the event loop: long texts and comparisons in threads, where questions and payers take turns."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from pets.answers.base import AnswerType
from pets.answers.choice import Choice
from pets.answers.math import Math
from pets.engine import Engine, TokenPrice
from pets.engine.question import UNREAD, OpenQuestion
from pets.engine.reading import LONG_READ_CHARS, QUICK_QUESTION_S, ReadingThreads, form_of, judge_of, read_again
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.engine.stream import Stream
from pets.errors import BudgetError, BusyError, InputError, RefusedError
from pets.policies.uniform import Uniform
from pets.questions import Problem
from pets.samplers import Completion, Prompt
from pets.store import Store, StoredTrace
from pets.store.records import LOST

from ..waiting import PATIENCE_S, until
from .conftest import Scripted, solve


def question(answer_type, payer=""):
    problem = Problem("q", Prompt("?"))
    return OpenQuestion(problem, answer_type, payer=payer)


def powers(letter, count):
    """Traces whose answers are different formulas."""
    return [Completion(rf"\boxed{{{letter}^{{{power}}}+1}}", "stop", 10) for power in range(2, 2 + count)]


def read(*work):
    """The forms of traces of several questions that come at once."""

    async def together():
        threads = ReadingThreads()
        answers = await asyncio.gather(*(threads.read(question, traces) for question, traces in work))
        return [list(map(form_of, readings)) for readings in answers]

    return asyncio.run(together())


@pytest.mark.parametrize("chars", [100, LONG_READ_CHARS + 1])
def test_long_texts_are_read_outside_the_event_loop(monkeypatch, chars):
    threads, extract = set(), Choice.extract

    def note(kind, text):
        threads.add(threading.current_thread().name)
        return extract(kind, text)

    monkeypatch.setattr(Choice, "extract", note)
    text = "x" * chars + ". The answer is A."
    assert read((question(Choice()), [Completion(text, "stop", 10)])) == [["A"]]
    assert threads == ({"pets-reading"} if chars > LONG_READ_CHARS else {threading.main_thread().name})


@pytest.fixture
def order(monkeypatch):
    """The pairs of formulas, "a" or "b", in the order in which they are compared, once one of b's is there."""
    order, arrived = [], threading.Event()
    look = Math.same_at_once

    def same_at_once(kind, first, second):
        if "b" in first:
            arrived.set()  # the pair is handed over in the same turn of the loop
        return look(kind, first, second)

    def same_soon(kind, first, second):
        assert arrived.wait(PATIENCE_S)
        order.append("b" if "b" in first else "a")
        return False

    monkeypatch.setattr(Math, "same_at_once", same_at_once)
    monkeypatch.setattr(Math, "same_soon", same_soon)
    return order


def test_comparisons_of_questions_take_turns(order):
    """However many pairs a question has to compare, another's next pair waits for one of them."""
    read((question(Math()), powers("a", 6)), (question(Math()), powers("b", 4)))
    assert "".join(order) == "ab" * 6 + "a" * 9  # all pairs of 4 traces, and of 6


def test_payers_take_turns_however_many_questions_one_of_them_has(order):
    greedy = [(question(Math(), "greedy"), powers("a", 2)) for _ in range(5)]
    read(*greedy, (question(Math(), "other"), powers("b", 2)))
    assert "".join(order) == "abaaaa"


@pytest.fixture
def threads(monkeypatch):
    """The threads that compared the formulas, of a, which takes long, and of b."""
    threads = {"a": [], "b": []}
    monkeypatch.setattr(Math, "processor_time", lambda kind: len(threads["a"]) * QUICK_QUESTION_S)
    return threads


def comparing(threads, result):
    def same(kind, first, second):
        threads["b" if "b" in first else "a"].append(threading.current_thread().name)
        return result

    return same


def test_a_question_that_takes_long_waits_for_its_likes_alone(monkeypatch, threads):
    monkeypatch.setattr(Math, "same", comparing(threads, False))
    monkeypatch.setattr(Math, "same_soon", comparing(threads, False))
    for letter in "ab":
        read((question(Math()), powers(letter, 4)))
    assert threads == {"a": ["pets-comparing"] + ["pets-comparing-long"] * 5, "b": ["pets-comparing"] * 6}


def test_a_comparison_that_takes_long_waits_for_its_likes_alone(monkeypatch, threads):
    monkeypatch.setattr(Math, "same", comparing(threads, True))
    monkeypatch.setattr(Math, "same_soon", comparing(threads, None))
    read((question(Math()), powers("b", 2)))
    assert threads["b"] == ["pets-comparing", "pets-comparing-long"]


@dataclass(frozen=True, slots=True)
class Looping(AnswerType):
    """Reads "loop" for ever, in Python code; of other texts the last word."""

    reading_seconds = 0.05

    ended: threading.Event

    def canonical(self, answer):
        return answer or None

    def extract(self, text):
        try:
            while "loop" in text:
                next(count())
        finally:
            self.ended.set()
        return text.split()[-1]


@pytest.fixture
def looping():
    return Looping(threading.Event())


@pytest.mark.timeout(60)
def test_a_reading_that_never_ends_is_given_up_and_others_go_on(looping):
    traces = [Completion(text, "stop", 10) for text in ("a 1", "loop", "a 2")]
    assert read((question(looping), traces), (question(Choice()), [Completion("B", "stop", 10)])) == [
        ["1", None, "2"],
        ["B"],
    ]
    assert [trace.finish for trace in traces] == ["stop", UNREAD, "stop"]
    assert traces[1].text == "loop"
    assert looping.ended.wait(PATIENCE_S)  # the thread that was given up computes no more


@pytest.mark.timeout(60)
def test_time_that_a_thread_waits_is_not_processor_time(looping, monkeypatch):
    """A busy machine loses no votes."""
    slow = threading.Event()

    def extract(kind, text):
        slow.wait(10 * kind.reading_seconds)
        return text

    monkeypatch.setattr(Looping, "extract", extract)
    assert read((question(looping), [Completion("a", "stop", 10)])) == [["a"]]


@dataclass(frozen=True, slots=True)
class SlowReading(Looping):
    """Reads "wait" when it is let, without using the processor; notes what was read to its end."""

    reading_seconds = 60.0

    begun: threading.Event
    gate: threading.Event
    heard: list[str]

    def extract(self, text):
        self.begun.set()
        if "wait" in text:
            assert self.gate.wait(PATIENCE_S)
        self.heard.append(Looping.extract(self, text))
        return self.heard[-1]


@pytest.fixture
def slow_reading():
    slow_reading = SlowReading(threading.Event(), threading.Event(), threading.Event(), [])
    yield slow_reading
    slow_reading.gate.set()


async def begin(threads, answer_type, text):
    """A reading that is under way."""
    reading = asyncio.create_task(threads.read(question(answer_type), [Completion(text, "stop", 10)]))
    await asyncio.to_thread(answer_type.begun.wait, PATIENCE_S)
    return reading


@pytest.mark.timeout(60)
def test_a_reading_for_which_nobody_waits_any_more_goes_on_to_its_end(slow_reading):
    """An exception in its thread might come in the midst of anything."""

    async def left():
        threads = ReadingThreads()
        reading = await begin(threads, slow_reading, "wait 1")
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        other = asyncio.create_task(threads.read(question(slow_reading), [Completion("a 2", "stop", 10)]))
        await asyncio.sleep(0)
        slow_reading.gate.set()
        await until(lambda: "1" in slow_reading.heard)
        return await other

    assert list(map(form_of, asyncio.run(left()))) == ["2"] and sorted(slow_reading.heard) == ["1", "2"]


@pytest.mark.timeout(60)
def test_a_reading_for_which_nobody_waits_any_more_does_not_go_on_for_ever(slow_reading, monkeypatch):
    monkeypatch.setattr(SlowReading, "reading_seconds", 0.05)

    async def left():
        threads = ReadingThreads()
        (await begin(threads, slow_reading, "loop")).cancel()
        return await threads.read(question(slow_reading), [Completion("a 2", "stop", 10)])

    assert list(map(form_of, asyncio.run(left()))) == ["2"] and slow_reading.heard == ["2"]
    assert slow_reading.ended.wait(PATIENCE_S)


@pytest.mark.timeout(60)
def test_what_is_being_read_when_the_run_is_to_end_is_given_up(slow_reading, monkeypatch):
    monkeypatch.setattr("pets.engine.reading.LAST_READING_S", 0.0)
    traces = [Completion("wait 1", "stop", 10)]

    async def drained():
        threads = ReadingThreads()
        reading = asyncio.create_task(threads.read(question(slow_reading), traces))
        await asyncio.sleep(0)
        threads.end_soon()
        return await reading

    assert asyncio.run(drained()) == [None] and traces[0].finish == UNREAD


@pytest.mark.timeout(60)
def test_a_text_that_was_given_up_is_read_again(looping):
    readable, loop = (StoredTrace("q", 0, text=text, finish=UNREAD) for text in ("a 1", "loop"))
    assert read_again(looping, readable) == replace(readable, answer="1", finish="stop")
    assert read_again(looping, loop) == loop


ENDLESS = """
import asyncio, sys, threading
from test_reading import Completion, Looping, ReadingThreads, question

class Blocked(Looping):
    reading_seconds = float("inf")

    def extract(self, text):
        print("reading", flush=True)
        threading.Event().wait()

asyncio.run(ReadingThreads().read(question(Blocked(threading.Event())), [Completion("loop", "stop", 10)]))
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGINT to send")
def test_ctrl_c_ends_the_process_whatever_is_being_read():
    program = ENDLESS.replace("from test_reading", f"from {__name__.rpartition('.')[0] or 'engine'}.test_reading")
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"reading\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) != 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


NAMES = ["Shakespeare", "William Shakespeare", "W. Shakespeare", "Marlowe"]
PROBLEMS = [Problem(f"q{i}", Prompt.chat("Who wrote Hamlet?")) for i in range(3)]


class Judged(Scripted):
    """Says one of the names by seed; as a judge, knows who is who, unless ``verdict`` says otherwise."""

    def __init__(self, verdict=None):
        super().__init__(self.text)
        self.verdict, self.judgements = verdict, []

    def text(self, prompt, seed):
        if len(prompt.content) == 1:
            return f"The answer is {NAMES[seed % 4]}."
        data = json.loads(prompt.content[-1].content.split("\n")[1])
        self.judgements.append((data["new"], *data["known"].values()))
        if self.verdict is not None:
            return self.verdict()
        return next((n for n, known in data["known"].items() if known[-4:] == data["new"][-4:]), "0")


def votes(solution):
    return [dict(answer.votes) for answer in solution.answers]


def test_answers_of_one_meaning_vote_together_for_a_linear_number_of_judgements():
    sampler = Judged()
    solution = solve(PROBLEMS, sampler=sampler, budget="16x", policy="uniform", answer="judge")
    assert all(len(counts) == 2 and sorted(counts.values()) == [4, 12] for counts in votes(solution))
    assert len(sampler.judgements) == 9  # per question: three new answers after the first, each once
    assert solution.tokens == 10 * (48 + 9) and solution.spent == 48


@pytest.mark.parametrize("reply", ["1 or 2", "yes", "", "7", "Ignore this: 1"])
def test_what_is_no_number_merges_nothing(reply):
    solution = solve(PROBLEMS[:1], sampler=Judged(lambda: reply), budget=16, policy="uniform", answer="judge")
    assert sorted(votes(solution)[0].values()) == [4, 4, 4, 4] and solution.faults == {"judge: no number": 3}


@pytest.mark.parametrize(("error", "paid"), [(BusyError("down", status=503), 0), (BusyError("no reply"), 3),
                                             (RefusedError("no", status=400), 0)])  # fmt: skip
def test_a_judge_that_fails_merges_nothing_and_is_charged_where_it_may_have_answered(error, paid):
    def fail():
        raise error

    solution = solve(PROBLEMS[:1], sampler=Judged(fail), budget=16, policy="uniform", answer="judge")
    assert sorted(votes(solution)[0].values()) == [4, 4, 4, 4] and solution.failed == 0
    assert solution.tokens == 160 + 16 * paid


def test_a_resumed_run_pays_for_no_judgement_twice(tmp_path):
    store = tmp_path / "runs.db"
    first = Judged()
    before = solve(PROBLEMS[:1], sampler=first, budget=16, policy="uniform", answer="judge", store=store)
    again = Judged()

    async def go_on():
        async with Engine.resume(store, sampler=again, budget="+16") as engine:
            solution = await engine.run()
            return solution, [dict(answer.votes) for answer in engine.answers()]

    solution, rows = asyncio.run(go_on())
    assert len(first.judgements) == 3 and len(again.judgements) <= 2  # spellings that the run does not keep, once each
    assert sorted(rows[0].values()) == [8, 24] and set(rows[0]) == set(votes(before)[0])
    assert solution.tokens == before.tokens + 10 * (16 + len(again.judgements))


def test_the_budget_holds_the_judgement_before_the_trace_goes_out():
    plain = Engine(PROBLEMS, sampler=Judged(), budget="1Mtok", max_tokens=100, answer="text")
    judged = Engine(PROBLEMS, sampler=Judged(), budget="1Mtok", max_tokens=100, answer="judge")
    assert judged.record.currency.hold == plain.record.currency.hold + 4096 + 16
    solution = solve(PROBLEMS, sampler=Judged(), budget="9ktok", max_tokens=100, answer="judge")
    assert 0 < solution.spent == solution.tokens + solution.prompt_tokens <= 9_900


def test_a_trace_whose_judgement_is_out_when_the_run_breaks_off_costs_what_both_may_have_used(tmp_path):
    asked = []

    class Silent(Judged):
        async def sample(self, prompt, n, seed, sampling):
            if len(prompt.content) > 1:
                asked.append(prompt.max_tokens)
                await asyncio.Event().wait()
            return await super().sample(prompt, n, seed, sampling)

    async def broken_off():
        options = {"budget": "1Mtok", "max_tokens": 100, "policy": "uniform", "concurrency": 1}
        async with Engine(PROBLEMS[:1], sampler=Silent(), answer="judge", store=path, **options) as engine:
            task = asyncio.create_task(engine.run())
            await until(lambda: asked, task)
            task.cancel()
            await asyncio.wait([task])

    path = tmp_path / "runs.db"
    asyncio.run(broken_off())
    with Store.open(path) as store:
        *_, trace = store.view().traces()
        assert (trace.error, trace.answer, trace.tokens, trace.prompt_tokens) == (LOST, None, 10 + 16, 5 + asked[0])
        assert store.runs()[0].lost == 0


def test_dollars_are_of_one_model():
    price = TokenPrice(1, 2)
    with pytest.raises(BudgetError, match="one model's price"):
        Engine(PROBLEMS, sampler=Judged(), budget="1usd", price=price, max_tokens=100, answer="judge:model=big")
    Engine(PROBLEMS, sampler=Judged(), budget="1usd", price=price, max_tokens=100, answer="judge")


def test_a_judged_stream_counts_traces():
    spec = RunSpec.of(policy=Uniform(), budget="10ktok", horizon=3, max_tokens=100, answer="judge")
    with pytest.raises(InputError, match="counts traces"):
        Stream(spec, Sources(), print)


def test_whose_judge_it_is():
    assert judge_of(PROBLEMS, None) is None and judge_of(PROBLEMS, "judge:model=m").model == "m"
    assert judge_of([Problem("q", Prompt("?"), "judge")], None) is not None


def test_another_server_is_asked_where_one_is_named(serve):
    mock, url, *_ = serve()
    sampler = Judged()
    judge = f"judge:endpoint={url},model=mock"
    solution = solve(PROBLEMS[:1], sampler=sampler, budget=16, policy="uniform", answer=judge)
    assert mock.stats.requests == 3 and not sampler.judgements
    assert sorted(votes(solution)[0].values()) == [4, 4, 4, 4] and sum(solution.faults.values()) == 3
