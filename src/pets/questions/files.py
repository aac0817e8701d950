"""Files of questions: JSONL, one object per line; or JSON, CSV, TSV, Parquet.

``{"id", "prompt", "answer": "number", "gold"?, "level"?, "options"?}``, where the prompt is a text that the model goes
on with, or a list of chat messages ``{"role", "content"}``; ``"question"`` instead of ``"prompt"`` is asked as a chat.
Other names are mapped: ``fields={"question": "problem", "gold": "answer"}``.
"""

import csv
import gc
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

from pets._extras import require
from pets.errors import InputError, PetsError, SpecError
from pets.pools.reading import unpacked_lines
from pets.prompts import Message, Prompt, Sampling
from pets.questions.problem import Problem, QuestionSet
from pets.registry import make_answer_type

__all__ = ["SUFFIXES", "Record", "parse_fields", "problem_from", "read_questions", "read_records", "renamed"]
__all__ += ["stream_questions", "write_questions"]

Record = dict[str, Any]
MAX_CELL_CHARS = 2**31 - 1  # of a CSV file; the library's own limit, 131,072, is less than a long prompt
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".csv", ".tsv", ".parquet")
FIELDS = ("id", "question", "prompt", "answer", "gold", "level", "options")
ALTERNATIVE = {"question": "prompt", "prompt": "question"}
USE_GOLD = 'If "answer" holds the right answer, say so: --field gold=answer.'


def read_questions(
    path: Path, sampling: Sampling | None = None, *, fields: Mapping[str, str] | None = None, answer: str = "text"
) -> QuestionSet:
    """The questions of a file; the first bad line raises, with its number.

    ``fields`` says under which name the file holds what, ``answer`` how a question is read that does not say so.
    """
    name = next((path.name[: -len(end)] for end in SUFFIXES if path.name.lower().endswith(end)), path.stem)
    with _without_cycle_collector():
        problems = tuple(stream_questions(path, fields=fields, answer=answer))
    return QuestionSet(name or path.name, problems, sampling or Sampling())


def stream_questions(path: Path, *, fields: Mapping[str, str] | None = None, answer: str = "text") -> Iterator[Problem]:
    """The questions of a file, one by one; the first bad line raises, with its number."""
    fields = fields or {}
    missing = set(fields.values())
    seen: dict[str, str] = {}
    for number, (place, record) in enumerate(read_records(path), 1):
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
        raise InputError(f'questions "{path.name}": the file holds no question. Write one per line.')
    if missing:  # a gold here and there may be missing, a name that no line has is a slip
        raise InputError(f'questions "{path.name}": no question has a field "{min(missing)}". Check --field.')


@contextmanager
def _without_cycle_collector() -> Iterator[None]:
    """Pause Python's cycle collector: questions make no cycles, and it would look at a million of them repeatedly."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def write_questions(problems: Iterable[Problem], file: TextIO) -> None:
    """Write one line of JSON per question, as :func:`read_questions` reads it."""
    for problem in problems:
        content = problem.prompt.content
        prompt = content if isinstance(content, str) else [asdict(message) for message in content]
        record: Record = {"id": problem.id, "prompt": prompt, "answer": problem.answer, "gold": problem.gold}
        optional = {"level": problem.level or None, "options": problem.options}
        record |= {key: value for key, value in optional.items() if value is not None}
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def parse_fields(texts: Iterable[str]) -> dict[str, str]:
    """Which column of a file holds what; ``question=problem`` says that "problem" holds the question.

    >>> parse_fields(["question=problem", "gold=answer"])
    {'question': 'problem', 'gold': 'answer'}
    """
    fields: dict[str, str] = {}
    for text in texts:
        ours, equals, theirs = text.partition("=")
        if ours not in FIELDS or not equals or not theirs:
            raise InputError(f"a field is given as NAME=COLUMN, NAME one of {', '.join(FIELDS)}; got {text!r}.")
        if ours in fields:
            raise InputError(f'the field "{ours}" is given twice, as "{fields[ours]}" and "{theirs}". Choose one.')
        fields[ours] = theirs
    return fields


def renamed(record: Record, fields: Mapping[str, str]) -> Record:
    """The record under our names; a field that stands for another one is no longer its own.

    >>> renamed({"problem": "2 + 2?", "answer": "4"}, {"question": "problem", "gold": "answer"})
    {'question': '2 + 2?', 'gold': '4'}
    """
    if not fields:
        return record
    replaced = {*fields.values(), *(ALTERNATIVE[ours] for ours in fields if ours in ALTERNATIVE)}
    mapped = {key: record[key] for key in FIELDS if key in record and key not in replaced}
    for ours, theirs in fields.items():
        if ours in ALTERNATIVE and theirs not in record:
            raise InputError(f'there is no field "{theirs}"; {_field_names(record)}.')
        mapped[ours] = record.get(theirs)
    return mapped


def problem_from(record: Record, number: int, answer: str = "text") -> Problem:
    """The question that a record describes; ``answer`` is how it is read if the record does not say."""
    return Problem(
        id=_text(record, "id") or str(number),
        prompt=_prompt(record),
        answer=_answer(record.get("answer") or answer),
        gold=_text(record, "gold"),
        level=sys.intern(_text(record, "level") or ""),
        options=_options(record),
    )


def _answer(spec: object) -> str:
    if not isinstance(spec, str):
        raise InputError(f'"answer" is {_as_json(spec)}; it is how the answer is read, such as "number". {USE_GOLD}')
    return _checked_spec(spec)


@lru_cache(maxsize=1024)
def _checked_spec(spec: str) -> str:
    """The spec itself: checked once, and one string for all questions that have it."""
    try:
        make_answer_type(spec)
    except SpecError as error:
        raise InputError(f"{error} {USE_GOLD}") from None
    return spec


def _prompt(record: Record) -> Prompt:
    content, question = record.get("prompt"), record.get("question")
    if content is None and isinstance(question, str):
        return Prompt.chat(question)
    if isinstance(content, str):
        return Prompt(content)
    if isinstance(content, list) and content and all(map(_is_message, content)):
        return Prompt(tuple(Message(message["role"], message["content"]) for message in content))
    raise InputError(
        '"prompt" is a text or a list of {"role", "content"} messages; or give "question", a text. '
        f"{_field_names(record).capitalize()}; --field question=NAME says which."
    )


def _is_message(value: object) -> bool:
    roles = ("system", "user", "assistant")
    return isinstance(value, dict) and value.get("role") in roles and isinstance(value.get("content"), str)


def _text(record: Record, key: str) -> str | None:
    """A string as it stands, a number as it is written."""
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value
    if type(value) is int or (type(value) is float and value == value):
        return str(value)
    raise InputError(f'"{key}" is {_as_json(value)}; expected a string.')


def _options(record: Record) -> int | None:
    value: Any = record.get("options")
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if value is None or (type(value) is int and value >= 2):
        return value
    raise InputError(f'"options" is {_as_json(value)}; it is the number of possible answers, at least 2.')


def _field_names(record: Record) -> str:
    names = ", ".join(f'"{name}"' for name in list(record)[:12])
    return f"the fields are {names}" if names else "there are no fields"


def _as_json(value: object) -> str:
    return json.dumps(value, default=repr)[:40]


def read_records(path: Path) -> Iterator[tuple[str, Record]]:
    """Where each record stands ("line 3") and what it holds; streamed. A file without a known suffix is JSONL."""
    suffix = next((end for end in sorted(SUFFIXES, key=len, reverse=True) if path.name.lower().endswith(end)), "")
    try:
        if suffix == ".parquet":
            yield from _parquet(path)
        elif suffix in (".csv", ".tsv"):
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield from _separated(path, file, "\t" if suffix == ".tsv" else ",")
        elif suffix == ".json":
            yield from _list(path)
        else:
            yield from _lines(path, unpacked_lines(path))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f'questions "{path}" cannot be read ({reason}). Check the path.') from None
    except UnicodeDecodeError as error:
        raise InputError(f'questions "{path.name}": byte {error.start + 1} is not UTF-8. Save it as UTF-8.') from None


def _lines(path: Path, file: Iterable[bytes]) -> Iterator[tuple[str, Record]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            raise _bad(path, f"line {number}", f"this is not JSON ({error}). Repair the line or drop it.") from None
        yield _checked(path, f"line {number}", record)


def _list(path: Path) -> Iterator[tuple[str, Record]]:
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f'questions "{path.name}": this is not JSON ({error}). Repair it; or is it .jsonl?') from None
    if not isinstance(content, list):
        raise InputError(f'questions "{path.name}": a .json file of questions is a list of objects.')
    yield from (_checked(path, f"entry {number}", record) for number, record in enumerate(content, 1))


def _separated(path: Path, file: Iterable[str], delimiter: str) -> Iterator[tuple[str, Record]]:
    """The rows of a CSV or TSV file; an empty cell holds nothing."""
    csv.field_size_limit(MAX_CELL_CHARS)
    reader = csv.DictReader(file, delimiter=delimiter, strict=True)
    try:
        for record in reader:
            place = f"line {reader.line_num}"
            if None in record:
                raise _bad(
                    path, place, f"it has more cells than the head ({len(reader.fieldnames or ())}). Quote them."
                )
            yield place, {key: value or None for key, value in record.items()}
    except csv.Error as error:
        raise _bad(path, f"line {reader.line_num}", f"this is not CSV ({error}). Repair the line.") from None


def _parquet(path: Path) -> Iterator[tuple[str, Record]]:
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=10_000):
                for record in batch.to_pylist():
                    number += 1
                    yield f"row {number}", record
    except arrow.ArrowException as error:
        raise InputError(f'questions "{path.name}": this is not Parquet ({error}). Check the file.') from None


def _checked(path: Path, place: str, record: object) -> tuple[str, Record]:
    if not isinstance(record, dict):
        raise _bad(path, place, "a question is an object with id and prompt. Repair it or drop it.")
    return place, record


def _bad(path: Path, place: str, problem: str) -> InputError:
    return InputError(f'questions "{path.name}" {place}: {problem}')
