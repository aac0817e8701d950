"""Reading outside the event loop: long texts and comparisons in threads, where questions and payers take turns."""

import asyncio
import math
import threading

import pytest

from pets.answers.choice import Choice
from pets.answers.math import Math
from pets.engine.driver import Submission
from pets.engine.question import OpenQuestion
from pets.engine.reading import LONG_READ_CHARS, QUICK_QUESTION_S, ReadingThreads
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampling

from ..waiting import PATIENCE_S


def question(answer_type, payer=""):
    problem = Problem("q", Prompt("?"))
    submission = Submission(problem, Sampling(), 0, 16, math.inf, payer=payer)
    return OpenQuestion(problem, answer_type, submission=submission)


def powers(letter, count):
    """Traces whose answers are different formulas."""
    return [Completion(rf"\boxed{{{letter}^{{{power}}}+1}}", "stop", 10) for power in range(2, 2 + count)]


def read(*work):
    """The forms of traces of several questions that come at once."""

    async def together():
        threads = ReadingThreads()
        try:
            return await asyncio.gather(*(threads.read(question, traces) for question, traces in work))
        finally:
            threads.close()

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
    assert threads == ({"pets-reading_0"} if chars > LONG_READ_CHARS else {threading.main_thread().name})


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
    assert threads == {"a": ["pets-comparing_0"] + ["pets-comparing-long_0"] * 5, "b": ["pets-comparing_0"] * 6}


def test_a_comparison_that_takes_long_waits_for_its_likes_alone(monkeypatch, threads):
    monkeypatch.setattr(Math, "same", comparing(threads, True))
    monkeypatch.setattr(Math, "same_soon", comparing(threads, None))
    read((question(Math()), powers("b", 2)))
    assert threads["b"] == ["pets-comparing_0", "pets-comparing-long_0"]
