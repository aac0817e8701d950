"""A question with all that it takes to ask a model and to read what comes back."""

from dataclasses import dataclass, field

from pets.errors import InputError
from pets.prompts import Prompt, Sampling


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
