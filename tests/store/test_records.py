"""Settings survive as JSON; questions and traces go into rows and come back equal."""

import pytest

from pets.confidence import Confidence
from pets.core.money import Currency
from pets.errors import StateError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, RunRecord, StoredTrace
from pets.store.records import problem_of, question_row, storable, trace_of, trace_row

SETTINGS = RunRecord(10)


def test_settings_are_read_back_equal():
    currency = Currency.money(1.0, 2.0, prompt_tokens=10, max_tokens=10)
    settings = RunRecord(
        10**9, currency, {"spending": {"budget": "5usd"}, "keeping": {}}, "stream", (8, 100), "m",
        ("http://a/v1", "http://b/v1"), "mine", "0.2.0", "number",
    )  # fmt: skip
    assert RunRecord.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"total": 1}', SETTINGS.to_json().replace('"spec": {}', '"spec": {"keeping": 1}')]
)
def test_settings_that_cannot_be_read_are_one_line(text):
    with pytest.raises(StateError, match="damaged") as error:
        RunRecord.from_json(text)
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
    assert problem_of((*question_row(1, 3, problem)[1:], None)) == problem


@pytest.mark.parametrize("confidences", [None, Confidence(2.0, 3.0, 1.0, 1.5, 7)])
def test_a_trace_comes_back_without_its_text(confidences):
    trace = StoredTrace("q", 2, "4", "", "stop", confidences, "cut", 1, 0.5, 2, 1, tokens=3, prompt_tokens=8)
    _, question, number, answer, *rest = trace_row(1, trace)
    assert trace_of((3, question, number, answer, "", *rest)) == trace


def test_every_text_that_is_kept_is_utf_8(run):
    run.write([Launch("q0", 0), Launch("q0", 1)], [StoredTrace("q0", 0), StoredTrace("q0", 1, text="half \ud83d")])
    assert [trace.text for trace in run.traces()] == ["", "half ?"]
    assert storable("☃") == "☃"
