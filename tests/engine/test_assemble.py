"""One assembly for every verb: nothing of a driver is made or assigned elsewhere."""

import ast
import re
from pathlib import Path

import pytest

import pets

SOURCE = Path(pets.__file__).parent
PARTS = {"driver", "settlement", "pacing", "stops", "arrivals", "questions", "reading", "submissions", "wiring"}
WORTH_PARSING = re.compile(rf"Driver\(|(?:{'|'.join(PARTS)})\s*\.\s*\w+\b[^\n]*=")


@pytest.fixture(scope="module")
def nodes():
    """Every call and assignment of the source, with the name of its file."""
    kinds = ast.Call | ast.Assign | ast.AugAssign
    sources = ((path.name, path.read_text()) for path in SOURCE.rglob("*.py"))
    trees = ((name, ast.parse(source)) for name, source in sources if WORTH_PARSING.search(source))
    return [(name, node) for name, tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]


def test_a_driver_is_made_by_the_assembly_alone(nodes):
    callers = {
        name
        for name, node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Driver"
    }
    assert callers == {"assemble.py"}


def test_nobody_assigns_to_a_part_of_a_driver_from_outside(nodes):
    assigned = [
        f"{name}:{node.lineno}"
        for name, node in nodes
        if isinstance(node, ast.Assign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and _name(target.value) in PARTS
    ]
    assert assigned == []


def _name(node):
    """The last name of ``a.b.c``."""
    return node.attr.lstrip("_") if isinstance(node, ast.Attribute) else getattr(node, "id", None)
