"""The commands at a report's end: every option that the run was made with, quoted for a shell."""

import re
import shlex
from dataclasses import replace

import pytest

from pets.core.budget import Budget
from pets.engine import RunSpec
from pets.engine.batch import batched
from pets.engine.budget import Amount, ModelShare, TokenPrice, total_of
from pets.engine.resume import rebudgeted, run_record
from pets.engine.sources import Sources
from pets.engine.stream import stream_record
from pets.prompts import Prompt
from pets.questions import Problem, question_set
from pets.report.commands import commands_of
from pets.samplers import Sampling
from pets.store import Store

PROBLEMS = [Problem("q", Prompt("?"), answer_type="choice")]
SERVER = "http://127.0.0.1:1/v1"


def commands(tmp_path, spec, *, name="mine", model="m", endpoints=(SERVER,), path="my runs.db"):
    settings = run_record(spec, PROBLEMS, Sources(endpoints=endpoints, model=model), name=name, stored=True)
    with Store.open(tmp_path / path) as store, store.create(settings, PROBLEMS) as run:
        return commands_of(store.view(run.id), len(PROBLEMS)).splitlines()


def test_a_plain_run_names_what_everybody_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    anew, on, report = commands(tmp_path, RunSpec.of(budget="6x"))
    store = shlex.join(["--store", str(tmp_path / "my runs.db")])
    assert anew == f"pets solve QUESTIONS --budget 6x --policy okg --endpoint {SERVER} --model m --seed 0 --new {store}"
    assert on == f"pets resume 1 {store}" and report == f"pets report 1 {store}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hurry": 0.75}, "--hurry 0.75"),
        ({"answer": "choice"}, "--answer choice"),
        ({"system": "Be brief; now."}, "--system 'Be brief; now.'"),
        ({"confidence": "tail"}, "--confidence tail"),
        ({"soft": True}, "--soft"),
        ({"instruct": False}, "--no-instruct"),
        ({"keep_texts": False}, "--no-texts"),
        ({"keep_going": True}, "--keep-going"),
        ({"max_traces": 9}, "--max-traces 9"),
        ({"target_consistency": 0.95}, "--target-consistency 0.95"),
        ({"price": TokenPrice(0.15, 0.6)}, "--price in=0.15,out=0.6"),
        ({"sampling": Sampling(temperature=0.6, max_tokens=99)}, "--max-tokens 99 --temperature 0.6"),
        ({"sampling": Sampling(stop=("Q:", "the end"))}, "--stop Q: --stop 'the end'"),
        ({"sampling": Sampling(extra_body={"top_a": 1})}, """--extra-body '{"top_a": 1}'"""),
        ({"sampling": Sampling(window=64)}, "--confidence-window 64"),
    ],
)
def test_every_option_of_the_run_is_told(tmp_path, options, words):
    assert f" {words} " in commands(tmp_path, RunSpec.of(budget="6x", **options))[0]


def test_the_price_of_a_batch_job_is_not_halved_again(tmp_path):
    spec = batched(RunSpec.of(budget="6x", batch_api=True), "gpt-4o-mini")
    (word,) = re.findall(r"--price (\S+)", commands(tmp_path, spec)[0])
    assert TokenPrice.parse(word).in_batches() == spec.spending.price


@pytest.mark.parametrize(
    ("budget", "more", "words"),
    [("6x", "+4", "10"), ("90ktok", "+10ktok", "100000tok"), ("1.5usd", "+0.25usd", "1.750000000usd")],
)
def test_a_run_that_was_rebudgeted_has_its_whole_budget(tmp_path, budget, more, words):
    spec = RunSpec.of(budget=budget, price=TokenPrice(1.0, 1.0), sampling=Sampling(max_tokens=9))
    settings = rebudgeted(run_record(spec, PROBLEMS, Sources(endpoints=[SERVER], model="m"), stored=True), more, 1, 0)
    with Store.open(tmp_path / "runs.db") as store, store.create(settings, PROBLEMS) as run:
        anew = commands_of(store.view(run.id), 1).splitlines()[0]
    assert f" --budget {words} " in anew
    assert total_of(Amount.parse(words), 1) == settings.total


@pytest.mark.parametrize(("model", "ray"), [("Qwen/Qwen3-8B", " --ray"), ("./mine.gguf", ""), ("", "")])
def test_a_model_without_a_server_or_a_file_is_ray_s_to_host(tmp_path, model, ray):
    anew, on, _ = commands(tmp_path, RunSpec.of(budget="6x"), model=model, endpoints=())
    assert f" --seed 0{ray} --new " in anew and on.startswith("pets resume 1 ") and on.endswith(ray)


def test_a_stream_is_gone_on_with_by_its_own_verb(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = RunSpec.of(policy="price", budget="4x", budget_window=10)
    settings = stream_record(spec, Budget.per_window(10, 40), Sources())
    with Store.open("runs.db") as store, store.create(settings, PROBLEMS) as run:
        on, report = commands_of(store.view(run.id), 1).splitlines()
    assert on == "pets resume 1 < QUESTIONS" and report == "pets report 1"


def test_each_model_of_a_mixture_has_its_weight(tmp_path):
    spec = RunSpec.of(budget="6x", models=(ModelShare("a", 2), ModelShare("b")))
    ends = ["a=http://127.0.0.1:1/v1", "b=http://127.0.0.1:2/v1"]
    anew = commands(tmp_path, spec, model="a=2, b", endpoints=ends)[0]
    assert f"--endpoint {ends[0]} --endpoint {ends[1]} --model a=2 --model b=1" in anew


def test_a_named_set_is_asked_by_name_with_its_own_sampling(tmp_path):
    spec = RunSpec.of(budget="6x", sampling=question_set("starter").sampling)
    anew = commands(tmp_path, spec, name="starter")[0]
    assert anew.startswith("pets solve starter --first 1 --budget 6x") and "--max-tokens" not in anew
    warmer = spec.with_options(sampling=replace(spec.sampling, temperature=1.0))
    assert "--temperature 1 " in commands(tmp_path, warmer, name="starter", path="other.db")[0]
