"""A server is looked at from outside in, over real HTTP: what is wrong is found, named and mended by an option."""

import asyncio

import pytest

from pets.engine import RunSpec
from pets.engine.diagnosis import diagnose
from pets.mock import Faults, MockModel, running, synthetic
from pets.questions import Problem
from pets.samplers import Prompt, Sampling
from pets.samplers.openai import OpenAISampler

from ..hostile_server import HostileServer
from ..other_hosts import RefusingMock, StrictMock

KEY = "sk-123456789"
PROBLEMS = [Problem(f"q{i}", Prompt.chat(f"Question q{i}"), "choice:options=4") for i in range(3)]


def examined(mock=None, *, kind=MockModel, model="mock", path="/v1", tokens=64, key=None, problems=PROBLEMS, **options):
    server = kind(synthetic(10, strength=0.3, tokens=tokens), **(mock or {}))
    with running(server) as url:
        at = url.removesuffix("/v1") + path

        def make(url, name):
            return OpenAISampler(url, name, key=key, loopback=True)

        return asyncio.run(diagnose(at, model, make, problems, RunSpec.of(**options)))


def hostile_server(answers):
    return HostileServer(MockModel(answers))


def states(diagnosis):
    return {check.name: check.state for check in diagnosis.checks}


def test_all_is_well():
    diagnosis = examined({"max_model_len": 4096})
    assert not diagnosis.faulty and diagnosis.max_model_len == 4096
    assert {name for name, state in states(diagnosis).items() if state != "ok"} == {"cancel"}  # untold
    assert [trace.question for trace in diagnosis.traces] == ["q0", "q1", "q2"]
    assert all(trace.answer in "ABCD" and trace.tokens > 0 and not trace.is_cut for trace in diagnosis.traces)


@pytest.mark.parametrize(
    ("mock", "options", "name", "words"),
    [
        ({}, {"path": ""}, "address", "--endpoint http://127.0.0.1:"),
        ({}, {"path": "/v1/chat/completions"}, "address", "--endpoint http://127.0.0.1:"),
        ({"api_key": KEY}, {}, "key", "OPENAI_API_KEY"),
        ({}, {"model": "mok"}, "model", "--model with one of: mock"),
        ({}, {"model": None, "kind": hostile_server}, "model", "--model with one of: mock, hostile/"),
    ],
)
def test_what_makes_a_run_fail_is_named_with_its_remedy(mock, options, name, words):
    diagnosis = examined(mock, **options)
    fault = diagnosis.checks[-1]
    assert diagnosis.faulty and (fault.name, fault.state) == (name, "fault") and words in fault.remedy
    assert not diagnosis.traces and KEY not in str(diagnosis)


def test_nobody_is_there():
    sampler = OpenAISampler("http://127.0.0.1:9/v1", "m", loopback=True)
    diagnosis = asyncio.run(diagnose("http://127.0.0.1:9/v1", "m", lambda url, name: sampler, [], RunSpec.of()))
    assert diagnosis.faulty and states(diagnosis) == {"reachable": "fault"}


def test_the_only_model_of_a_server_need_not_be_named():
    diagnosis = examined({"model": "the-one"}, model=None)
    assert diagnosis.model == "the-one" and not diagnosis.faulty


@pytest.mark.parametrize(
    ("faults", "name"),
    [({"one_choice": 1.0}, "n"), ({"no_logprobs": 1.0}, "log-probabilities")],
)
def test_what_a_server_does_not_honour_is_a_note(faults, name):
    diagnosis = examined({"faults": Faults(**faults)})
    assert states(diagnosis)[name] == "note" and not diagnosis.faulty


@pytest.mark.parametrize("confidence", [None, "tail"])
def test_only_a_confidence_that_was_asked_for_is_to_be_left_out(confidence):
    diagnosis = examined({"faults": Faults(no_logprobs=1.0)}, confidence=confidence)
    (check,) = (check for check in diagnosis.checks if check.name == "log-probabilities")
    assert check.remedy == ("" if confidence is None else "Leave out --confidence.")


@pytest.mark.parametrize("flavour", ["openai", "mistral", "gemini"])
def test_a_strict_host_is_asked_and_what_it_refuses_is_said(flavour):
    diagnosis = examined({"flavour": flavour}, kind=StrictMock)
    assert not diagnosis.faulty and "top_k" in diagnosis.left_out and states(diagnosis)["fields"] == "note"
    assert all(trace.answer is not None for trace in diagnosis.traces)


def test_traces_that_are_cut_or_hold_no_answer_are_faults_when_most_are():
    cut = examined(tokens=3000, sampling=Sampling(max_tokens=100))
    assert states(cut)["length"] == "fault" and "--max-tokens" in cut.checks[-1].remedy
    unread = examined(answer="regex:pattern=NEVER")
    assert states(unread)["answers"] == "fault" and all(trace.text for trace in unread.traces)


def test_a_refusal_of_the_traces_is_shown_with_the_servers_words():
    diagnosis = examined({"refused_questions": ["q0"]}, kind=RefusingMock)
    assert diagnosis.faulty and "too long (on purpose)" in diagnosis.checks[-1].finding


def test_without_questions_a_short_probe_is_all():
    diagnosis = examined(problems=())
    assert not diagnosis.faulty and diagnosis.traces == [] and states(diagnosis)["seeds"] == "ok"


class RunsOn(MockModel):
    stops = False


@pytest.mark.parametrize(("stops", "state"), [(True, "ok"), (False, "note")])
def test_whether_a_server_stops_is_seen_by_its_own_counters(stops, state):
    kind = MockModel if stops else RunsOn
    mock = {"tokens_per_second": 60}
    diagnosis = examined(mock, kind=kind, tokens=240, problems=PROBLEMS[:1], max_tokens=8)
    [check] = [check for check in diagnosis.checks if check.name == "cancel"]
    assert check.state == state and (stops or "--hurry 0" in check.remedy)
