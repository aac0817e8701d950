"""Files of questions: JSONL, one object a line.

``{"id", "prompt", "answer": "number", "gold"?, "level"?, "options"?}``, where the prompt is a text that the model goes
on with, or a list of chat messages ``{"role", "content"}``; ``"question"`` instead of ``"prompt"`` is asked as a chat.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from pets.errors import InputError, PetsError
from pets.questions.problem import Problem, QuestionSet
from pets.registry import make_answer_type
from pets.samplers.base import Message, Prompt, Sampling

__all__ = ["read_questions", "write_questions"]


def read_questions(path: Path, sampling: Sampling | None = None) -> QuestionSet:
    """The questions of a file; the first bad line raises, with its number."""
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f'questions "{path}" cannot be read ({error.strerror}). Check the path.') from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            problem = _problem(line, number)
            if problem.id in seen:
                raise InputError(f'"id" is {problem.id!r}, as on line {seen[problem.id]}; ids are unique.')
        except PetsError as error:
            raise InputError(f'questions "{path.name}" line {number}: {error}') from None
        seen[problem.id] = number
        problems.append(problem)
    if not problems:
        raise InputError(f'questions "{path.name}": the file holds no question. Write one a line.')
    return QuestionSet(path.stem, tuple(problems), sampling or Sampling())


def write_questions(problems: Iterable[Problem], file: TextIO) -> None:
    """One line of JSON a question, as :func:`read_questions` wants it."""
    for problem in problems:
        content = problem.prompt.content
        prompt = content if isinstance(content, str) else [asdict(message) for message in content]
        fields = {"id": problem.id, "prompt": prompt, "answer": problem.answer, "gold": problem.gold}
        extra = {"level": problem.level or None, "options": problem.options}
        told = {key: value for key, value in extra.items() if value is not None}
        file.write(json.dumps(fields | told, ensure_ascii=False) + "\n")


def _problem(line: bytes, number: int) -> Problem:
    try:
        fields = json.loads(line.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON ({error}). Repair the line or drop it.") from None
    if not isinstance(fields, dict):
        raise InputError("a question is an object with id and prompt. Repair the line or drop it.")
    answer = fields.get("answer", "text")
    make_answer_type(answer if isinstance(answer, str) else json.dumps(answer))
    return Problem(
        id=_text(fields, "id") or str(number),
        prompt=_prompt(fields),
        answer=answer,
        gold=_text(fields, "gold"),
        level=_text(fields, "level") or "",
        options=_options(fields),
    )


def _prompt(fields: dict[str, Any]) -> Prompt:
    given = fields.get("prompt")
    if given is None and isinstance(fields.get("question"), str):
        return Prompt.chat(fields["question"])
    if isinstance(given, str):
        return Prompt(given)
    if isinstance(given, list) and given and all(_is_message(one) for one in given):
        return Prompt(tuple(Message(one["role"], one["content"]) for one in given))
    raise InputError('"prompt" is a text or a list of {"role", "content"} messages; or give "question", a text.')


def _is_message(one: object) -> bool:
    roles = ("system", "user", "assistant")
    return isinstance(one, dict) and one.get("role") in roles and isinstance(one.get("content"), str)


def _text(fields: dict[str, Any], key: str) -> str | None:
    """A string as it stands, a whole number as it is written."""
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    raise InputError(f'"{key}" is {json.dumps(value)[:40]}; expected a string.')


def _options(fields: dict[str, Any]) -> int | None:
    value = fields.get("options")
    if value is None or (type(value) is int and value >= 2):
        return value
    raise InputError(f'"options" is {json.dumps(value)[:40]}; it is the number of possible answers, at least 2.')
