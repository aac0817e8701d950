"""A Python function as a sampler."""

import asyncio
import threading
from functools import partial

import pytest

from pets.errors import InputError, SpecError, UnreachableError
from pets.samplers import Prompt, Sampling
from pets.samplers.function import FunctionSampler

from ..engine.conftest import asked, solve

PATIENCE_S = 60
ADDITION = Prompt("2 + 2 =")


def draw(function, prompt=ADDITION, n=3):
    traces = asyncio.run(FunctionSampler(function).sample(prompt, n, seed=0, sampling=Sampling()))
    return [trace.text for trace in traces]


async def answer(text):
    await asyncio.sleep(0)
    return f"{text} 4"


class Client:
    """An object whose call is asynchronous, as those of client libraries are."""

    async def __call__(self, text):
        return await answer(text)


@pytest.mark.parametrize("function", [lambda text: f"{text} 4", answer, Client(), partial(answer)])
def test_a_function_of_any_kind_is_asked_once_for_every_trace(function):
    assert draw(function) == ["2 + 2 = 4"] * 3


def test_the_messages_of_a_chat_are_one_text():
    assert draw(str.upper, Prompt.chat("2 + 2?", system="be brief"), n=1) == ["BE BRIEF\n\n2 + 2?"]


def test_traces_of_one_request_overlap():
    async def run():
        started = 0
        both = asyncio.Event()

        async def meet(text):
            nonlocal started
            started += 1
            if started == 2:
                both.set()
            await both.wait()
            return "met"

        return await FunctionSampler(meet).sample(Prompt("?"), 2, 0, Sampling())

    assert [trace.text for trace in asyncio.run(run())] == ["met", "met"]


def test_calls_of_a_plain_function_overlap_however_few_cores_there_are():
    together = threading.Barrier(48)

    def meet(text):
        together.wait(PATIENCE_S)
        return "met"

    assert draw(meet, n=48) == ["met"] * 48


def test_what_is_no_text_is_refused():
    with pytest.raises(InputError, match="function gave 4; expected the text of a trace"):
        draw(lambda text: 4)


def test_a_function_is_a_sampler_wherever_one_is_taken():
    solution = solve(asked(["q1", "q2"]), sampler=lambda text: "The answer is B.", budget="2x")
    assert [answer.answer for answer in solution.answers] == ["B", "B"]
    each = {"a": lambda text: "The answer is B.", "b": answer}
    assert solve(asked(["q1"]), model=["a", "b"], sampler=each, budget=4, keep_going=True).spent == 4


def test_an_error_of_the_function_ends_the_run_and_a_busy_one_is_asked_again():
    def broken(text):
        raise ZeroDivisionError("of my own")

    with pytest.raises(ZeroDivisionError, match="of my own"):
        solve(asked(["q1"]), sampler=broken, budget=1)
    tries = iter([UnreachableError("not yet"), None])

    def late(text):
        if error := next(tries):
            raise error
        return "The answer is C."

    solution = solve(asked(["q1"]), sampler=late, budget=1, backoff=0)
    assert solution.answers[0].answer == "C"


def test_a_class_is_not_taken_for_a_function():
    with pytest.raises(SpecError, match="expected a sampler"):
        solve(asked(["q1"]), sampler=FunctionSampler, budget=1)
