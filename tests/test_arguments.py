"""Wrong types at the front doors are told in one line, whichever argument has one."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

import numpy as np
import pytest

import pets
from pets.arguments import check_values, checked
from pets.engine.spec import RunOptions, RunSpec
from pets.errors import InputError
from pets.lab.config import ReplayConfig
from pets.pools import Pool, PooledQuestion
from pets.prompts import Sampling

from .engine.conftest import Scripted, asked

TOY = Pool("toy", (PooledQuestion("q1", ("A", "B", "A", "A")), PooledQuestion("q2", ("B",) * 4)))
WRONG = object()


def solve(**arguments):
    own = {"questions": asked(["q"]), "sampler": Scripted(), "budget": 2, "store": None, "progress": False}
    return pets.solve(**own | arguments)


def ask(**arguments):
    return pets.ask(**{"question": asked(["q"])[0], "sampler": Scripted(), "budget": 2} | arguments)


def stream(**arguments):
    return pets.stream(**{"questions": asked(["q"]), "sampler": Scripted()} | arguments)


def record(**arguments):
    return pets.record(**{"questions": asked(["q"]), "sampler": Scripted(), "output": "never.jsonl"} | arguments)


def fit(**arguments):
    return pets.fit(**{"pool": TOY, "policy": "price:rounds=1"} | arguments)


def engine(**arguments):
    return pets.Engine(**{"questions": asked(["q"]), "sampler": Scripted()} | arguments)


def replay(**arguments):
    return pets.replay(**{"pools": [TOY], "policies": ["uniform"], "repetitions": 1} | arguments)


def resume(**arguments):
    return pets.Engine.resume(**{"store": "x.db"} | arguments)


def read_pool(**arguments):
    return pets.read_pool(**{"path": "x.jsonl"} | arguments)


def parameters(function):
    """Its arguments that have a type, without those that any value fits."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    every = inspect.signature(function).parameters.values()
    return [p.name for p in every if p.kind not in kinds and p.name not in ("self", "cls")]


DOORS = [
    *((solve, name) for name in [*parameters(pets.solve), *RunOptions.__annotations__]),
    *((ask, name) for name in parameters(pets.ask)),
    *((stream, name) for name in parameters(pets.stream)),
    *((record, name) for name in parameters(pets.record)),
    *((fit, name) for name in parameters(pets.fit) if name != "pool"),
    *((engine, name) for name in [*parameters(pets.Engine), *RunOptions.__annotations__]),
    *((resume, name) for name in parameters(pets.Engine.resume)),
    *((replay, name) for name in [*parameters(pets.replay)[1:], *(field.name for field in fields(ReplayConfig))]),
    *((read_pool, name) for name in parameters(pets.read_pool)),
    *((make, "spec") for make in (pets.make_policy, pets.make_answer_type, pets.make_sampler)),
    *((Sampling, field.name) for field in fields(Sampling)),
    *((RunSpec, field.name) for field in fields(RunSpec)),
]


@pytest.mark.parametrize(("door", "name"), DOORS, ids=[f"{place}-{name}" for place, (_, name) in enumerate(DOORS)])
def test_a_wrong_type_at_a_front_door_is_told_with_the_arguments_name(door, name):
    with pytest.raises(InputError, match=rf"{name} is <object .*; expected "):
        door(**{name: WRONG})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: solve(sampler=3), "sampler is 3; expected a text, Sampler, a function, "),
        (lambda: pets.replay(5, "okg"), "5 is no pool; expected a file, a folder, a Pool, a table "),
        (lambda: pets.replay([TOY, 5], "okg"), "5 is no pool; expected"),
        (lambda: pets.fit(WRONG), "is no pool; expected"),
        (lambda: pets.fit([TOY, TOY]), "a plan is fitted to one pool; got 2: toy, toy"),
        (lambda: replay(repetition=3), "no setting 'repetition'. Settings of a replay: repetitions, "),
        (lambda: solve(questions=[5]), "question 1 is 5; expected a text, a Problem, or a record"),
        (lambda: solve(questions=5), "questions is 5; expected"),
        (lambda: solve(models=["a"]), "there is no option 'models'"),
        (lambda: solve(sampler=[Scripted(), 5]), "sampler is .*; expected"),
        (lambda: solve(policy=pets.make_policy), "policy is <function .*; expected a text or Policy"),
    ],
)
def test_what_users_tried_is_an_input_error(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_a_mistyped_option_gets_the_name_that_comes_closest_or_all_that_there_are():
    with pytest.raises(InputError, match=r"there is no option 'budjet'; did you mean budget\?"):
        solve(budjet=3)
    with pytest.raises(InputError, match="there is no option 'xyz'; options are ") as error:
        solve(xyz=3)
    listed = str(error.value).partition("options are ")[2].rstrip(".").split(", ")
    assert listed == sorted(RunOptions.__annotations__) and "models" not in listed and "headers" not in listed


def test_one_policy_may_stand_alone():
    alone, several = replay(policies="okg"), replay(policies=["okg"])
    assert alone[0].result("okg").traces.tolist() == several[0].result("okg").traces.tolist()
    assert replay(policies=pets.make_policy("uniform"))[0].results


FITTING = [
    (3, int), (np.int64(3), int), (3, float), (np.float64(0.5), float), (None, int | None), ("b", Literal["a", "b"]),
    ((), tuple[str, ...]), (("a",), tuple[str, ...]), (["a", None], Sequence[str | None]),
    ({"a": [1]}, Mapping[str, Any]), ((x for x in "ab"), Iterable[str]), (print, Callable[[int], None]),
    ("a", str | Sequence[str]), (WRONG, Any),
]  # fmt: skip
REFUSED = [
    ("3", int), (0.5, int), ("0.5", float), (None, int), ("a", Literal["b"]), (["a"], tuple[str, ...]),
    (("a", 1), tuple[str, ...]), ("ab", Sequence[str]), ([1], Sequence[str]), ({"a": 1}, Mapping[str, str]),
    ({1: "a"}, Mapping[str, str]), (3, Iterable[str]), ("print", Callable[[int], None]), (3, str | Sequence[str]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "hint"), FITTING)
def test_what_an_annotation_says_is_taken(value, hint):
    check_values({"value": hint}, {"value": value, "other": WRONG})


@pytest.mark.parametrize(("value", "hint"), REFUSED)
def test_what_an_annotation_does_not_say_is_refused(value, hint):
    with pytest.raises(InputError, match=r"^value is .*; expected .*\.$"):
        check_values({"value": hint}, {"value": value})


def test_a_long_value_is_shown_in_part_and_a_missing_argument_is_pythons_own_error():
    @checked
    def length(text: str, *more: int) -> int:
        return len(text) + len(more)

    assert length("ab", 1, 2) == 4
    with pytest.raises(InputError, match=r"^text is \[0, 1.{50,60}\.\.\.; expected a text\.$"):
        length(list(range(1000)))
    with pytest.raises(TypeError, match="missing a required argument"):
        length()
