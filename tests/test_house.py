"""Rules of the house that no linter knows: one name is one thing, and tests mirror the modules."""

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from subprocess import PIPE

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pets"
TESTS = Path(__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")

WITHOUT_A_TEST_FILE = {
    "__main__.py": "one call of cli/main.py",
    "_version.py": "one constant: test_public_names.py reads it",
    "answers/_comparison_worker.py": "the child of answers/comparison.py: test_comparison.py runs it",
    "answers/phrases.py": "data: test_final.py and the tables read it",
    "samplers/_llama.py": "the child of samplers/local.py: test_local.py and test_local_process.py run it",
}
"""Modules without a test file of their own, and why: ``"cli/_run.py": "run by every verb's tests"``."""


@cache
def tree(path):
    return ast.parse(path.read_text("utf-8"))


def test_no_public_class_name_is_defined_twice():
    homes = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(SOURCE)))
    assert len(homes) > 100
    assert {name: sorted(paths) for name, paths in homes.items() if len(paths) > 1} == {}


MOST_ATTRIBUTES = defaultdict(lambda: 16, {"Driver": 10, "Engine": 12})
MOST_PARAMETERS = 12


def is_plain_data(node):
    """Whether a class is a dataclass, a group of options or a named tuple: its fields are its constructor's."""
    heads = [ast.unparse(head) for head in (*node.decorator_list, *node.bases)]
    return any(word in head for head in heads for word in ("dataclass", "option_group", "NamedTuple", "TypedDict"))


def attributes(node):
    """The attributes of itself that a class assigns in its methods."""
    assigned = (
        target
        for part in ast.walk(node)
        if isinstance(part, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for whole in (part.targets if isinstance(part, ast.Assign) else [part.target])
        for target in ast.walk(whole)
    )
    return {name.attr for name in assigned if isinstance(name, ast.Attribute) and ast.unparse(name.value) == "self"}


def parameters(node):
    """The parameters of a class's own constructor, but for itself."""
    init = next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
    if init is None:
        return []
    arguments = init.args
    return [*arguments.args[1:], *arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]


def test_no_class_does_everything():
    classes = [
        node
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and not is_plain_data(node)
    ]
    assert len(classes) > 100 and "sources" in attributes(next(node for node in classes if node.name == "LiveRun"))
    sizes = {node.name: (len(attributes(node)), len(parameters(node))) for node in classes}
    large = {name: (a, p) for name, (a, p) in sizes.items() if a > MOST_ATTRIBUTES[name] or p > MOST_PARAMETERS}
    assert large == {}, "attributes and constructor parameters: split the class"


def test_a_run_imports_few_of_its_neighbours():
    imported = {
        node.module
        for node in ast.walk(tree(SOURCE / "engine" / "run.py"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pets")
    }
    assert 0 < len(imported) <= 18


def mirror(path):
    """The test file of a module: ``tests/core/test_tally.py`` of ``core/tally.py``, ``test_run.py`` of ``_run.py``."""
    return TESTS / path.parent.relative_to(SOURCE) / f"test_{path.stem.lstrip('_')}.py"


def test_every_module_has_its_test_file_or_a_reason():
    names = {str(path.relative_to(SOURCE)) for path in MODULES if not mirror(path).exists()}
    assert sorted(names - WITHOUT_A_TEST_FILE.keys()) == [], "write the test file, or say why there is none"
    assert sorted(WITHOUT_A_TEST_FILE.keys() - names) == [], "these have a test file, or are gone"
    assert all(WITHOUT_A_TEST_FILE.values())


def test_the_tree_of_contributing_has_a_line_for_every_module_that_it_should():
    """Of the top, ``core/`` and ``engine/`` every file, of the rest the folder; and nothing that is gone."""
    drawn = (TESTS.parent / "CONTRIBUTING.md").read_text("utf-8").split("    src/pets/\n")[1].split("    tests/")[0]
    folder, found = SOURCE, set()
    for line in drawn.splitlines():
        names, words = re.fullmatch(r" +([\w/]+(?:\.py)?(?:, [\w/]+\.py)*) +(.+)", line).groups()
        assert not words.endswith((" for", " of", " and", ","))
        folder = folder if line.startswith(" " * 8) else SOURCE
        found |= {folder / name for name in names.split(", ")}
        folder = SOURCE / names if names in ("core/", "engine/") else folder
    listed = [path for home in (SOURCE, SOURCE / "core", SOURCE / "engine") for path in home.iterdir()]
    wanted = {path for path in listed if path.is_dir() or path.suffix == ".py" if not path.name.startswith("_")}
    assert found == wanted


WRITERS = {
    "cli/_terminal.py": "the one way to a terminal, which shows what would steer it",
    "cli/serve.py": "the gateway's log: lines of JSON in ASCII",
    "engine/progress_line.py": "words for programs in Python, none of them of a file or a server",
    "answers/_comparison_worker.py": "a pipe to the parent",
    "samplers/_llama.py": "a pipe to the parent",
}
"""Modules that write to stdout or stderr themselves, and why."""


def test_words_and_data_go_to_a_terminal_by_one_way():
    """``pets.cli._terminal.echo``: text of files and servers never steers a terminal."""
    calls, found = ("print", "Console", "click.echo", "click.secho", "click.echo_via_pager"), set()
    streams = {"sys.stdout", "sys.stderr", "sys.stdout.buffer", "sys.stderr.buffer"}
    for path in SOURCE.rglob("*.py"):
        for call in ast.walk(tree(path)):
            if isinstance(call, ast.Call):
                name, handed = ast.unparse(call.func), {ast.unparse(value) for value in call.args}
                writes = name.startswith(("sys.stdout.", "sys.stderr.")) and not name.endswith(".isatty")
                if name in calls or writes or streams & handed:
                    found.add(str(path.relative_to(SOURCE)))
    assert sorted(found - WRITERS.keys()) == [], "use echo of cli/_terminal.py"
    assert sorted(WRITERS.keys() - found) == []


def imported(path):
    """The modules that a module imports."""
    nodes = list(ast.walk(tree(path)))
    names = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return names | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}


def test_what_comes_from_a_model_a_server_or_a_client_is_matched_in_linear_time():
    """By :mod:`pets.patterns`, or by hand: Python's ``re`` tries all ways, and there may be 2 to the text's length."""
    homes = ("answers", "openai", "gateway", "prompts.py")
    readers = [path for path in MODULES if path.relative_to(SOURCE).parts[0] in homes]
    assert len(readers) > 40
    assert [path for path in readers if imported(path) & {"re", "regex", "sre_compile", "fnmatch"}] == []


PUBLIC_ALL_THE_SAME = {"_exit", "_asdict", "_fields", "_replace"}  # of os and of named tuples


def private_names(source):
    """What a test reaches for behind a module's or an object's public face; a private module may be tested by its name.

    >>> private_names("from pets.store import _old, Store; store._rows; self._x; patch.setattr(store, '_rows', 1)")
    ['_old', '_rows', '_rows']
    """
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            names.append(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("getattr", "setattr", "delattr")):
            texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
            names += [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
        elif isinstance(node, ast.ImportFrom):
            folder = SOURCE.joinpath(*(node.module or "").split(".")[1:])
            names += [name.name for name in node.names if not (folder / f"{name.name}.py").exists()]
    return sorted(name for name in names if name.startswith("_") and not name.startswith("__"))


def test_tests_reach_into_nothing_private():
    found = {str(path): private_names(path.read_text("utf-8")) for path in TESTS.rglob("*.py")}
    assert {path: names for path, names in found.items() if set(names) - PUBLIC_ALL_THE_SAME} == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_process_collects_the_same_tests():
    """Else xdist gives up: no time, no object's address and no order of a set in what a test is parametrized with."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-p", "no:xdist"]
    first, second = (
        subprocess.run(command, cwd=TESTS.parent, env=os.environ | {"PYTHONHASHSEED": seed}, stdout=PIPE, check=False)
        for seed in ("1", "77")
    )
    ids = [line for line in first.stdout.splitlines() if b"::" in line]
    assert len(ids) > 1000, first.stdout[-1000:]
    assert ids == [line for line in second.stdout.splitlines() if b"::" in line]
