"""Questions by name: a file, a set that PETS knows, a data set of the Hugging Face hub, or stdin.

Another set is one more entry of :data:`BENCHMARKS`; its rows come from the hub, or from a copy on this machine.
"""

import importlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from pets._extras import require
from pets.answers.base import GSM8K_MARK
from pets.errors import InputError
from pets.prompts import Prompt, Sampling
from pets.questions import files
from pets.questions.files import LETTERS, Problem, QuestionSet, unique_problems
from pets.tabular import SUFFIXES, FileRow, Record, read_rows

MATH_PROMPT = "{}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
CHOICE_PROMPT = "{}\n\n{}\n\nPlease reason step by step, and put the letter of your choice within \\boxed{{}}."
RIGHT, WRONG = "Correct Answer", ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
STARTER_SAMPLING = Sampling(max_tokens=56, temperature=0.7, stop=("\n",), top_logprobs=20, window=8)
IDS = ("unique_id", "problem_idx", "id", "ID", "Record ID", "question_id")
QUESTIONS = ("problem", "question", "Problem", "Question")
LEVELS = ("subject", "problem_type", "High-level domain", "category")
FILLER = "N/A"  # older versions of MMLU-Pro fill their lists up to ten with it


def problem_of(benchmark: "Benchmark", record: Record, number: str, seed: int = 0) -> Problem:
    r"""The question of one row of a published set.

    >>> row = {"problem_idx": 3, "problem": "What is $1+1$?", "answer": "2", "problem_type": ["Algebra"]}
    >>> problem_of(BENCHMARKS["hmmt"], row, "1")
    Problem(id='3', prompt=Prompt(...), answer_type='math', gold='2', level='Algebra', options=None)
    >>> row = {"question": "Two and two pens?", "answer": "2 + 2 = <<2+2=4>>4\n#### 1,004"}
    >>> problem_of(BENCHMARKS["gsm8k"], row, "7").gold
    '1,004'
    """
    id = first_of(record, *IDS, default=number)
    level = next((record[name] for name in LEVELS if record.get(name) is not None), "")
    level = ", ".join(map(str, level)) if isinstance(level, list) else str(level)
    if benchmark.answers != "choice":
        gold = first_of(record, "answer", "Answer")
        if benchmark.is_worked and GSM8K_MARK not in gold:
            raise InputError(f'"answer" ends in {gold[-20:]!r}; expected "{GSM8K_MARK}" and the number.')
        gold = gold.rpartition(GSM8K_MARK)[2] if benchmark.is_worked else gold
        prompt = Prompt.chat(MATH_PROMPT.format(first_of(record, *QUESTIONS).strip()))
        return Problem(id, prompt, benchmark.answers, gold.strip(), level)
    question = first_of(record, *QUESTIONS).strip()
    options, right = listed(record) if "options" in record else shuffled(record, question, seed)
    prompt = Prompt.chat(CHOICE_PROMPT.format(question, files.option_lines(options)))
    return Problem(id, prompt, f"choice:options={len(options)}", LETTERS[right], level, len(options))


def shuffled(record: Record, question: str, seed: int) -> tuple[list[str], int]:
    """The options of GPQA, in an order that depends on the seed and the question alone, and which of them is right."""
    options = [first_of(record, key).strip() for key in (RIGHT, *WRONG)]
    rng = np.random.default_rng([seed, zlib.crc32(question.encode())])
    order = rng.permutation(len(options)).tolist()
    return [options[at] for at in order], order.index(0)


def listed(record: Record) -> tuple[list[str], int]:
    """The options of MMLU-Pro; ``answer_index`` (or the letter ``answer``) says which is right."""
    options = record.get("options")
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise InputError(f'"options" is {str(options)[:40]!r}; expected a list of texts.')
    right = record.get("answer_index")
    if right is None:
        right = LETTERS.find(first_of(record, "answer"))
    if type(right) is not int or not 0 <= right < len(options):
        raise InputError(f"the right one is number {right!r} of {len(options)} options; expected one of them.")
    kept = [at for at, option in enumerate(options) if option != FILLER or at == right]
    return [options[at] for at in kept], kept.index(right)


def first_of(record: Record, *names: str, default: str | None = None) -> str:
    """The text of the first of these fields that is there and not empty."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
            return str(value)
    if default is None:
        raise InputError(f'there is no "{names[0]}"; {files.field_names(record)}. Is this the right set?')
    return default


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A published set of the hub; where ``is_worked``, right answers end in ``#### 18``, as GSM8K has them."""

    about: str
    hub: str
    split: str
    answers: str
    max_tokens: int
    config: str | None = None
    is_worked: bool = False


BENCHMARKS: Mapping[str, Benchmark] = {
    "aime24": Benchmark("AIME 2024, 30 problems", "HuggingFaceH4/aime_2024", "train", "number", 16_384),
    "aime25": Benchmark("AIME 2025, 30 problems", "MathArena/aime_2025", "train", "number", 16_384),
    "hmmt": Benchmark("HMMT February 2025, 30 problems", "MathArena/hmmt_feb_2025", "train", "math", 16_384),
    "brumo": Benchmark("BRUMO 2025, 30 problems", "MathArena/brumo_2025", "train", "math", 16_384),
    "gpqa": Benchmark("GPQA Diamond, 198 questions", "Idavidrein/gpqa", "train", "choice", 16_384, "gpqa_diamond"),
    "mmlu-pro": Benchmark("MMLU-Pro, 12,032 questions", "TIGER-Lab/MMLU-Pro", "test", "choice", 4_096),
    "math500": Benchmark("MATH-500, 500 problems", "HuggingFaceH4/MATH-500", "test", "math", 4_096),
    "gsm8k": Benchmark("GSM8K, 1,319 problems", "openai/gsm8k", "test", "number", 2_048, "main", is_worked=True),
}


@cache
def starter() -> QuestionSet:
    """The starter set: 300 short questions that a model of 135 million parameters can try, made for PETS.

    Sums and differences of one and two digits, products to 12 and general knowledge with one-word answers, behind the
    examples of their kind: a chat or a letter-only form is near chance for so small a model. A worked example takes 30
    to 40 tokens, so that the four trace confidences differ over windows of 8. The order mixes the levels, so that any
    first part is a fair sample; new questions are added at the end, so that the seeds of the others' traces stay.
    """
    data = json.loads(resources.files(__package__).joinpath("starter.json").read_bytes())
    problems = []
    for id, question, gold, level in data["questions"]:
        kind = id.partition("-")[0]
        prompt = Prompt(f"{data['examples'][kind]}Question: {question}\nAnswer:")
        problems.append(Problem(id, prompt, "text" if kind == "fact" else "number", gold, level))
    return QuestionSet("starter", tuple(problems), STARTER_SAMPLING)


def named_sets() -> list[str]:
    """The names of all sets, sorted."""
    return sorted(["starter", *BENCHMARKS])


def find_questions(source: str | Path, fields: Mapping[str, str] | None = None) -> QuestionSet:
    """The questions that ``source`` names: a file, a set, ``hf:org/name[/config][:split]``, or ``-`` for stdin."""
    name = str(source)
    if name == files.STDIN:
        return QuestionSet("stdin", tuple(files.problems_of(files.stdin_rows(), "questions on stdin", fields)))
    if name.startswith(HUB_PREFIX):
        if (match := HUB_NAME.fullmatch(name)) is None:
            raise InputError(f"a data set of the hub is named hf:ORG/NAME[/CONFIG][:SPLIT]; got {name!r}.")
        rows = hub_rows(match["repository"], match["config"], match["split"])
        return QuestionSet(match["repository"], tuple(files.problems_of(rows, name, fields)))
    known = name == "starter" or name in BENCHMARKS
    if known and not fields:
        return question_set(name)
    path = Path(source)
    if not path.exists():
        if known:
            raise InputError(f'"{name}" is a named set, whose fields are known: leave out --field.')
        raise InputError(f'"{name}" is neither a file nor a question set. Sets: {", ".join(named_sets())}.')
    return files.read_questions(path, fields=fields)


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
    benchmark = BENCHMARKS[name]
    if source is None:
        copy_hint = f"or use a copy on this machine: pets pools questions {name} --from FILE > {name}.jsonl"
        rows = hub_rows(benchmark.hub, benchmark.config, benchmark.split, copy_hint)
    else:
        rows = local_rows(source, benchmark.config, benchmark.split)

    def problem(record: Record, number: int) -> Problem:
        own = problem_of(benchmark, record, str(number), seed)
        return replace(own, id=f"{name}-{own.id}")

    return QuestionSet(name, tuple(unique_problems(rows, name, problem)), Sampling(max_tokens=benchmark.max_tokens))


HUB_PREFIX = "hf:"
HUB_NAME = re.compile(r"hf:(?P<repository>[\w.-]+/[\w.-]+)(/(?P<config>[\w.-]+))?(:(?P<split>[\w.\[\]:%-]+))?")
USUAL_SPLITS = ("test", "validation", "train")

REMEDIES = {
    "gated": "Accept its terms on https://huggingface.co/datasets/{}, then log in: hf auth login, or HF_TOKEN.",
    "doesn't exist": "It was moved or is not public: log in (hf auth login) if you may read it.",
    "config name is missing": "Name one: hf:{}/CONFIG.",
}
"""What to do about a failure, by words of the hub's message."""
NO_REMEDY = "Check the name and the network."
METADATA_FILES = ("dataset_info.json", "dataset_infos.json", "state.json")  # what the hub's tools leave beside the data


def hub_rows(repository: str, config: str | None, split: str | None, copy_hint: str = "") -> Iterator[FileRow]:
    """Every row of a split, downloaded once and kept by the ``datasets`` library.

    The default split is test, else validation, else train, else the first. ``copy_hint`` says how a copy is read.
    """
    try:
        datasets = require("datasets", "datasets")
    except InputError as error:
        raise InputError(f"{error}; {copy_hint}" if copy_hint else str(error)) from None
    try:
        if split is None:
            splits = datasets.get_dataset_split_names(repository, config)
            split = next((name for name in USUAL_SPLITS if name in splits), splits[0])
        rows = datasets.load_dataset(repository, config, split=split)
    except _failures() as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        remedy = next((words for sign, words in REMEDIES.items() if sign in reason.lower()), NO_REMEDY)
        remedy = f"{remedy.format(repository)} {copy_hint[:1].upper()}{copy_hint[1:]}".strip()
        raise InputError(f'"{repository}" cannot be loaded from the hub ({reason}). {remedy}') from None
    return (FileRow(f"row {number}", dict(row)) for number, row in enumerate(rows, 1))


def local_rows(source: Path, config: str | None, split: str) -> Iterator[FileRow]:
    """Every row of a file, or of the files of a folder that belong to the config and the split.

    Names tell: ``gpqa_diamond.csv``, ``main/test-00000-of-00001.parquet``; one that is the word comes before one that
    holds it (``test.jsonl``, ``test_socratic.jsonl``). Where no name tells, every file belongs.
    """
    paths = [source]
    if source.is_dir():
        inside = sorted(path.relative_to(source) for path in source.rglob("*"))
        paths = [path for path in inside if path.name.lower().endswith(SUFFIXES) and path.name not in METADATA_FILES]
        paths = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
        if not paths:
            raise InputError(f'folder "{source}" holds no data; files end in {", ".join(SUFFIXES)}. Name another.')
        for word in filter(None, (config, split)):
            name = re.compile(rf"{re.escape(word)}(-\d+-of-\d+(-\w+)?)?")  # a file may have its number among others
            named = [path for path in paths if word in path.parts[:-1] or name.fullmatch(path.name.split(".")[0])]
            paths = named or [path for path in paths if word in path.as_posix()] or paths
        paths = [source / path for path in paths]
    for path in paths:
        for row in read_rows(path, noun="questions"):
            yield row._replace(place=f'"{path.name}" {row.place}')


def _failures() -> tuple[type[Exception], ...]:
    """The errors that loading may raise: of files, of the network, and all of the hub's two libraries.

    Theirs have no common root, and some of them derive from none of Python's own.
    """
    classes: set[type[Exception]] = {OSError, ValueError, RuntimeError}
    for name in ("datasets.exceptions", "huggingface_hub.errors"):
        try:
            names = vars(importlib.import_module(name)).values()
        except ImportError:
            continue
        classes |= {value for value in names if isinstance(value, type) and issubclass(value, Exception)}
    return tuple(classes)
