"""Recorded pools: the answers a model gave to each question, kept so that policies can be replayed on them.

A question is ``{"id", "gold", "answers": [str | null, ...], "tokens": [int, ...]?, "confidence": [float | null,
...]?}``: one a line (``.jsonl``, ``.jsonl.gz``), a list of them (``.json``) or a row each (``.parquet``). The paper's
own records are recognized by themselves: gold under ``correct_answer`` or ``answer``, confidences under
``trace_confidence``, an empty string for a trace without an answer.

Strings are kept as they were recorded: which of them mean the same is the business of an answer type.
"""

import gzip
import importlib
import json
import math
import os
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pets.core.tally import majority
from pets.errors import InputError, PoolError

__all__ = ["METRICS", "Metric", "Pool", "PooledQuestion", "Summary"]
__all__ += ["check_pool", "pool_files", "read_pool", "read_pools", "summarize", "write_pool"]

Metric = Literal["mean", "tail", "bottom"]
METRICS: dict[Metric, str] = {
    "mean": "mean_confidence",
    "tail": "tail_2048_mean_conf",
    "bottom": "bottom_0.1_sliding_2048_mean_conf",
}
"""Which entry of the paper's ``trace_confidence`` becomes a trace's confidence."""

SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".parquet")
MANIFEST = "MANIFEST.json"
KEYS = {
    "id": "the question's own name",
    "gold": "the right answer, or null where none is known",
    "answers": "a list with one answer a trace, null for a trace without one",
}
AGAIN = "Drop the line or sample it again."
REPAIR = "Repair the line or drop it."


@dataclass(frozen=True, slots=True)
class PooledQuestion:
    """One question and its traces in recorded order; ``None`` among the answers is a trace that gave none.

    >>> PooledQuestion("q1", ("A", None, "A"), gold="A", tokens=(310, 900))
    Traceback (most recent call last):
    pets.errors.PoolError: "tokens" has 2 entries for 3 answers; give one a trace. Correct it or leave "tokens" out.
    """

    id: str
    answers: tuple[str | None, ...]
    gold: str | None = None
    tokens: tuple[int, ...] | None = None
    confidence: tuple[float | None, ...] | None = None

    def __post_init__(self) -> None:
        if not self.id or self.gold == "":
            raise PoolError(f'"{"gold" if self.id else "id"}" is an empty string. Fill it in or drop the line.')
        if not self.answers:
            raise PoolError(f'"answers" is empty; every question needs at least one trace. {AGAIN}')
        if "" in self.answers:
            at = self.answers.index("")
            raise PoolError(f"answers[{at}] is an empty string; a trace without an answer is null. Write null.")
        for key, values in (("tokens", self.tokens), ("confidence", self.confidence)):
            if values is not None and len(values) != len(self.answers):
                found = f'"{key}" has {len(values)} entries for {len(self.answers)} answers'
                raise PoolError(f'{found}; give one a trace. Correct it or leave "{key}" out.')
        for at, count in enumerate(self.tokens or ()):
            if type(count) is not int or not 0 <= count < 2**63:
                raise PoolError(f"tokens[{at}] is {_shown(count)}; tokens are whole numbers, 0 or more. Correct it.")
        for at, value in enumerate(self.confidence or ()):
            if value is not None and not (type(value) is float and 0.0 <= value < math.inf):
                law = "a confidence is finite and not negative, null where there is none"
                raise PoolError(f"confidence[{at}] is {_shown(value)}; {law}. Correct it.")


@dataclass(frozen=True, slots=True)
class Pool:
    """Recorded questions. ``kind`` is the answer type that the folder's manifest names, if it names one.

    ``skipped`` holds one message for each bad line that was passed over.
    """

    name: str
    questions: tuple[PooledQuestion, ...]
    kind: str | None = None
    skipped: tuple[str, ...] = ()


def read_pool(path: str | os.PathLike[str], *, confidence: Metric = "tail", skip_bad: bool = False) -> Pool:
    """The pool in one file; its name is the file's name without the suffix.

    The first bad line raises, unless ``skip_bad``: then bad lines are passed over and told in ``Pool.skipped``.
    ``confidence`` chooses among the paper's three trace confidences and does nothing for other pools.
    """
    path = Path(path)
    questions, problems = _load(path, confidence)
    if problems and not (skip_bad and questions):
        nothing_left = f" No other line is good either ({len(problems)} are bad)." if skip_bad else ""
        raise PoolError(problems[0] + nothing_left)
    return Pool(path.name[: -len(_suffix(path))], tuple(questions), _kind(path), tuple(problems))


def read_pools(
    paths: Iterable[str | os.PathLike[str]], *, confidence: Metric = "tail", skip_bad: bool = False
) -> list[Pool]:
    """The pool of every file, and of every pool file in each folder, sorted by name."""
    return [read_pool(path, confidence=confidence, skip_bad=skip_bad) for path in pool_files(paths)]


def pool_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Folders replaced by the pool files in them, sorted; the manifest and hidden files are none."""
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        found = sorted(file for file in path.iterdir() if file.name.lower().endswith(SUFFIXES))
        found = [file for file in found if file.name != MANIFEST and not file.name.startswith(".")]
        if not found:
            raise PoolError(f'folder "{path}" holds no pool; pools end in {", ".join(SUFFIXES)}. Name another folder.')
        files += found
    return files


def check_pool(path: str | os.PathLike[str]) -> list[str]:
    """Everything that is wrong with a pool file, one message a bad line; empty when all is well."""
    try:
        return _load(Path(path), "tail")[1]
    except PoolError as error:
        return [str(error)]


def write_pool(pool: Pool, path: str | os.PathLike[str]) -> None:
    """Write the questions in the format of the suffix; the file appears whole or not at all.

    What is read back is equal; name and kind belong to the file's name and to its folder's manifest.
    """
    path = Path(path)
    suffix = _suffix(path)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        draft.write_bytes(_parquet_bytes(pool) if suffix == ".parquet" else _json_bytes(pool, suffix))
        draft.replace(path)
    except OSError as error:
        raise PoolError(f"{_place(path)} cannot be written ({error.strerror or error}). Choose another path.") from None
    except UnicodeEncodeError as error:  # half a surrogate pair, which JSON can escape
        raise PoolError(f"{_place(path)}: Parquet cannot hold this pool ({error}). Write .jsonl instead.") from None
    finally:
        draft.unlink(missing_ok=True)


def _json_bytes(pool: Pool, suffix: str) -> bytes:
    lines = [json.dumps(_record(question), separators=(",", ":")) for question in pool.questions]
    text = "[\n" + ",\n".join(lines) + "\n]\n" if suffix == ".json" else "".join(f"{line}\n" for line in lines)
    return gzip.compress(text.encode(), mtime=0) if suffix == ".jsonl.gz" else text.encode()


def _parquet_bytes(pool: Pool) -> bytes:
    arrow, parquet = _pyarrow()
    text, many = arrow.string(), arrow.list_
    columns = {"id": text, "gold": text, "answers": many(text)}
    columns |= {"tokens": many(arrow.int64()), "confidence": many(arrow.float64())}
    table = arrow.Table.from_pylist([_record(q) for q in pool.questions], schema=arrow.schema(columns.items()))
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def _record(question: PooledQuestion) -> dict[str, object]:
    optional = {"tokens": question.tokens, "confidence": question.confidence}
    recorded = {key: values for key, values in optional.items() if values is not None}
    return {"id": question.id, "gold": question.gold, "answers": question.answers, **recorded}


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise PoolError('Parquet needs pyarrow, which is not here. Try: pip install "pets[parquet]"') from None


def _load(path: Path, metric: Metric) -> tuple[list[PooledQuestion], list[str]]:
    """The good questions of a file, and what is wrong with the others."""
    if metric not in METRICS:
        raise InputError(f"confidence is one of {', '.join(METRICS)}; got {metric!r}.")
    questions: list[PooledQuestion] = []
    problems: list[str] = []
    taken: dict[str, str] = {}
    for place, raw in _records(path):
        try:
            question = _question(raw, metric)
            if question.id in taken:
                found = f'"id" is {_shown(question.id)}, as on {taken[question.id]}; ids are unique'
                raise PoolError(f"{found}. Rename one or drop the line.")
        except PoolError as error:
            problems.append(f"{_place(path)} {place}: {error}")
            continue
        taken[question.id] = place
        questions.append(question)
    if not questions and not problems:
        raise PoolError(f"{_place(path)}: the file holds no question; a pool has at least one. Record it again.")
    return questions, problems


def _records(path: Path) -> Iterator[tuple[str, object]]:
    """Where each question stands and what stands there; a line comes as bytes, yet to be parsed."""
    if path.is_dir():
        raise PoolError(f'"{path}" is a folder; a pool is a file. Name a file in it.')
    suffix = _suffix(path)
    try:
        if suffix == ".parquet":
            yield from _parquet_rows(path)
        elif suffix == ".json":
            yield from _json_entries(path)
        else:
            with gzip.open(path) if suffix == ".jsonl.gz" else path.open("rb") as file:
                yield from _lines(file)
    except FileNotFoundError:
        raise PoolError(f'{_place(path)}: there is no file "{path}". Check the path.') from None
    except (OSError, EOFError, zlib.error) as error:
        found = getattr(error, "strerror", None) or error
        raise PoolError(f"{_place(path)} cannot be read ({found}). Check the file or copy it again.") from None


def _lines(file: Iterable[bytes]) -> Iterator[tuple[str, object]]:
    """Split at newlines alone: a JSON string may hold any of Unicode's other line ends."""
    return ((f"line {number}", line.rstrip(b"\r\n")) for number, line in enumerate(file, 1) if line.strip())


def _json_entries(path: Path) -> Iterator[tuple[str, object]]:
    """A list of questions, an object of them by id, a single one, or (not JSON as a whole) one a line."""
    raw = path.read_bytes()
    try:
        content = _parse(raw)
    except PoolError as error:
        if raw.lstrip().startswith(b"["):
            raise PoolError(f"{_place(path)}: {error}") from None
        yield from _lines(raw.split(b"\n"))
        return
    if isinstance(content, dict):
        by_id = "answers" not in content and all(isinstance(value, dict) for value in content.values())
        content = [{"id": key, **value} for key, value in content.items()] if by_id else [content]
    if not isinstance(content, list):
        raise PoolError(f"{_place(path)}: found {_shown(content)}; expected a list of questions. Check the file.")
    yield from ((f"entry {number}", entry) for number, entry in enumerate(content, 1))


def _parquet_rows(path: Path) -> Iterator[tuple[str, object]]:
    arrow, parquet = _pyarrow()
    try:
        rows = parquet.read_table(path, partitioning=None).to_pylist()
    except arrow.ArrowException as error:
        raise PoolError(f"{_place(path)} is not Parquet ({error}). Check the file or copy it again.") from None
    yield from ((f"row {number}", row) for number, row in enumerate(rows, 1))


def _parse(raw: bytes) -> object:
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PoolError(f"byte {error.start + 1} is not UTF-8. Save the file as UTF-8.") from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno}" if b"\n" in raw.strip() else f"column {error.colno}"
        raise PoolError(f"this is not JSON ({error.msg} at {at}). {REPAIR}") from None
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, 100,000 brackets
        raise PoolError(f"this JSON cannot be read ({error}). {REPAIR}") from None


def _question(raw: object, metric: Metric) -> PooledQuestion:
    record = _parse(raw) if isinstance(raw, bytes) else raw
    if not isinstance(record, dict):
        raise PoolError(f"found {_shown(record)}; a question is an object with id, gold and answers. {REPAIR}")
    if "gold" not in record and ("answer" in record or "correct_answer" in record):
        record = _from_paper(record, metric)
    for key, meaning in KEYS.items():
        if key not in record or (record[key] is None and key != "gold"):
            raise PoolError(f'"{key}" is missing; it is {meaning}. Add it or drop the line.')
    answers = [_text(answer, f"answers[{at}]") for at, answer in enumerate(_list(record, "answers") or ())]
    if answers and all(answer is None for answer in answers):
        found = f"all {len(answers)} traces failed (every answer is null); no vote exists to agree with"
        raise PoolError(f"{found}. {AGAIN}")
    tokens, confidence = _list(record, "tokens"), _list(record, "confidence")
    return PooledQuestion(
        id=_text(record["id"], '"id"') or "",
        answers=tuple(answers),
        gold=_text(record["gold"], '"gold"'),
        tokens=None if tokens is None else tuple(tokens),
        confidence=None if confidence is None else tuple(map(_float, confidence)),
    )


def _from_paper(record: Mapping[str, Any], metric: Metric) -> dict[str, Any]:
    """The paper's record under our keys. It has "" for a trace from which no answer could be taken."""
    gold = record.get("correct_answer")
    ours = {**record, "gold": record.get("answer") if gold is None else gold}
    if isinstance(record.get("answers"), list):
        ours["answers"] = [None if answer == "" else answer for answer in record["answers"]]
    entries = _list(record, "trace_confidence")
    if entries is not None:
        ours["confidence"] = [_picked(entry, f"trace_confidence[{at}]", metric) for at, entry in enumerate(entries)]
    return ours


def _picked(entry: Any, where: str, metric: Metric) -> Any:
    if isinstance(entry, dict) and "conf_summary" in entry:
        entry = entry["conf_summary"]
    if entry is not None and not isinstance(entry, dict):
        raise PoolError(f"{where} is {_shown(entry)}; expected an object with {METRICS[metric]}. {REPAIR}")
    return None if entry is None else entry.get(METRICS[metric])


def _list(record: Mapping[str, Any], key: str) -> list[Any] | None:
    values = record.get(key)
    if values is None or isinstance(values, list):
        return values
    raise PoolError(f'"{key}" is {_shown(values)}; expected a list with one entry a trace. {REPAIR}')


def _text(value: object, where: str) -> str | None:
    """A string as it stands, a number as Python writes it."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return str(value)
    raise PoolError(f"{where} is {_shown(value)}; expected a string, a number or null. {REPAIR}")


def _float(value: Any) -> Any:
    """JSON writes 20.0 as 20 if it likes; what is no number, or too large for one, is left to be refused."""
    return float(value) if type(value) is int and value.bit_length() <= 1023 else value


def _shown(value: object) -> str:
    """A value as JSON has it, cut to what fits in a message."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _place(path: Path) -> str:
    return f'pool "{path.name}"'


def _suffix(path: Path) -> str:
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise PoolError(f"{_place(path)}: its format is unknown; pools end in {', '.join(SUFFIXES)}. Rename or convert it.")


def _kind(path: Path) -> str | None:
    """What the manifest beside the file calls the pool's kind of answers."""
    manifest = path.with_name(MANIFEST)
    try:
        entries = _parse(manifest.read_bytes()) if manifest.is_file() else []
    except PoolError as error:
        raise PoolError(f'manifest "{manifest}": {error}') from None
    name = path.name[: -len(_suffix(path))]
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("pool") == name and isinstance(entry.get("kind"), str):
            return str(entry["kind"])
    return None


@dataclass(frozen=True, slots=True)
class Summary:
    """A pool in figures; ``None`` where nothing was recorded to compute one from. Strings are compared as they stand.

    ``answers`` are the different ones seen for a question. ``pass_at_1`` is the mean share of traces that equal gold
    (no answer is wrong), ``vote_accuracy`` the share of questions whose vote does. ``unanimous`` and ``leader_share``
    are over the votes cast. ``confidence_missing`` is the share of all traces without one.
    """

    pool: str
    kind: str | None
    questions: int
    skipped: int
    traces: int
    traces_min: int
    traces_max: int
    answers_mean: float
    answers_max: int
    pass_at_1: float | None
    vote_accuracy: float | None
    unanimous: float | None
    leader_share: float | None
    no_answer: float
    tokens_mean: float | None
    tokens_median: float | None
    tokens_p95: float | None
    tokens_max: int | None
    confidence_mean: float | None
    confidence_sd: float | None
    confidence_missing: float | None


def summarize(pool: Pool) -> Summary:
    """The figures of a pool.

    >>> summary = summarize(Pool("toy", (PooledQuestion("q1", ("A", "B", "A", None), gold="A"),)))
    >>> summary.pass_at_1, summary.vote_accuracy, round(summary.leader_share, 3), summary.no_answer
    (0.5, 1.0, 0.667, 0.25)
    """
    questions = pool.questions
    if not questions:
        raise PoolError(f'pool "{pool.name}" has no question; there is nothing to summarize. Read it again.')
    votes = [Counter(answer for answer in question.answers if answer is not None) for question in questions]
    cast = [count for count in votes if count]
    sizes = [len(question.answers) for question in questions]
    judged = [question for question in questions if question.gold is not None]
    tokens = [count for question in questions for count in question.tokens or ()]
    recorded = [question.confidence for question in questions if question.confidence is not None]
    confidences = [value for values in recorded for value in values if value is not None]
    return Summary(
        pool=pool.name,
        kind=pool.kind,
        questions=len(questions),
        skipped=len(pool.skipped),
        traces=sum(sizes),
        traces_min=min(sizes),
        traces_max=max(sizes),
        answers_mean=sum(map(len, votes)) / len(votes),
        answers_max=max(map(len, votes)),
        pass_at_1=_mean([q.answers.count(q.gold) / len(q.answers) for q in judged]),
        vote_accuracy=_mean([majority(q.answers) == q.gold for q in judged]),
        unanimous=_mean([len(count) == 1 for count in cast]),
        leader_share=_mean([max(count.values()) / count.total() for count in cast]),
        no_answer=(sum(sizes) - sum(count.total() for count in votes)) / sum(sizes),
        tokens_mean=_mean(tokens),
        tokens_median=float(np.median(tokens)) if tokens else None,
        tokens_p95=float(np.percentile(tokens, 95)) if tokens else None,
        tokens_max=max(tokens, default=None),
        confidence_mean=_mean(confidences),
        confidence_sd=float(np.std(confidences)) if confidences else None,
        confidence_missing=(sum(sizes) - len(confidences)) / sum(sizes) if recorded else None,
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
