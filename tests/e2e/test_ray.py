"""``pets.samplers.ray`` and ``pets replay --ray`` on a real Ray cluster of several nodes, some of them killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import zlib

import numpy as np
import pytest

from pets.cluster import RayCluster
from pets.engine import Engine
from pets.errors import InputError, UnreachableError
from pets.lab import replay
from pets.pools import Pool, PooledQuestion
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.samplers.local import LocalSampler
from pets.samplers.ray import ActorSize, start_actors
from pets.store import Store

from ..waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROBLEMS = [Problem(f"q{place}", Prompt.chat(f"Question {place}"), "choice:options=4") for place in range(12)]


class Model(Sampler):
    """A model in a process: the seed decides a trace. While ``folder`` has no file "open", it holds them back."""

    def __init__(self, folder=None):
        self.folder = folder

    async def sample(self, prompt, n, seed, sampling):
        if self.folder is not None:
            while not (self.folder / "open").exists():
                (self.folder / f"waiting-{os.getpid()}").touch()
                await asyncio.sleep(0.01)
        return [Completion(self.text(prompt, own), "stop", 7, 5) for own in range(seed, seed + n)]

    @staticmethod
    def text(prompt, seed):
        return f"The answer is {'AAABBCD'[zlib.crc32(f'{prompt.content}{seed}'.encode()) % 7]}."


@pytest.fixture(scope="module")
def nodes():
    """A Ray cluster: a head that takes no work, and ``nodes.add_node(num_cpus=1)`` for nodes that do."""
    from ray import cluster_utils

    handler = signal.getsignal(signal.SIGTERM)  # Ray takes it
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield cluster
    cluster.shutdown()
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def two(nodes):
    """Two nodes of a core each that are alive, those of the test before where they are."""
    workers = [node for node in nodes.list_all_nodes() if node is not nodes.head_node]
    workers += [nodes.add_node(num_cpus=1) for _ in range(2 - len(workers))]
    nodes.wait_for_nodes()
    return workers


@pytest.fixture
def cluster(nodes, two):
    """A connection to the cluster; what this file defines travels with it."""
    from ray import cloudpickle

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    with RayCluster(nodes.address) as connection:
        yield connection
    cloudpickle.unregister_pickle_by_value(module)


def actors(cluster, folder=None):
    return start_actors(cluster, lambda: Model(folder), ActorSize(1), source="made up")


def watched(sampler, losses):
    """The sampler, which adds to ``losses`` when its actor is lost."""
    sample = sampler.sample

    async def own(*arguments):
        try:
            return await sample(*arguments)
        except UnreachableError as error:
            losses.append(error)
            raise

    sampler.sample = own
    return sampler


async def answered(sampler, store=None, **options):
    """The answers of a run, each question's with its votes in their order, and what was spent."""
    async with Engine(PROBLEMS, sampler=sampler, store=store, model="made up", **options) as engine:
        solution = await engine.run()
        assert (solution.failed, solution.lost) == (0, 0)
        return [(one.id, one.answer, one.votes, one.traces) for one in engine.answers()], solution.spent


@pytest.mark.parametrize(
    "options",
    [{"policy": "okg", "concurrency": 1}, {"policy": "uniform", "concurrency": 16}],
    ids=["okg, one at a time", "uniform, 16 in flight"],
)
def test_actors_answer_as_one_process_does_for_the_same_seed_and_launch_order(cluster, options):
    options |= {"budget": "6x", "seed": 3}
    samplers = actors(cluster)
    assert len(samplers) == 2
    assert asyncio.run(answered(samplers, **options)) == asyncio.run(answered(Model(), **options))


def test_a_run_survives_the_loss_of_a_node_with_its_budget_exact(cluster, nodes, two, tmp_path, capfd):
    options = {"policy": "uniform", "budget": "6x", "seed": 3, "concurrency": 16}

    async def run():
        losses = []
        samplers = [watched(sampler, losses) for sampler in actors(cluster, tmp_path)]
        run = asyncio.ensure_future(answered(samplers, store=tmp_path / "runs.db", **options))
        await until(lambda: len(list(tmp_path.glob("waiting-*"))) == 2, run)  # both have traces in flight
        nodes.remove_node(two[0], allow_graceful=False)
        await until(lambda: losses, run)  # its process outlives the node by a moment, and must not answer in it
        (tmp_path / "open").touch()
        return await run

    rows, spent = asyncio.run(run())
    assert capfd.readouterr().out == ""  # Ray has much to say of a lost node; stdout is for answers
    assert (rows, spent) == asyncio.run(answered(Model(), **options))
    assert spent == 6 * len(PROBLEMS)
    with Store.open(tmp_path / "runs.db") as store, store.open_run(1) as stored:
        traces = [(trace.question, trace.number) for trace in stored.traces()]
        assert len(traces) == len(set(traces)) == spent  # each launch once: what was lost is neither charged nor kept
        assert list(stored.lost()) == []
        assert stored.load("faults").get("unreachable", 0) > 0  # the node did have traces


def test_a_lost_actor_is_started_again_where_there_is_room(cluster, nodes, two, tmp_path):
    async def ask(sampler):
        try:
            return await sampler.sample(PROBLEMS[0].prompt, 2, 70, Sampling())
        except UnreachableError:
            return None

    async def run():
        samplers = actors(cluster, tmp_path)
        asked = [asyncio.ensure_future(ask(sampler)) for sampler in samplers]
        await until(lambda: len(list(tmp_path.glob("waiting-*"))) == 2)
        nodes.remove_node(two[0], allow_graceful=False)
        await until(lambda: any(one.done() for one in asked))
        (tmp_path / "open").touch()
        first = await asyncio.gather(*asked)
        assert first.count(None) == 1
        nodes.add_node(num_cpus=1)
        lost = samplers[first.index(None)]
        again = None
        while again is None:  # the test's timeout ends what never comes
            again = await ask(lost)
        assert again in first

    asyncio.run(run())


def test_more_actors_than_fit_are_refused(cluster):
    with pytest.raises(InputError, match="has room for 2 actors of 1 CPU each; wanted: 3"):
        start_actors(cluster, Model, ActorSize(1), 3, source="made up")


def test_a_replay_on_a_cluster_is_the_same_to_the_last_bit(cluster):
    rng = np.random.default_rng(5)
    pool = Pool("toy", tuple(PooledQuestion(f"q{i}", tuple(rng.choice(list("AAB"), 16))) for i in range(6)))
    settings = {"repetitions": 5, "size": 8, "seed": 7}
    here, there = (replay([pool], ["uniform", "okg", "asc"], cluster=where, **settings)[0] for where in (None, cluster))
    for mine, its in zip(here.results, there.results, strict=True):
        for name in ("spent", "agree", "good", "judged", "ceiling"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(its, name))
        assert mine.policy == its.policy


def pets(*arguments):
    command = [sys.executable, "-m", "pets", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


def test_a_local_model_in_an_actor_gives_the_traces_of_one_here(cluster, weights, tmp_path):
    settings = {"slots": 2, "context": 512, "threads": 1}
    sampling = Sampling(max_tokens=8, top_logprobs=3, window=4)

    async def traces(sampler):
        async with sampler:
            assert await sampler.max_model_len() == 512
            return await sampler.sample(Prompt("2 + 2 ="), 2, 7, sampling)

    (sampler,) = start_actors(cluster, lambda: LocalSampler(**settings), ActorSize(1), 1, source="SmolLM2")
    there, here = asyncio.run(traces(sampler)), asyncio.run(traces(LocalSampler(**settings)))
    assert [(one.text, one.tokens, one.confidence) for one in there] == [
        (one.text, one.tokens, one.confidence) for one in here
    ]
    assert here[0].alternatives and not there[0].alternatives  # log-probabilities do not travel


def test_solve_writes_answers_alone_to_stdout_and_its_run_goes_on_with_or_without_ray(nodes, two, weights, tmp_path):
    store, model = ("--store", tmp_path / "runs.db"), ("--local", "context=512")
    solve = ("solve", "starter", "--first", 2, "--budget", "2x", "--max-tokens", 64, "--keep-going", *store, *model)
    ray = ("--ray", f"{nodes.address},actors=1")
    first, again, resumed = pets(*solve, *ray), pets(*solve), pets("resume", "last", *store, *model, *ray)
    assert first.returncode == 0, first.stderr
    assert "Ray: 1 actor with llama.cpp, 1 CPU each." in first.stderr
    assert len([json.loads(line) for line in first.stdout.splitlines()]) == 2
    assert "Run 1 of" in again.stderr and "is finished" in again.stderr
    assert first.stdout == again.stdout == resumed.stdout, resumed.stderr


def test_replay_prints_the_same_table_on_a_cluster(nodes, two):
    replayed = ("replay", "starter", "--policy", "uniform", "--repetitions", 2, "--pool-size", 4, "--format", "csv")
    spread, here = pets(*replayed, "--workers", f"ray:{nodes.address}"), pets(*replayed, "--workers", 1)
    assert (spread.returncode, spread.stdout) == (0, here.stdout), spread.stderr
