"""Strict hosts: without options their models are asked, and the tokens are those that they bill."""

import pytest

from pets.errors import RefusedError
from pets.mock import MockModel, running, synthetic
from pets.questions import Problem
from pets.samplers import Prompt

from .engine.conftest import solve
from .other_hosts import StrictMock

QUESTIONS = 4
FLAVOURS = ("openai", "mistral", "gemini")
PROBLEMS = [Problem(f"q{i}", Prompt.chat(f"Question q{i}"), "choice:options=4") for i in range(QUESTIONS)]


def asked(flavour, **options):
    answers = synthetic(QUESTIONS, strength=0.3)
    model = MockModel(answers) if flavour is None else StrictMock(answers, flavour=flavour)
    with running(model) as url:
        return model, solve(PROBLEMS, endpoint=url, model="mock", **{"budget": "8x", **options})


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("options", [{}, {"max_tokens": 500}, {"confidence": "tail"}])
def test_a_strict_host_is_asked_without_a_word(flavour, options, caplog):
    mock, solution = asked(flavour, **options)
    assert solution.spent == solution.traces == mock.stats.traces == 8 * QUESTIONS and solution.failed == 0
    assert not solution.faults.keys() - {"no log-probabilities", "tokens estimated"}
    assert solution.tokens == mock.stats.completion_tokens or "tokens estimated" in solution.faults
    assert all(answer.answer is not None for answer in solution.answers)
    changes = [record.getMessage() for record in caplog.records if record.name == "pets.samplers"]
    assert changes and len(set(changes)) == len(changes)  # each is said once, however many requests were in flight


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_tokens_of_a_request_are_those_of_its_usage_hidden_thoughts_included(flavour):
    mock, solution = asked(flavour)
    assert (solution.tokens, solution.prompt_tokens) == (mock.stats.completion_tokens, mock.stats.prompt_tokens)
    assert sum(answer.tokens for answer in solution.answers) == mock.stats.completion_tokens


def test_what_the_user_asked_for_is_an_error_and_costs_nothing():
    with pytest.raises(RefusedError, match=r"'temperature' does not support 0.2.*temperature was asked for"):
        asked("openai", temperature=0.2)


def test_a_host_that_is_not_strict_is_told_everything(caplog):
    asked(None)
    assert not caplog.records
