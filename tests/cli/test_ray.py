"""``--ray`` from the shell: what it refuses, in one line each; runs on a cluster: tests/e2e/test_ray.py."""

import pytest
from click.testing import CliRunner

from pets.cli import _ray
from pets.cli._ray import RayOptions
from pets.cli.main import cli
from pets.errors import PetsError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.samplers.local import LocalSampler
from pets.samplers.ray import ActorSize
from pets.samplers.vllm_engine import VllmSampler
from pets.store import RunRecord, Store

from ..command import pets

SOLVE = ("solve", "starter", "--budget", "4x", "--store", "none")


def refusal(*arguments):
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    assert isinstance(result.exception, PetsError), result.output
    return str(result.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ray", "--endpoint", "http://127.0.0.1:1/v1", "--model", "m"), "leave out --endpoint."),
        (("--ray", "--rpm", "5", "--header", "A: b"), "leave out --rpm, --header."),
        (("--ray", "--batch-api"), "leave out --batch-api."),
        (("--ray", "--dry-run"), "--dry-run starts no model: leave --ray out."),
        (("--ray", "--model", "a.gguf", "--model", "b.gguf"), "--ray hosts one model; got a.gguf, b.gguf."),
        (("--ray", "actors=0"), "--ray is an address, actors=N and gpus=N"),
        (("--ray", "head:1,actor=2"), "--ray is an address, actors=N and gpus=N"),
        (("--ray", "--vllm-args", "{}x", "--model", "m"), '--vllm-args is a JSON object, such as {"gpu_memory'),
        (("--ray", "--vllm-args", '{"dtype": "half"}', "--model", "a.gguf"), "run by llama.cpp: leave them out."),
        (("--ray", "--vllm-args", '{"model": "x"}', "--model", "m"), "--vllm-args cannot have model:"),
        (("--ray", "--vllm-args", '{"max_num_seqs": 4}', "--model", "m"), "--vllm-args cannot have max_num_seqs:"),
        (("--model", "a.gguf", "--ray", "there"), '"there" is no address of a Ray cluster.'),
    ],
)
def test_what_an_actor_cannot_serve_is_refused(options, message):
    assert message in refusal(*SOLVE, *options)


def test_questions_that_were_taken_for_the_address_are_missed():
    assert "put QUESTIONS before --ray" in refusal("solve", "--ray", "mine.jsonl")


def test_workers_are_a_number_or_those_of_a_cluster():
    for text in ("0", "many", "rays"):
        assert "is a number of processes, or ray[:ADDRESS]" in refusal("replay", "starter", "--workers", text)


def test_a_run_that_asks_servers_does_not_go_on_in_actors(tmp_path):
    settings = RunRecord(4, model="m", endpoints=("http://127.0.0.1:1/v1",))
    with Store.open(tmp_path / "runs.db") as store, store.create(settings, [Problem("q", Prompt("?"), "number")]):
        pass
    assert "this run asks servers" in refusal("resume", "last", "--store", tmp_path / "runs.db", "--ray")

    local = refusal("resume", "last", "--store", tmp_path / "runs.db", "--local", "slots=4")
    assert local == "run 1 goes on with its own settings: leave out --local."


@pytest.mark.parametrize("words", ["solve starter --model a.gguf --ray {}", "replay starter --workers ray:{}"])
def test_a_cluster_that_is_not_there_is_one_line_and_exit_2(words, port):
    result = pets(*words.format(f"127.0.0.1:{port}").split())
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"pets: nobody answers at 127.0.0.1:{port}") and result.stderr.count("\n") == 1


def test_without_an_address_that_of_the_environment_is_taken(monkeypatch, port):
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    assert f"nobody answers at 127.0.0.1:{port}" in refusal(*SOLVE, "--model", "a.gguf", "--ray")


def test_a_file_is_run_by_llama_cpp_and_a_name_by_vllm(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    make = _ray.sampler_maker("a.gguf", ["slots=3,context=64"], ActorSize(4), {})
    assert (make.func, make.args) == (LocalSampler, (tmp_path / "a.gguf",))  # also where actors run
    assert make.keywords == {"slots": 3, "context": 64, "threads": 4}
    make = _ray.sampler_maker("Qwen/Qwen3-8B", ["context=64"], ActorSize(1, 2), {"dtype": "half"})
    assert (make.func, make.args) == (VllmSampler, ("Qwen/Qwen3-8B",))
    assert make.keywords == {"slots": None, "context": 64, "gpus": 2, "settings": {"dtype": "half"}}


def test_every_actor_has_traces_in_flight():
    options = RayOptions()
    assert options.in_flight(None, 3) == options.in_flight("a.gguf", 3) == 48
    assert options.in_flight("Qwen/Qwen3-8B", 3) == 192
