"""From what a model said to the vote that is cast.

A trace keeps its own canonical *form*; the allocator is told the *label* of the form's class. For most answer types
both are the same string. Where forms can turn out to be one answer later (``1/2`` and a formula that comes to it), a
question's classes grow as traces come back; a merge of two classes that both had votes is kept until the allocator
has been told of it (:meth:`Reader.joined`).
"""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from pets.answers.base import AnswerType, Classes
from pets.questions import Problem
from pets.registry import make_answer_type
from pets.samplers import Completion

__all__ = ["Reader", "answer_type", "form_of", "merges", "options_of"]

answer_type = lru_cache(maxsize=1024)(make_answer_type)


def merges(kind: AnswerType) -> bool:
    """Whether two different canonical forms can be one answer."""
    return type(kind).same is not AnswerType.same


def options_of(problem: Problem, spec: str) -> int | None:
    """The size of a closed answer set, where the question or its answer type declares one."""
    declared: int | None = getattr(answer_type(spec), "options", None)
    return problem.options or declared


class Reader:
    """Reads answers; ``override`` is an answer type for all questions instead of their own."""

    def __init__(self, problems: Sequence[Problem], override: str | None = None) -> None:
        self._problems, self._override = problems, override
        self._classes: dict[int, Classes] = {}
        self._joined: dict[int, list[tuple[str, str]]] = {}
        self._thread: ThreadPoolExecutor | None = None  # comparing formulas takes its time

    def kind(self, number: int) -> AnswerType:
        """The answer type of a question."""
        return answer_type(self._override or self._problems[number].answer)

    async def read(self, number: int, completions: Sequence[Completion]) -> list[tuple[str | None, str | None]]:
        """Form and label of each trace of question ``number``; a trace cut at its limit gave no answer."""
        kind = self.kind(number)
        if not merges(kind):
            forms = [form_of(kind, one) for one in completions]
            return [(form, form) for form in forms]
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "pets-answers")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._slowly, number, completions)

    def label(self, number: int, form: str) -> str:
        """The name of a form's class, as far as it is known by now."""
        kind = self.kind(number)
        if not merges(kind):
            return form
        classes = self._classes.setdefault(number, kind.classes())
        if late := [(name, into) for name, into in classes.add(form) if name != form]:
            # A new list, since this may be the reading thread's: told twice, a merge does no harm, lost it would.
            self._joined[number] = [*self._joined.get(number, ()), *late]
        return classes.find(form)

    def joined(self, number: int) -> list[tuple[str, str]]:
        """Names of classes that have become one since the last call, as ``(absorbed, into)``."""
        return self._joined.pop(number, []) if self._joined else []

    def know(self, number: int, forms: Iterable[str]) -> dict[str, str]:
        """Forms of an earlier run, in launch order, each with the name of its class; later ones will join them."""
        listed = list(forms)
        for form in listed:
            self.label(number, form)
        self.joined(number)  # nobody has been told their names yet
        return {form: self.label(number, form) for form in listed}

    def names(self, number: int, forms: Iterable[str]) -> dict[str, str]:
        """Each form, given in launch order, with the first launched one of its class."""
        kind = self.kind(number)
        listed = list(forms)
        return kind.merge(listed) if merges(kind) else {form: form for form in listed}

    def close(self) -> None:
        """Give back what was needed to read; the classes stay."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _slowly(self, number: int, completions: Sequence[Completion]) -> list[tuple[str | None, str | None]]:
        forms = [form_of(self.kind(number), one) for one in completions]
        return [(form, None if form is None else self.label(number, form)) for form in forms]


def form_of(kind: AnswerType, completion: Completion) -> str | None:
    """The canonical answer of a trace that came to its end."""
    return None if completion.finish == "length" else kind.extract(completion.text)
