"""The question sets that PETS knows by name. Another one is one more entry of :data:`BENCHMARKS`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pets.errors import InputError, PetsError
from pets.questions.choices import listed, shuffled
from pets.questions.hub import hub_rows, local_rows
from pets.questions.mathematics import competition, integers, school
from pets.questions.problem import Problem, QuestionSet
from pets.questions.rows import Record
from pets.questions.starter import starter
from pets.samplers.base import Sampling

__all__ = ["BENCHMARKS", "Benchmark", "named_sets", "question_set"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A published set: where it is on the hub, how one of its rows is read, how long a trace may be."""

    about: str
    hub: str
    split: str
    read: Callable[[Record, str, int], Problem]
    max_tokens: int
    config: str | None = None


BENCHMARKS: Mapping[str, Benchmark] = {
    "aime24": Benchmark("AIME 2024, 30 problems", "HuggingFaceH4/aime_2024", "train", integers, 16_384),
    "aime25": Benchmark("AIME 2025, 30 problems", "MathArena/aime_2025", "train", integers, 16_384),
    "hmmt": Benchmark("HMMT February 2025, 30 problems", "MathArena/hmmt_feb_2025", "train", competition, 16_384),
    "brumo": Benchmark("BRUMO 2025, 30 problems", "MathArena/brumo_2025", "train", competition, 16_384),
    "gpqa": Benchmark("GPQA Diamond, 198 questions", "Idavidrein/gpqa", "train", shuffled, 16_384, "gpqa_diamond"),
    "mmlu-pro": Benchmark("MMLU-Pro, 12,032 questions", "TIGER-Lab/MMLU-Pro", "test", listed, 4_096),
    "math500": Benchmark("MATH-500, 500 problems", "HuggingFaceH4/MATH-500", "test", competition, 4_096),
    "gsm8k": Benchmark("GSM8K, 1,319 problems", "openai/gsm8k", "test", school, 2_048, "main"),
}


def named_sets() -> list[str]:
    """The names, sorted.

    >>> named_sets()
    ['aime24', 'aime25', 'brumo', 'gpqa', 'gsm8k', 'hmmt', 'math500', 'mmlu-pro', 'starter']
    """
    return sorted(["starter", *BENCHMARKS])


def question_set(name: str, source: Path | None = None, *, seed: int = 0) -> QuestionSet:
    """The set of that name; ``source`` is a copy of a published one, a file or a folder, instead of the hub.

    ``seed`` orders the options of sets that come with none of their own (gpqa).
    """
    if name == "starter":
        if source is not None:
            raise InputError("the starter set comes with pets; there is nothing to read it from. Leave --from out.")
        return starter()
    if name not in BENCHMARKS:
        raise InputError(f"there is no question set {name!r}. Sets: {', '.join(named_sets())}.")
    known = BENCHMARKS[name]
    if source is None:
        rows = hub_rows(known.hub, known.config, known.split)
    else:
        rows = local_rows(source, known.config, known.split)
    return QuestionSet(name, _problems(name, known, rows, seed), Sampling(max_tokens=known.max_tokens))


def _problems(name: str, known: Benchmark, rows: Iterable[tuple[str, Record]], seed: int) -> tuple[Problem, ...]:
    problems: dict[str, Problem] = {}
    for number, (place, row) in enumerate(rows, 1):
        try:
            problem = known.read(row, str(number), seed)
            id = f"{name}-{problem.id}"
            if id in problems:
                raise InputError(f'two questions have the id "{problem.id}"; name one file of this set.')
        except PetsError as error:
            raise InputError(f"{name}, {place}: {error}") from None
        problems[id] = replace(problem, id=id)
    if not problems:
        raise InputError(f"{name}: there is no question in it.")
    return tuple(problems.values())
