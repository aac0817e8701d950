"""What a stopping rule does on a recorded path, asked one trace at a time."""

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.types import Question, Trace


@pytest.fixture(scope="session")
def draws():
    """A function: how many traces the policy draws from a path (its answers in launch order) before it stops."""

    def drawn(policy, path, confidences=None, cap=None):
        allocator = Allocator(policy, Budget(total=len(path), cap=cap), [Question("q")])
        while launches := allocator.ask(1):
            number = launches[0].number
            confidence = None if confidences is None else confidences[number]
            allocator.tell(Trace("q", number, path[number], confidence))
        assert allocator.stopped("q")
        return allocator.verdict("q").traces

    return drawn
