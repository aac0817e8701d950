"""Recorded answers as other tools write them, as the records of a pool: by lm-eval, inspect_ai, NeMo-Skills and others.

A record of a pool has lists (``"answers"``, ``"texts"``); whatever has not is one of these, told by its first row.
"""

import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any

from pets.errors import PoolError
from pets.prompts import is_cut
from pets.tabular.reading import REPAIR, FileRow, Record, columns_of, listed, max_unpacked, parse_json, too_large

NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "question_id", "unique_id", "doc_id", "problem_id"),
    "gold": ("gold", "correct_answer", "expected_answer", "answer", "target", "label", "solution"),
    "answers": ("answers",),
    "texts": ("texts", "responses", "completions", "outputs", "generations"),
    "tokens": ("tokens",),
    "confidence": ("confidence",),
}
"""What a question of a pool has, and under which names; the first of them that is there."""

TRACE_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": (*NAMES["id"], "question", "problem", "prompt"),
    "gold": ("gold", "correct_answer", "expected_answer", "target", "label", "solution"),
    "answers": ("predicted_answer", "answer", "prediction", "extracted_answer"),
    "texts": ("text", "response", "completion", "output", "generation"),
    "tokens": ("num_generated_tokens", "tokens", "completion_tokens", "output_tokens"),
    "confidence": ("confidence",),
    "number": ("number", "trace", "epoch", "repeat", "sample"),
    "finish": ("finish", "finish_reason", "stop_reason"),
}
"""The same of a file with one trace per row."""

NUMBERS = {"tokens": int, "confidence": float, "number": int}
UNREAD = "[invalid]"  # what lm-eval's filters leave where they read nothing
NOT_SAMPLED = "[pets: not sampled]"  # what a response of lm-eval's model `pets` begins or ends with that is a copy
Trace = dict[str, Any]
"""One trace of a file that has one per row, under :data:`TRACE_NAMES`, and whether it was ``cut``."""
ZSTD = 93  # a zip's number for it
LIKELIHOODS = "it holds log-likelihoods and no texts; a pool needs generations (output_type: generate_until)."
WINNERS = "it holds the winner of each vote and not its traces. Keep its_hub's results: return_response_only=False."


def seed_files(folder: Path) -> list[Path]:
    """The files of NeMo-Skills in a folder by seed: the same questions, one trace of each per file."""
    seeds = ((file.name[len("output-rs") : -len(".jsonl")], file) for file in folder.glob("output-rs*.jsonl"))
    return [file for _, file in sorted((int(seed), file) for seed, file in seeds if seed.isdecimal())]


def joined_seeds(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The paths, where several files of :func:`seed_files` are named the folder that they are in."""
    files = list(map(Path, paths))
    for folder in {file.parent for file in files if file.name.startswith("output-rs")}:
        seeds = seed_files(folder)
        named = [seed for seed in seeds if seed in files]
        if 1 < len(named) < len(seeds):
            raise PoolError(
                f'{len(named)} of {len(seeds)} "output-rs*.jsonl" in "{folder}" are named; all of a folder are one '
                "pool. Name the folder, or put these into one of their own."
            )
        if len(named) > 1:
            files = [folder if file == named[0] else file for file in files if file not in named[1:]]
    return files


def pool_records(rows: Iterable[FileRow], fields: Mapping[str, str] | None = None) -> Iterable[FileRow]:
    """The questions of a pool, whatever its rows are; rows with a problem are handed on."""
    fields, remaining, begun = fields or {}, iter(rows), list[FileRow]()
    for row in remaining:
        begun.append(row)
        if not row.problem and isinstance(row.value, dict):
            break
    else:
        return begun
    rows, first = chain(begun, remaining), row.value
    questions = (_mapped(row, fields) for row in rows) if fields else rows
    ours = renamed(_mapped(row, fields).value)
    if any(isinstance(listed(ours.get(name)), list) for name in ("answers", "texts")):
        return questions
    if {"budget", "response", "correct"} <= first.keys():
        return [FileRow(row.place, None, WINNERS)]
    if "doc_id" in first and ("resps" in first or "filtered_resps" in first):
        return grouped(rows, _lm_eval_traces)
    columns = columns_of(first, TRACE_NAMES, fields)
    cells = [first.get(columns[name]) for name in ("answers", "texts") if name in columns]
    if cells and not any(isinstance(cell, list | dict) for cell in cells):
        return grouped(rows, lambda record: [_trace(record, fields)])
    return questions


def _mapped(row: FileRow, fields: Mapping[str, str]) -> FileRow:
    """The row with the columns that the user named under the names of a pool."""
    if row.problem or not isinstance(row.value, dict):
        return row
    named = {name: row.value.get(column) for name, column in fields.items()}
    others = {name: value for name, value in row.value.items() if name not in fields.values()}
    return row._replace(value=others | named)


def renamed(record: Record) -> Record:
    """The record with the names of a pool beside the usual ones that it has.

    >>> renamed({"question_id": 7, "responses": ["so 4"], "target": "4"})
    {'id': 7, 'gold': '4', 'texts': ['so 4'], 'question_id': 7, 'responses': ['so 4'], 'target': '4'}
    """
    columns = ((name, column) for name, usual in NAMES.items() for column in reversed(usual))
    usual = {name: record[column] for name, column in columns if record.get(column) is not None}
    return usual | record


def _trace(record: Record, fields: Mapping[str, str]) -> Trace:
    trace = {name: record.get(column) for name, column in columns_of(record, TRACE_NAMES, fields).items()}
    if trace.get("id") is None:
        raise PoolError('"id" is missing: which question is this a trace of? --field id=NAME says where it stands.')
    for name, kind in NUMBERS.items():
        if isinstance(trace.get(name), str):  # a number that stands in a cell as a text
            with suppress(ValueError):
                trace[name] = kind(trace[name])
    return trace | {"cut": is_cut(str(trace.get("finish")))}


def _lm_eval_traces(record: Record) -> list[Trace]:
    """The repeats of one document of an lm-eval ``samples_*.jsonl``."""
    texts = _flat(record.get("resps"))
    filtered = _flat(record.get("filtered_resps"))
    if not texts and (record.get("resps") or not filtered):
        raise PoolError(LIKELIHOODS)
    if not texts or len(filtered) != len(texts):
        texts, filtered = texts or [None] * len(filtered), [] if texts else filtered
    answers = [None if answer == UNREAD else answer for answer in filtered] or [None] * len(texts)
    question = {"id": record["doc_id"], "gold": _first(record.get("target"))}
    traces = [
        question | {"answers": answer, "texts": text}
        for answer, text in zip(answers, texts, strict=True)
        if text is None or not (text.startswith(NOT_SAMPLED) or text.endswith(NOT_SAMPLED))
    ]
    if not traces:
        raise PoolError("all of its responses are copies: none was sampled. Drop the line or sample it again.")
    return traces


def _first(target: Any) -> Any:
    """The first of several right answers."""
    return target[0] if isinstance(target, list) and target else target


def _flat(values: Any) -> list[Any]:
    """The texts of ``[[text, ...]]`` or ``[text, ...]``; none where they are log-likelihoods."""
    if isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else []


def grouped(rows: Iterable[FileRow], traces_of: Callable[[Record], list[Trace]]) -> Iterator[FileRow]:
    """One row per question. A document that several of lm-eval's filters have read is taken once."""
    places: dict[str, str] = {}
    groups: dict[str, list[Trace]] = {}
    filters: dict[str, Any] = {}
    for row in rows:
        if row.problem or not isinstance(row.value, dict):
            yield row
            continue
        try:
            traces = traces_of(row.value)
        except PoolError as error:
            yield FileRow(row.place, None, str(error))
            continue
        except (AttributeError, LookupError, TypeError) as error:
            yield FileRow(row.place, None, f"its fields are not those of its tool's records ({error!r}). {REPAIR}")
            continue
        id = str(traces[0]["id"])
        if "filtered_resps" in row.value and filters.setdefault(id, row.value.get("filter")) != row.value.get("filter"):
            continue
        places.setdefault(id, row.place)
        groups.setdefault(id, []).extend(traces)
    # "answer" beside a text is the data set's where there is no other gold, and where it never varies in a question.
    all_traces = [trace for traces in groups.values() for trace in traces]
    varies = any(len({str(trace.get("answers")) for trace in traces}) > 1 for traces in groups.values())
    answer_is_gold = not varies and all(
        t.get("gold") is None and t.get("texts") is not None and t.get("answers") is not None for t in all_traces
    )
    yield from (FileRow(places[id], _question(traces, answer_is_gold)) for id, traces in groups.items())


def _question(traces: list[Trace], answer_is_gold: bool) -> Record:
    """A question as a pool has it, from its traces."""
    if all(type(trace.get("number")) is int for trace in traces):
        traces = sorted(traces, key=lambda trace: trace["number"])
    columns = {name: [trace.get(name) for trace in traces] for name in (*NAMES, "cut")}
    ids, golds = columns.pop("id"), columns.pop("gold")
    record = {"id": ids[0], "gold": next((gold for gold in golds if gold is not None), None)}
    lists = {name: values for name, values in columns.items() if any(v is not None and v is not False for v in values)}
    if answer_is_gold:
        record["gold"] = lists.pop("answers")[0]
    elif not any(columns["texts"]):
        lists["answers"] = columns["answers"]
    if None in columns["tokens"]:
        lists.pop("tokens", None)
    return record | lists


def inspect_traces(sample: Record) -> list[Trace]:
    """The trace of one sample of an inspect_ai log, which has one for each epoch."""
    output = sample.get("output")
    output = output if isinstance(output, dict) else {}
    choices = output.get("choices") or [{}]
    choice = choices[0] if isinstance(choices[0], dict) else {}
    text = content_text((choice.get("message") or {}).get("content")) or output.get("completion") or None
    scores = [score for score in (sample.get("scores") or {}).values() if isinstance(score, dict)]
    answer = next((score["answer"] for score in scores if isinstance(score.get("answer"), str)), None)
    usage, gold = output.get("usage") or {}, _first(sample.get("target")) or None
    trace = {"id": sample.get("id"), "gold": gold, "answers": answer or None, "texts": text}
    counts = {"tokens": usage.get("output_tokens"), "number": sample.get("epoch")}
    return [trace | counts | {"cut": is_cut(str(choice.get("stop_reason")))}]


def content_text(content: Any) -> str:
    """The text of a message's content: a string, or parts of which those of text count."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def zipped_samples(path: Path, max_unpacked_bytes: int | None = None) -> Iterator[FileRow]:
    """The samples of an inspect_ai ``.eval`` file, a zip with one JSON file per sample and epoch."""
    try:
        limit = left = max_unpacked(path, max_unpacked_bytes)
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = member.filename
                if not (name.startswith("samples/") and name.endswith(".json")):
                    continue
                raw = _unpacked(archive, member, left + 1)
                left -= len(raw)
                if left < 0:
                    raise PoolError(f'pool "{path.name}" cannot be read ({too_large(limit)}).')
                value, problem = parse_json(raw)
                yield FileRow(name.removeprefix("samples/"), value, problem)
    except FileNotFoundError:
        raise PoolError(f'pool "{path.name}": there is no file "{path}". Check the path.') from None
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error) as error:
        raise PoolError(f'pool "{path.name}" is no inspect_ai log ({error}). Check the file.') from None
    except (NotImplementedError, RuntimeError) as error:
        raise PoolError(
            f'pool "{path.name}" cannot be unpacked by this Python ({error}). '
            "Convert it: inspect log convert --to json --output-dir DIR FILE."
        ) from None


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    """At most so many bytes of a member, which inspect_ai packs with zstd; Python's zipfile reads that since 3.14."""
    if member.compress_type != ZSTD or sys.version_info >= (3, 14):
        with archive.open(member) as file:
            return file.read(most)
    try:
        import zstandard
    except ImportError:
        raise PoolError(
            f'pool "{Path(archive.filename or "").name}" is packed with zstd, which Python reads since 3.14. '
            "Install it: pip install zstandard."
        ) from None
    packed = copy(member)
    packed.compress_type, packed.file_size = zipfile.ZIP_STORED, member.compress_size
    del packed.CRC  # it is that of the unpacked bytes
    try:
        with archive.open(packed) as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
            raw = reader.read(most)
    except zstandard.ZstdError as error:
        raise zipfile.BadZipFile(str(error)) from None
    if len(raw) < most and zlib.crc32(raw) != member.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {member.filename!r}")
    return raw
