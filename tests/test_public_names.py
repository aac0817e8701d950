"""What ``import pets`` promises; adding or removing a name is a decision, not an accident."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pets
from pets import errors

NAMES = [
    "Allocator",
    "Amount",
    "Answer",
    "AnswerType",
    "Budget",
    "BudgetError",
    "BusyError",
    "Completion",
    "Consistency",
    "Currency",
    "CurvesPlot",
    "Engine",
    "FirstTracesError",
    "IndexPolicy",
    "InputError",
    "JobError",
    "JobLeftError",
    "Launch",
    "LocalModelError",
    "OpenAISampler",
    "PetsError",
    "Policy",
    "Pool",
    "PoolError",
    "PoolResult",
    "PooledQuestion",
    "Problem",
    "Prompt",
    "Question",
    "QuotaPolicy",
    "RefusedError",
    "ReplayConfig",
    "ReplayResults",
    "ReplyError",
    "Result",
    "RunSpec",
    "Sampler",
    "SamplerError",
    "Sampling",
    "Solution",
    "SpecError",
    "StateError",
    "StreamPlan",
    "Tally",
    "TokenPrice",
    "Trace",
    "UnreachableError",
    "Verdict",
    "View",
    "Voter",
    "__version__",
    "aask",
    "ask",
    "fit",
    "make_answer_type",
    "make_policy",
    "make_sampler",
    "read_plan",
    "read_pool",
    "record",
    "replay",
    "reread",
    "solve",
    "stream",
    "write_plan",
    "write_pool",
]


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_public_names_are_pinned():
    assert pets.__all__ == NAMES
    assert all(hasattr(pets, name) for name in NAMES)
    assert set(NAMES) <= set(dir(pets))


def test_type_checkers_see_the_names_that_python_finds():
    tree = ast.parse(Path(pets.__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    assert {name.asname: node.module for node in imports for name in node.names} == pets.HOME_OF


def test_every_error_is_public():
    assert {name for name in vars(errors) if name.endswith("Error")} <= set(NAMES)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'pets' has no attribute 'solv'"):
        pets.solv  # noqa: B018


def test_the_version_is_there_at_once_and_the_distribution_takes_it():
    assert python("import pets; print(pets.__version__)") == pets.__version__
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/pets/_version.py"


def test_importing_pets_brings_neither_numpy_nor_an_http_client():
    heavy = "{'numpy', 'scipy', 'aiohttp', 'click', 'rich'} & set(sys.modules)"
    assert python(f"import sys, pets; print({heavy})") == "set()"
    assert python("import pets; print(pets.Question('q1').id, 'Engine' in dir(pets))") == "q1 True"
