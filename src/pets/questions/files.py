"""Files of questions: JSONL, JSON, CSV with any separator, Parquet, or plain lines.

``{"id", "question", "gold"?, "answer_type"?, "level"?, "options"?}``: the question is asked as a chat. ``"prompt"``
instead of it is a text that the model goes on with, or a list of chat messages ``{"role", "content"}``. The usual names
are known (:data:`NAMES`: "problem" holds the question, "answer" the right answer); others are mapped:
``fields={"question": "body", "gold": "final"}``.
"""

import gc
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, TextIO

from pets.errors import InputError, PetsError, SpecError
from pets.prompts import Message, Prompt, Sampling
from pets.registry import answer_types, make_answer_type
from pets.tabular.reading import FileRow, Record, as_json, as_text, columns_of, listed, read_rows, rows_of, suffix_of

STDIN = "-"
OPTION = re.compile(r"[a-z_]+=")  # of a spec such as "choice:options=4"
AUTO = "auto"  # how answers are read by default
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ROLES = ("system", "user", "assistant")
NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "question_id", "unique_id"),
    "question": ("question", "problem", "query", "input"),
    "prompt": ("prompt", "messages"),
    "gold": ("gold", "answer", "target", "label", "correct_answer", "answerkey", "solution"),
    "answer_type": ("answer_type",),
    "level": ("level",),
    "options": ("options", "choices"),
}
"""What a question has, and under which names a file may hold it, the first of them that is there; case does not matter.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """One question: what the model reads, how answers are read (``answer_type``: a spec such as "number"), the gold.

    ``level`` sorts questions into kinds, ``options`` is the size of a closed answer set.
    """

    id: str
    prompt: Prompt
    answer_type: str = "text"
    gold: str | None = None
    level: str = ""
    options: int | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError('a question has no "id"; give each its own.')


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Named questions and how their traces are best drawn."""

    name: str
    problems: tuple[Problem, ...]
    sampling: Sampling = field(default_factory=Sampling)


def read_questions(
    path: Path, sampling: Sampling | None = None, *, fields: Mapping[str, str] | None = None, answer_type: str = AUTO
) -> QuestionSet:
    """The questions of a file; the first bad line raises, with its number.

    ``fields`` says under which name the file holds what, ``answer_type`` how answers are read by default.
    """
    suffix = suffix_of(path)
    name = path.name[: -len(suffix)] if suffix else path.stem
    collects = gc.isenabled()
    gc.disable()  # questions make no cycles, and the collector would look at a million of them repeatedly
    try:
        problems = tuple(stream_questions(path, fields=fields, answer_type=answer_type))
    finally:
        if collects:
            gc.enable()
    return QuestionSet(name or path.name, problems, sampling or Sampling())


def stream_questions(
    path: Path, *, fields: Mapping[str, str] | None = None, answer_type: str = AUTO
) -> Iterator[Problem]:
    """The questions of a file, one by one; the first bad line raises, with its number."""
    return problems_of(read_rows(path, noun="questions"), f'questions "{path.name}"', fields, answer_type)


def problems_of(
    rows: Iterable[FileRow], title: str, fields: Mapping[str, str] | None = None, answer_type: str = AUTO
) -> Iterator[Problem]:
    """The question of each row, ``title`` being what messages call their source."""
    fields = fields or {}
    missing, types_only = set(fields.values()), "gold" not in fields

    def problem(record: Record, number: int) -> Problem:
        nonlocal types_only
        missing.difference_update(record)
        types_only = types_only and is_answer_type(record.get("answer")) and "answer_type" not in record
        return problem_from(record, number, fields, answer_type)

    yield from unique_problems(rows, title, problem)
    if missing:  # a gold here and there may be missing, a name that no line has is a slip
        raise InputError(f'{title}: no question has a field "{min(missing)}". Check --field.')
    if types_only:
        raise InputError(f"{title}: {RENAMED_TYPE}")


def unique_problems(rows: Iterable[FileRow], title: str, parse: Callable[[Record, int], Problem]) -> Iterator[Problem]:
    """The question that ``parse`` makes of each row and its number; the first bad row raises, with its place."""
    places: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        try:
            problem = parse(record_of(row), number)
            if problem.id in places:
                raise InputError(f'"id" is {problem.id!r}, as on {places[problem.id]}; ids are unique.')
        except PetsError as error:
            raise InputError(f"{title} {row.place}: {error}") from None
        places[problem.id] = row.place
        yield problem
    if not places:
        raise InputError(f"{title}: the file holds no question. Write one per line.")


def record_of(row: FileRow) -> Record:
    """The record of a row; raises where it cannot be read or is no object."""
    if row.problem or not isinstance(row.value, dict):
        raise InputError(row.problem or 'a question is an object, {"id": ..., "question": ...}. Repair it or drop it.')
    return row.value


RENAMED_TYPE = (
    '"answer" holds answer types; it is the right answer now, and how answers are read is "answer_type". Rename it, or '
    "say --field answer_type=answer."
)


def is_answer_type(value: object) -> bool:
    """Whether a value names how answers are read: what "answer" meant in files of version 0.1.0.

    >>> is_answer_type("choice:options=4"), is_answer_type("Paris")
    (True, False)
    """
    if not isinstance(value, str):
        return False
    name, colon, options = value.partition(":")
    return name in answer_types() and (not colon or OPTION.match(options) is not None)


def write_questions(problems: Iterable[Problem], file: TextIO) -> None:
    """Write one line of JSON per question, as :func:`read_questions` reads it."""
    for problem in problems:
        file.write(json.dumps(question_record(problem), ensure_ascii=False) + "\n")


def question_record(problem: Problem) -> Record:
    """A question as a line of a file holds it."""
    content = problem.prompt.content
    prompt = content if isinstance(content, str) else [asdict(message) for message in content]
    record: Record = {"id": problem.id, "prompt": prompt, "answer_type": problem.answer_type, "gold": problem.gold}
    optional = {"level": problem.level or None, "options": problem.options}
    return record | {key: value for key, value in optional.items() if value is not None}


def parse_fields(texts: Iterable[str], names: Iterable[str] = NAMES) -> dict[str, str]:
    """The columns of a file that hold the ``names``, by name.

    >>> parse_fields(["question=body", "gold=final"])
    {'question': 'body', 'gold': 'final'}
    """
    fields: dict[str, str] = {}
    for text in texts:
        ours, equals, theirs = text.partition("=")
        if ours not in names or not equals or not theirs:
            raise InputError(f"a field is given as NAME=COLUMN, NAME one of {', '.join(names)}; got {text!r}.")
        if ours in fields:
            raise InputError(f'the field "{ours}" is given twice, as "{fields[ours]}" and "{theirs}". Choose one.')
        fields[ours] = theirs
    return fields


@lru_cache(maxsize=4096)
def _columns(names: tuple[str, ...], fields: tuple[tuple[str, str], ...]) -> dict[str, str]:
    columns = columns_of(names, NAMES, dict(fields))
    for ours, other in (("question", "prompt"), ("prompt", "question")):
        if ours in dict(fields) and other not in dict(fields):  # a named column replaces the other kind
            columns.pop(other, None)
    return columns


def problem_from(
    record: Record, number: int, fields: Mapping[str, str] | None = None, answer_type: str = AUTO
) -> Problem:
    """The question that a record describes; ``answer_type`` is how answers are read if the record does not say.

    >>> problem_from({"problem": "2 + 2?", "answer": 4}, 1).gold
    '4'
    """
    fields = fields or {}
    columns = _columns(tuple(record), tuple(fields.items()))
    values = dict(zip(columns, map(record.get, columns.values()), strict=True))
    for ours in ("question", "prompt"):
        if ours in fields and columns.get(ours) not in record:
            raise InputError(f'there is no field "{columns[ours]}"; {field_names(record)}.')
    if "gold" in record and "answer_type" not in columns and is_answer_type(record.get("answer")):
        raise InputError(RENAMED_TYPE)
    prompt, gold, options = _prompt(values, record), values.get("gold"), values.get("options")
    texts, names = ([], []) if options is None and record.get("A") is None else _option_texts(options, record)
    if texts:
        prompt, gold = _lettered(prompt, texts), _letter(gold, names, texts)
        answer_type = f"choice:options={len(texts)}"
    options = int(options) if isinstance(options, str) and options.isdecimal() else options
    if not texts and options is not None and not (type(options) is int and options >= 2):
        expected = "it is the number of possible answers, at least 2, or a list of their texts"
        raise InputError(f'"options" is {as_json(options)}; {expected}.')
    spec, gold = values.get("answer_type") or answer_type, as_text(gold, '"gold"')
    if not isinstance(spec, str):
        raise InputError(f'"answer_type" is {as_json(spec)}; it is how answers are read, such as "number".')
    spec, id = _checked_spec(spec), as_text(values.get("id"), '"id"') or str(number)
    if texts and gold is not None and make_answer_type(spec).gold_form(gold) is None:
        raise InputError(
            f"the gold of question {id!r} is {as_json(gold)}, none of its options, {as_json(texts)}: give "
            "the letter, the place (from 0) or the text of one, or no gold."
        )
    level = sys.intern(as_text(values.get("level"), '"level"') or "")
    return Problem(id, prompt, spec, gold, level, len(texts) or options)


@lru_cache(maxsize=1024)
def _checked_spec(spec: str) -> str:
    """The spec, checked; one string for all questions that have it."""
    named = answer_types().get(spec.partition(":")[0])
    if named is not None and not named.files_may_name:  # before it is made: making one may run code
        raise InputError(f'"answer_type" is {spec!r}, which no file can name: give it with --answer, if you mean it.')
    try:
        make_answer_type(spec)
    except SpecError as error:
        raise InputError(str(error)) from None
    return spec


def _prompt(values: Mapping[str, Any], record: Record) -> Prompt:
    content, question = values.get("prompt"), values.get("question")
    if content is None and isinstance(question, str):
        return Prompt.question(question)
    if isinstance(content, str):
        return Prompt(content)
    messages = question if content is None else content
    parts = [part if isinstance(part, dict) else {} for part in messages] if isinstance(messages, list) else []
    if parts and all(part.get("role") in ROLES and isinstance(part.get("content"), str) for part in parts):
        return Prompt(tuple(Message(part["role"], part["content"]) for part in parts))
    if content is None and question is None and "question" in values:
        raise InputError("the question is empty. Write one, or drop the line.")
    raise InputError(
        'there is no question: it is a text under "question", or under "prompt" a text to go on with or a list of '
        f'{{"role", "content"}} messages. {field_names(record).capitalize()}; --field question=NAME says which.'
    )


def option_lines(options: Iterable[str]) -> str:
    """The options of a question, a line each: "A) ..."."""
    return "\n".join(f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False))


def _lettered(prompt: Prompt, options: list[str]) -> Prompt:
    """The prompt with its options under it; as it is where it holds them all already."""
    content = prompt.content
    last = content if isinstance(content, str) else content[-1].content
    if all(option in last for option in options):
        return prompt
    text = f"{last.rstrip()}\n\n{option_lines(options)}"
    if isinstance(content, str):
        return Prompt(text)
    return Prompt((*content[:-1], Message(content[-1].role, text)), bare=prompt.bare)


def _letter(gold: Any, names: list[Any], texts: list[str]) -> object:
    """The letter of the right option; gold may be its name, its text, its place, from 0, or the letter itself.

    No gold is ``None``, an empty cell, or -1, as data sets have it whose labels are kept back.
    """
    gold = gold.strip() if isinstance(gold, str) else gold
    for options in (names, texts):
        if gold in options:
            return LETTERS[options.index(gold)]
    if gold in ("", -1, "-1"):
        return None
    index = int(gold) if isinstance(gold, str) and gold.isdecimal() else gold
    return LETTERS[index] if type(index) is int and 0 <= index < len(names) else gold


def _option_texts(value: Any, record: Record) -> tuple[list[str], list[Any]]:
    """The texts of the possible answers, from a list or from columns A, B, ...; and how gold may name them."""
    labels = None
    if value is None:
        value = list(takewhile(lambda cell: cell is not None, map(record.get, LETTERS)))
        while value and value[-1] == "":  # empty cells at the end are none
            value.pop()
        value = [] if "" in value else [str(cell) if isinstance(cell, int | float) else cell for cell in value]
    elif isinstance(value, dict):  # {"text": [...], "label": ["1", ...]}, as ARC has them
        value, labels = value.get("text"), value.get("label")
    value = listed(value)
    is_list = isinstance(value, list) and 2 <= len(value) <= len(LETTERS)
    if not is_list or not all(isinstance(option, str | int | float) for option in value):
        return [], []
    names = [option.strip() if isinstance(option, str) else option for option in value]
    same_length = isinstance(labels, list) and len(labels) == len(value)
    return [str(name) for name in names], labels if same_length and labels else names


def field_names(record: Record) -> str:
    """The fields of a record, for a message."""
    names = ", ".join(f'"{name}"' for name in list(record)[:12])
    return f"the fields are {names}" if names else "there are no fields"


def stdin_rows() -> Iterator[FileRow]:
    """The rows of stdin, in the format that its beginning shows."""
    buffer = sys.stdin.buffer
    file = buffer if isinstance(buffer, io.BufferedReader) else io.BufferedReader(io.BytesIO(buffer.read()))
    return rows_of(file, "", "questions on stdin")
