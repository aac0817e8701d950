"""Reads recorded pools: every format, the paper's own records, the pools that ship; problems are told with a place."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pets.arguments import checked
from pets.confidence import Kind as Metric
from pets.errors import InputError, PoolError
from pets.patterns import Pattern
from pets.pools import formats
from pets.pools.question import RESAMPLE, Pool, PooledQuestion
from pets.tabular import FileRow, read_rows, suffix_of
from pets.tabular.reading import REPAIR, Table, as_json, as_text, listed, parse_json, plain_record, table_records

SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".parquet")
"""What a pool is written as, and what stands for one in a folder."""
READ_SUFFIXES = (*SUFFIXES, ".csv", ".tsv", ".eval")
SHIPPED = {"starter": Path(__file__).with_name("data") / "starter.jsonl.gz"}
"""The pools that come with PETS, by name."""

PAPER_KEYS = {"mean": "mean_confidence", "tail": "tail_2048_mean_conf", "bottom": "bottom_0.1_sliding_2048_mean_conf"}
"""Where the paper's ``trace_confidence`` holds them; it has no lowest group."""

MANIFEST = "MANIFEST.json"
NO_ANSWERS = (
    '"answers" is missing; it is a list with one answer per trace, null for a trace without one, or "texts" with what '
    "traces said. --field answers=NAME says where it stands."
)
PLACES_SHOWN = 4
VALUES = Pattern(r'\d+| is ‹(?:".*?"|[^ ;,.]+)')
"""What differs between two problems of one kind: numbers, and the value that was found."""


@checked
def read_pool(
    path: str | os.PathLike[str],
    *,
    confidence: Metric = "tail",
    skip_bad: bool = False,
    max_unpacked_bytes: int | None = None,
    fields: Mapping[str, str] | None = None,
) -> Pool:
    """The pool in one file, or in a folder of NeMo-Skills' ``output-rs*.jsonl``; its name is theirs without suffix.

    The name of a pool that comes with PETS stands for it, where no file has that name.
    The first bad line raises, unless ``skip_bad``: then bad lines are passed over and told in ``Pool.skipped``.
    ``fields`` says under which name the file holds what (``{"answers": "predictions"}``), ``confidence`` which kind
    counts where a pool has several. A compressed file may unpack to ``max_unpacked_bytes``; if not given, to 64 MB or a
    hundred times its size, whichever is more.
    """
    path = _shipped(Path(path))
    questions, problems = _gathered(_rows(path, max_unpacked_bytes, fields), confidence, f"{pool_name(path)}: the file")
    messages = tuple(f"{pool_name(path)} {place}: {problem}" for place, problem in problems)
    if messages and not (skip_bad and questions):
        nothing_left = f" No other line is good either ({len(messages)} are bad)." if skip_bad else ""
        raise PoolError(messages[0] + nothing_left)
    return Pool(_stem(path), tuple(questions), _kind(path), messages)


@checked
def from_frame(
    frame: Any, name: str = "frame", *, confidence: Metric = "tail", fields: Mapping[str, str] | None = None
) -> Pool:
    """The pool in a table of pandas, polars or pyarrow: a question per row, or a trace per row.

    >>> rows = [{"id": "q1", "answer": "4", "gold": "4"}, {"id": "q1", "answer": "5", "gold": "4"}]
    >>> from_frame(rows).questions[0].answers
    ('4', '5')
    """
    records = table_records(frame)
    rows = []
    for number, record in enumerate(frame if records is None else records, 1):
        if not isinstance(record, Mapping):
            raise PoolError(f"row {number} is {type(record).__name__}; a table has rows of named values. Pass a frame.")
        rows.append(FileRow(f"row {number}", plain_record(record)))
    questions, problems = _gathered(formats.pool_records(rows, fields), confidence, f'pool "{name}": the table')
    if problems:
        raise PoolError(f'pool "{name}" {": ".join(problems[0])}')
    return Pool(name, tuple(questions))


def read_pools(
    paths: Iterable[str | os.PathLike[str]], *, confidence: Metric = "tail", skip_bad: bool = False
) -> list[Pool]:
    """The pool of every file, and of every pool file in each folder, sorted by name."""
    return [read_pool(path, confidence=confidence, skip_bad=skip_bad) for path in pool_files(paths)]


def pool_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Folders replaced by the pool files in them, sorted; the manifest and hidden files are none.

    A folder of NeMo-Skills' ``output-rs*.jsonl`` is one pool, and so are these files where all of them are named.
    """
    files: list[Path] = []
    for path in formats.joined_seeds(paths):
        if not path.is_dir() or formats.seed_files(path):
            files.append(_shipped(path))
            continue
        pools = sorted(file for file in path.iterdir() if file.name.lower().endswith(SUFFIXES))
        pools = [file for file in pools if file.name != MANIFEST and not file.name.startswith(".")]
        if not pools:
            raise PoolError(f'folder "{path}" holds no pool; pools end in {", ".join(SUFFIXES)}. Name another folder.')
        files += pools
    return files


def load(name: str, *, confidence: Metric = "tail") -> Pool:
    """A pool that comes with PETS; ``confidence`` chooses the kind that votes are weighted by.

    >>> pool = load("starter")
    >>> len(pool.questions[0].answers), sorted(pool.questions[0].confidences)
    (128, ['bottom', 'lowest', 'mean', 'tail'])
    """
    if name not in SHIPPED:
        raise PoolError(f"no pool called {name!r} comes with pets. Shipped: {', '.join(SHIPPED)}.")
    return read_pool(SHIPPED[name], confidence=confidence)


def pools_of(pools: Any) -> list[Pool]:
    """The pools that a user means: a file, a folder, "starter", a table, records, a pool, or several of these.

    >>> [pool.name for pool in pools_of(["starter", [{"id": "q1", "answers": ["4", "5"]}]])]
    ['starter', 'pool']
    """
    if isinstance(pools, Pool):
        return [pools]
    if isinstance(pools, str | os.PathLike):
        return read_pools([pools])
    listed_pools = pools if isinstance(pools, list | tuple) else []
    if isinstance(pools, Table) or (listed_pools and isinstance(listed_pools[0], Mapping)):
        return [from_frame(pools, "pool")]
    if not listed_pools:
        raise InputError(
            f"{as_json(pools)} is no pool; expected a file, a folder, a Pool, a table of pandas, polars or pyarrow, a "
            "list of records, or a list of these."
        )
    if all(isinstance(part, str | os.PathLike) for part in listed_pools):
        return read_pools(listed_pools)
    return [pool for part in listed_pools for pool in pools_of(part)]


def check_pool(path: str | os.PathLike[str], *, fields: Mapping[str, str] | None = None) -> list[str]:
    """Everything that is wrong with a pool file, one message per kind of problem; empty when all is well."""
    path = Path(path)
    try:
        problems = _gathered(_rows(path, None, fields), "tail", f"{pool_name(path)}: the file")[1]
    except PoolError as error:
        return [str(error)]
    alike: dict[str, list[tuple[str, str]]] = {}
    for problem in problems:
        alike.setdefault(VALUES.sub("", problem[1]), []).append(problem)
    messages = []
    for (first, message), *others in alike.values():
        places = ", ".join([place for place, _ in others[:PLACES_SHOWN]] + ["..."] * (len(others) > PLACES_SHOWN))
        more = f" And {len(others):,} more like it: {places}." if others else ""
        messages.append(f"{pool_name(path)} {first}: {message}{more}")
    return messages


def pool_name(path: Path) -> str:
    """The pool as messages call it."""
    return f'pool "{path.name}"'


def _shipped(path: Path) -> Path:
    """The pool of that name that comes with PETS, unless a file has the name."""
    return path if path.exists() else SHIPPED.get(str(path), path)


def _stem(path: Path) -> str:
    return path.resolve().name if path.is_dir() else path.name[: -len(pool_suffix(path))]


def pool_suffix(path: Path) -> str:
    """The suffix of a pool file; any other raises."""
    if suffix := suffix_of(path, READ_SUFFIXES):
        return suffix
    raise PoolError(
        f"{pool_name(path)}: its format is unknown; pools end in {', '.join(READ_SUFFIXES)}. Rename or convert it."
    )


def _gathered(
    rows: Iterable[FileRow], metric: Metric, source: str
) -> tuple[list[PooledQuestion], list[tuple[str, str]]]:
    """The good questions, and the place of each bad one with its problem; ``source`` begins a message."""
    questions: dict[str, PooledQuestion] = {}
    problems: list[tuple[str, str]] = []
    places: dict[str, str] = {}
    for number, (place, record, problem) in enumerate(rows, 1):
        try:
            if problem:
                raise PoolError(problem)
            question = _question(record, metric, number)
            if above := places.get(question.id):
                repeated = f'"id" is {as_json(question.id)}, as on {above}; ids are unique'
                raise PoolError(f"{repeated}. Rename one or drop the line.")
            places[question.id], questions[question.id] = place, question
        except PoolError as error:
            problems.append((place, str(error)))
    if not questions and not problems:
        raise PoolError(f"{source} holds no question; a pool has at least one. Record it again.")
    return list(questions.values()), problems


def _rows(path: Path, max_unpacked_bytes: int | None, fields: Mapping[str, str] | None) -> Iterable[FileRow]:
    """The questions of a pool file, whatever its format."""
    if not path.is_dir() and pool_suffix(path) == ".eval":
        return formats.grouped(formats.zipped_samples(path, max_unpacked_bytes), formats.inspect_traces)
    read = partial(read_rows, noun="pool", error=PoolError, max_unpacked_bytes=max_unpacked_bytes)
    if seeds := formats.seed_files(path):
        together = (row._replace(place=f"{file.name} {row.place}") for file in seeds for row in read(file))
        return formats.pool_records(together, fields)
    if path.suffix.lower() != ".json":
        return formats.pool_records(read(path), fields)
    entries = list(read(path))
    content = entries[0].value if len(entries) == 1 and isinstance(entries[0].value, dict) else {}
    if "eval" in content and isinstance(content.get("samples"), list):
        samples = (FileRow(f"sample {number}", sample) for number, sample in enumerate(content["samples"], 1))
        return formats.grouped(samples, formats.inspect_traces)
    if content and all(isinstance(value, dict) for value in content.values()):
        by_id = enumerate(content.items(), 1)
        entries = [FileRow(f"entry {n}", {"id": id, **value}) for n, (id, value) in by_id]
    return formats.pool_records(entries, fields)


def _question(record: object, metric: Metric, number: int) -> PooledQuestion:
    if not isinstance(record, dict):
        raise PoolError(f"found {as_json(record)}; a question is an object with id, gold and answers. {REPAIR}")
    if "gold" not in record and ("answer" in record or "correct_answer" in record):
        record = _from_paper(record, metric)
    record = formats.renamed(record)
    texts, answers = _texts(record, "texts"), _texts(record, "answers")
    if answers is None and texts is None:
        raise PoolError(NO_ANSWERS)
    if texts is None and answers and all(answer is None for answer in answers):
        failure = f"all {len(answers)} traces failed (every answer is null); no vote exists to agree with"
        raise PoolError(f"{failure}. {RESAMPLE}")
    kinds = record.get("confidences") or {}  # Parquet has null where there are none
    if not isinstance(kinds, dict):
        raise PoolError(f'"confidences" is {as_json(kinds)}; expected an object with a list for each kind. {REPAIR}')
    lists = {str(kind): values for kind in kinds if (values := _list(kinds, kind, _float)) is not None}
    confidence = _list(record, "confidence", _float)
    if lists and confidence is None:
        if metric not in lists:
            raise PoolError(f'"confidences" has {", ".join(lists)} and not {metric}. Choose one of these.')
        confidence = lists[metric]
    return PooledQuestion(
        id=str(number) if record.get("id") is None else as_text(record["id"], '"id"', PoolError) or "",
        answers=(None,) * len(texts or ()) if answers is None else answers,
        gold=as_text(record.get("gold"), '"gold"', PoolError),
        tokens=_list(record, "tokens"),
        confidence=confidence,
        confidences=lists,
        texts=texts,
        cut=_list(record, "cut"),
    )


def _texts(record: Mapping[str, Any], key: str) -> tuple[str | None, ...] | None:
    """A text or null for each trace; its_hub and others have messages."""
    values = _list(record, key)
    if values is None:
        return None
    texts = (formats.content_text(v["content"]) if isinstance(v, dict) and "content" in v else v for v in values)
    return tuple(as_text(text, f"{key}[{at}]", PoolError) for at, text in enumerate(texts))


def _from_paper(record: Mapping[str, Any], metric: Metric) -> dict[str, Any]:
    """The paper's record under our keys. It has "" for a trace from which no answer could be taken."""
    gold = record.get("correct_answer")
    ours = {**record, "gold": record.get("answer") if gold is None else gold}
    if isinstance(record.get("answers"), list):
        ours["answers"] = [None if answer == "" else answer for answer in record["answers"]]
    entries = _list(record, "trace_confidence")
    if entries is None:
        return ours
    if metric not in PAPER_KEYS:
        raise PoolError(f"the paper's records hold no {metric} confidence. Choose one of {', '.join(PAPER_KEYS)}.")
    ours["confidence"] = []
    for at, entry in enumerate(entries):
        summary = entry.get("conf_summary", entry) if isinstance(entry, dict) else entry
        if summary is not None and not isinstance(summary, dict):
            expected = f"expected an object with {PAPER_KEYS[metric]}"
            raise PoolError(f"trace_confidence[{at}] is {as_json(summary)}; {expected}. {REPAIR}")
        ours["confidence"].append(None if summary is None else summary.get(PAPER_KEYS[metric]))
    return ours


def _list(record: Mapping[str, Any], key: str, kind: Callable[[Any], Any] | None = None) -> tuple[Any, ...] | None:
    values = listed(record.get(key))
    if values is None or isinstance(values, list):
        return None if values is None else tuple(map(kind, values) if kind else values)
    raise PoolError(f'"{key}" is {as_json(values)}; expected a list with one entry per trace. {REPAIR}')


def _float(value: Any) -> Any:
    """JSON writes 20.0 as 20 if it likes; what is no number, or too large for one, is left to be refused."""
    return float(value) if type(value) is int and value.bit_length() <= 1023 else value


def _kind(path: Path) -> str | None:
    """The pool's kind of answers, by the manifest beside the file."""
    manifest = path.with_name(MANIFEST)
    entries, problem = parse_json(manifest.read_bytes()) if manifest.is_file() else ([], "")
    if problem:
        raise PoolError(f'manifest "{manifest}": {problem} Repair it or remove it.')
    name = _stem(path)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("pool") == name and isinstance(entry.get("kind"), str):
            return str(entry["kind"])
    return None
