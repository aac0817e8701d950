"""Where the questions and the traces of a run come from, said briefly."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pets.engine.sharded import PER_CLIENT, Sharded
from pets.errors import InputError
from pets.questions import Problem, QuestionSet, named_sets, question_set, read_questions
from pets.samplers import Prompt, Sampler
from pets.samplers.local import LocalSampler
from pets.samplers.openai import OpenAISampler

__all__ = ["Dialect", "Questions", "question_set_of", "samplers_of"]

Dialect = Literal["openai", "vllm", "llama.cpp"]
Questions = str | Path | QuestionSet | Iterable[str | Problem]


def question_set_of(questions: Questions) -> QuestionSet:
    """A set's name, a file, a set, or questions one by one; a plain string among them is asked as a chat.

    >>> question_set_of(["What is 2 + 2?"]).problems[0].prompt.is_chat
    True
    """
    if isinstance(questions, QuestionSet):
        return questions
    if isinstance(questions, str) and questions in named_sets():
        return question_set(questions)
    if isinstance(questions, str | Path):
        path = Path(questions)
        if not path.exists():
            raise InputError(f'"{questions}" is neither a file nor a question set. Sets: {", ".join(named_sets())}.')
        return read_questions(path)
    problems = tuple(
        Problem(f"q{number}", Prompt.chat(one)) if isinstance(one, str) else one
        for number, one in enumerate(questions, 1)
    )
    if not problems:
        raise InputError("there are no questions; give at least one.")
    return QuestionSet("questions", problems)


def samplers_of(
    endpoints: Sequence[str],
    model: str | None,
    *,
    key: str | None = None,
    dialect: Dialect | None = None,
    stream: bool = False,
    timeout: float = 600.0,
    concurrency: int = 1,
    slots: int | None = None,
    context: int | None = None,
    threads: int | None = None,
) -> list[Sampler]:
    """A sampler for each endpoint, fit for so many requests in flight; without any endpoint, the local model."""
    if not endpoints:
        return [LocalSampler(model, slots=slots, context=context, threads=threads)]
    if model is None:
        raise InputError("--endpoint needs --model NAME: which of the server's models to ask.")
    clients = -(-concurrency // (PER_CLIENT * len(endpoints)))
    return [
        Sharded(
            [
                OpenAISampler(url, model, key=key, dialect=dialect or dialect_of(url), stream=stream, timeout=timeout)
                for _ in range(clients)
            ]
        )
        for url in endpoints
    ]


def dialect_of(url: str) -> Dialect:
    """OpenAI itself refuses fields that it does not know; every other server gets those that switch truncation off.

    >>> dialect_of("https://api.openai.com/v1"), dialect_of("http://localhost:8000/v1")
    ('openai', 'vllm')
    """
    host = urlsplit(url).hostname or ""
    return "openai" if host.endswith(("openai.com", "openai.azure.com")) else "vllm"
