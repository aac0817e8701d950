"""Functions of the user's own: loaded from the current folder, never trusted to come back."""

import sys
import threading
import uuid
from types import ModuleType

import pytest

from pets.answers import python
from pets.answers.python import Python
from pets.errors import SpecError
from pets.registry import make_answer_type, spec_of
from pets.testing import check_answer_type

SOURCE = """
import re

def read(text):
    numbers = re.findall(r"\\d+", text)
    if "boom" in text:
        raise ValueError("no luck")
    if "list" in text:
        return [1]
    return numbers[-1] if numbers else None

def near(first, second):
    return abs(int(first) - int(second)) <= 1

def broken(text):
    raise KeyError("x")

def number(text):
    return 42
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module in the current folder, another for each test: what was imported once is kept."""
    name = f"my_answers_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_a_function_of_the_current_folder_reads_answers(module, caplog):
    answer_type = make_answer_type(f"python:{module}:read")
    assert [answer_type.extract(text) for text in ("3 or 4", "none", "list", "boom")] == ["4", None, None, None]
    assert answer_type.extract("boom") is None
    assert [record.message for record in caplog.records] == [
        f"python:{module}:read: read raised ValueError: no luck; such traces cast no vote."
    ]
    assert make_answer_type(spec_of(answer_type)) == answer_type


def test_a_second_function_says_what_is_the_same(module):
    answer_type = make_answer_type(f"python:{module}:read:near")
    assert answer_type.merge(["3", "4", "9"]) == {"3": "3", "4": "3", "9": "9"}
    assert answer_type.same_at_once("3", "4") is None
    check_answer_type(answer_type, ["3", "4", "9", "it is 9", ""])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{module}", "named module:function"),
        ("{module}:", "named module:function"),
        ("no_such_module_here:read", "cannot be imported (ModuleNotFoundError"),
        ("{module}:nothing", "has no function or class 'nothing'"),
        ("{module}:broken", "broken('The answer is 42.') raised KeyError: 'x'"),
        ("{module}:number", "gave 42; an answer is a text, or None"),
    ],
)
def test_what_cannot_work_is_told_at_once(module, path, message):
    with pytest.raises(SpecError) as error:
        make_answer_type("python:" + path.format(module=module))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_function_that_does_not_come_back_is_left_alone(monkeypatch, caplog):
    monkeypatch.setattr(python, "CALL_SECONDS", 0.01)
    release, calls = threading.Event(), []

    def read(text):
        if "hang" in text:
            calls.append(text)
            release.wait(60)
        return "x"

    module = ModuleType(f"my_answers_{uuid.uuid4().hex}")
    module.read = read
    monkeypatch.setitem(sys.modules, module.__name__, module)
    answer_type = Python(f"{module.__name__}:read")
    assert [answer_type.extract("hang") for _ in range(5)] == [None] * 5
    assert len(calls) == 3 and len(caplog.records) == 1 and "took more than" in caplog.text
    release.set()


def test_nobody_but_the_operator_can_name_one():
    assert Python.operator_only and not Python.files_may_name
