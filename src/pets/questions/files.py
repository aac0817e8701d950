"""Files of questions: JSONL, one object a line; or JSON, CSV, TSV, Parquet.

``{"id", "prompt", "answer": "number", "gold"?, "level"?, "options"?}``, where the prompt is a text that the model goes
on with, or a list of chat messages ``{"role", "content"}``; ``"question"`` instead of ``"prompt"`` is asked as a chat.
Other names are mapped: ``fields={"question": "problem", "gold": "answer"}``.
"""

import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from pets.errors import InputError, PetsError
from pets.questions.fields import problem_from, renamed
from pets.questions.problem import Problem, QuestionSet
from pets.questions.rows import SUFFIXES, read_rows
from pets.samplers.base import Sampling

__all__ = ["read_questions", "stream_questions", "write_questions"]


def read_questions(
    path: Path, sampling: Sampling | None = None, *, fields: Mapping[str, str] | None = None, answer: str = "text"
) -> QuestionSet:
    """The questions of a file; the first bad line raises, with its number.

    ``fields`` says under which name the file holds what, ``answer`` how a question is read that does not say so.
    """
    name = next((path.name[: -len(end)] for end in SUFFIXES if path.name.lower().endswith(end)), path.stem)
    with _uncollected():
        problems = tuple(stream_questions(path, fields=fields, answer=answer))
    return QuestionSet(name or path.name, problems, sampling or Sampling())


def stream_questions(path: Path, *, fields: Mapping[str, str] | None = None, answer: str = "text") -> Iterator[Problem]:
    """The same, one by one."""
    fields = fields or {}
    missing = set(fields.values())
    seen: dict[str, str] = {}
    for number, (place, record) in enumerate(read_rows(path), 1):
        if missing:
            missing -= record.keys()
        try:
            problem = problem_from(renamed(record, fields), number, answer)
            if problem.id in seen:
                raise InputError(f'"id" is {problem.id!r}, as on {seen[problem.id]}; ids are unique.')
        except PetsError as error:
            raise InputError(f'questions "{path.name}" {place}: {error}') from None
        seen[problem.id] = place
        yield problem
    if not seen:
        raise InputError(f'questions "{path.name}": the file holds no question. Write one a line.')
    if missing:  # a gold here and there may be missing, a name that no line has is a slip
        raise InputError(f'questions "{path.name}": no question has a field "{min(missing)}". Check --field.')


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cycle collector: questions make no cycles, and it would look at all of a million again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def write_questions(problems: Iterable[Problem], file: TextIO) -> None:
    """One line of JSON a question, as :func:`read_questions` wants it."""
    for problem in problems:
        content = problem.prompt.content
        prompt = content if isinstance(content, str) else [asdict(message) for message in content]
        record = {"id": problem.id, "prompt": prompt, "answer": problem.answer, "gold": problem.gold}
        extra = {"level": problem.level or None, "options": problem.options}
        told = {key: value for key, value in extra.items() if value is not None}
        file.write(json.dumps(record | told, ensure_ascii=False) + "\n")
