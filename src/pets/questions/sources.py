"""Questions by name: a file, a named set, a data set of the Hugging Face hub, or stdin."""

from collections.abc import Mapping
from pathlib import Path

from pets.errors import InputError
from pets.questions.files import STDIN, problems_of, read_questions, stdin_records
from pets.questions.hub import HUB_PREFIX, hub_rows, parse_hub_name
from pets.questions.problem import QuestionSet
from pets.questions.sets import named_sets, question_set

__all__ = ["find_questions"]


def find_questions(source: str | Path, fields: Mapping[str, str] | None = None) -> QuestionSet:
    """The questions that ``source`` names: a file, a set, ``hf:org/name[/config][:split]``, or ``-`` for stdin.

    >>> len(find_questions("starter").problems)
    300
    """
    name = str(source)
    if name == STDIN:
        return QuestionSet("stdin", tuple(problems_of(stdin_records(), "questions on stdin", fields)))
    if name.startswith(HUB_PREFIX):
        repository, config, split = parse_hub_name(name)
        return QuestionSet(repository, tuple(problems_of(hub_rows(repository, config, split), name, fields)))
    if name in named_sets() and not fields:
        return question_set(name)
    path = Path(source)
    if not path.exists():
        if name in named_sets():
            raise InputError(f'"{name}" is a named set, whose fields are known: leave out --field.')
        raise InputError(f'"{name}" is neither a file nor a question set. Sets: {", ".join(named_sets())}.')
    return read_questions(path, fields=fields)
