"""Settings survive as JSON, those of version 0.1.0 too; questions and traces go into rows and come back equal."""

import json

import pytest

from pets.confidence import Confidence
from pets.core.money import Currency
from pets.errors import StateError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import RunSettings, StoredTrace
from pets.store.records import problem_of, question_row, storable, text_rows, trace_of, trace_row

SETTINGS = RunSettings("okg", 10)


def test_settings_are_read_back_equal():
    settings = RunSettings(
        "okg:prior=1", 10**9, Currency.money(1.0, 2.0, prompt_tokens=10, max_tokens=10), "5usd", 64, 7, "m",
        ("http://a/v1", "http://b/v1"), "tail", 8, "mine", "0.2.0", {"config": {"tries": 6}},
    )  # fmt: skip
    assert RunSettings.from_json(settings.to_json()) == settings


def test_settings_of_version_0_1_0_are_read():
    data = json.loads(SETTINGS.to_json()) | {"sampling": {}}
    assert RunSettings.from_json(json.dumps(data)) == SETTINGS


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"policy": "okg"}', '{"currency": {}, "endpoints": [], "colour": 1}']
)
def test_settings_that_cannot_be_read_are_one_line(text):
    with pytest.raises(StateError, match="damaged") as error:
        RunSettings.from_json(text)
    assert "\n" not in str(error.value)


def test_damaged_settings_are_one_line(store, database, problems):
    store.create(SETTINGS, problems).close()
    database.connection.execute("""UPDATE runs SET settings = '{"policy": "okg"}'""")
    with pytest.raises(StateError, match="damaged"):
        store.view(1)
    database.connection.execute("UPDATE runs SET settings = '{'")
    with pytest.raises(StateError, match="damaged"):
        store.runs()


@pytest.mark.parametrize(
    "prompt",
    [Prompt("2 + 2 ="), Prompt.chat("2 + 2?"), Prompt.chat("naïve ☃?", system="Be brief."), Prompt('[["user", "x"]]')],
)
def test_every_form_of_prompt_comes_back(prompt):
    problem = Problem("q", prompt, "number", "4", "easy", 4)
    assert problem_of(question_row(1, 3, problem)[1:]) == problem


@pytest.mark.parametrize("confidences", [None, Confidence(2.0, 3.0, 1.0, 1.5, 7)])
def test_a_trace_comes_back_without_its_text(confidences):
    trace = StoredTrace("q", 2, "4", "", "stop", confidences, "cut", 1, 0.5, 2, 1, tokens=3, prompt_tokens=8)
    _, question, number, answer, *rest = trace_row(1, trace)
    assert trace_of((3, question, number, answer, "", *rest)) == trace


def test_only_texts_that_are_there_have_a_row_and_all_are_utf_8():
    traces = [StoredTrace("q", 0), StoredTrace("q", 1, text="half \ud83d")]
    assert list(text_rows(1, traces)) == [(1, "q", 1, "half ?")]
    assert storable("☃") == "☃"
