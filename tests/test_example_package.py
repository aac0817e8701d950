"""A package of somebody else's, really installed: its policy, answer type and sampler work wherever ours do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "fixtures" / "example_package"
CONFORM = """
from pets.testing import check_answer_type, check_policy, check_sampler
from pets_example import ClosestRace, Colour, Dice
check_policy(ClosestRace()); check_answer_type(Colour(), ["red", "#00ff00", "Blue.", "none of them"])
check_sampler(Dice())
"""
SOLVE = """
import json, pets
parts = {"sampler": "dice:sides=2", "policy": "closest_race:first=3", "answer": "number"}
solution = pets.solve(["a throw?", "another?"], budget=12, store=None, **parts)
print(json.dumps([sum(answer.votes.values()) for answer in solution.answers]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Python with the package installed by pip, in a folder of its own."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    install = [sys.executable, "-m", "pip", "install", *offline, "--target", folder / "site", folder / "source"]
    subprocess.run(install, check=True, capture_output=True)
    path = os.pathsep.join(filter(None, [str(folder / "site"), os.environ.get("PYTHONPATH")]))

    def run(*words, text=None):
        environment = os.environ | {"PYTHONPATH": path}
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def pool(tmp_path):
    texts = ["I say #FF0000", "The answer is red", "It must be blue.", "no idea"] * 4
    path = tmp_path / "colours.jsonl"
    path.write_text("".join(json.dumps({"id": f"q{i}", "texts": texts, "gold": "red"}) + "\n" for i in range(4)))
    return path


def test_its_parts_pass_the_suites_that_ours_pass(python):
    done = python("-c", CONFORM)
    assert done.returncode == 0, done.stderr


def test_the_command_line_knows_its_policy_and_its_answer_type(python, pool):
    done = python("-m", "pets", "pools", "show", pool, "--answer", "colour", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["vote_accuracy"], row["pass_at_1"], row["no_answer"]) == (1.0, 0.5, 0.25)
    words = ("--answer", "colour", "--policy", "closest_race:first=3", "--policy", "uniform")
    done = python("-m", "pets", "replay", pool, *words, "--repetitions", 2, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "closest_race:first=3" in done.stdout


def test_a_slip_in_its_spec_is_one_line_that_lists_its_options(python, pool):
    done = python("-m", "pets", "replay", pool, "--answer", "colour", "--policy", "closest_race:fist=3")
    assert done.returncode == 2 and "Options of closest_race: first=2" in done.stderr
    assert "Traceback" not in done.stderr


def test_its_sampler_is_made_from_a_spec(python):
    done = python("-c", SOLVE)
    assert done.returncode == 0, done.stderr
    votes = json.loads(done.stdout)
    assert sum(votes) == 12 and min(votes) >= 3


def test_without_it_its_names_are_unknown(pool):
    command = [sys.executable, "-m", "pets", "replay", str(pool), "--policy", "closest_race"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "there is no policy 'closest_race'" in done.stderr
