"""Lines that arrive one by one, perhaps for ever, and the questions in them: JSONL, or CSV under its head."""

import asyncio
import io
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from typing import BinaryIO

from pets.errors import InputError, PetsError
from pets.questions import Problem
from pets.questions.files import RENAMED_TYPE, is_answer_type, problem_from
from pets.tabular import Record
from pets.tabular.reading import FileRow, UnreadableRowsError, separated_rows, sniffed_suffix

READ_AHEAD_LINES = 64
CHUNK_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 24  # a stream without line ends must not fill the memory

Parse = Callable[[Record, int], Problem]


async def lines(file: BinaryIO) -> AsyncIterator[bytes | FileRow]:
    """The lines of a file or pipe as they come; of CSV its rows, and a blank for every other line.

    A thread of its own reads them: one that waits for a line cannot be cancelled, and must not keep the program from
    ending.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | FileRow | None] = asyncio.Queue()
    room = threading.Semaphore(READ_AHEAD_LINES)

    def read() -> None:
        with suppress(RuntimeError):  # the loop has ended: no more lines are wanted
            with suppress(OSError, ValueError):  # a pipe that broke, or was closed, has ended
                for line in _with_csv_rows(_split(file)):
                    room.acquire()
                    loop.call_soon_threadsafe(queue.put_nowait, line)
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="pets-lines", daemon=True).start()
    while (line := await queue.get()) is not None:
        room.release()
        yield line


def _split(file: BinaryIO) -> Iterator[bytes]:
    """Lines without their ends, none too long. Read past the file's own buffer, whose lock would stay taken."""
    with ExitStack() as stack:
        raw: BinaryIO | io.FileIO = file
        with suppress(io.UnsupportedOperation, AttributeError):
            raw = stack.enter_context(io.FileIO(os.dup(file.fileno())))
        rest, skipping = b"", False
        while chunk := raw.read(CHUNK_BYTES):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                if not skipping:
                    yield line
                skipping = False
            if len(rest) > MAX_LINE_BYTES and not skipping:
                yield rest[:40]  # no question: it is refused under its number, and the rest of it passed over
                skipping = True
            if skipping:
                rest = b""
        if rest:
            yield rest


def _with_csv_rows(lines: Iterator[bytes]) -> Iterator[bytes | FileRow]:
    """Lines as they are or, where the first of them is a head of CSV, its rows, under the numbers of their last lines.

    A row that is no CSV is told, and the next line begins another.
    """
    first = b""
    for first in lines:
        if first.strip():
            break
        yield first
    if sniffed_suffix(first) != ".csv":
        yield from chain([first] if first.strip() else [], lines)
        return
    head, taken, broken = first.decode("utf-8-sig", "replace"), 1, True  # lines since the last row: the head

    def texts() -> Iterator[str]:
        nonlocal taken
        size = 0
        for line in lines:
            size = len(line) + (size if taken else 0)
            taken += 1
            if size > MAX_LINE_BYTES:
                raise UnreadableRowsError(f"a row has over {MAX_LINE_BYTES:,} bytes. Is a quote missing?")
            yield line.decode("utf-8", "surrogateescape") + "\n"

    def numbered(row: FileRow) -> Iterator[bytes | FileRow]:
        nonlocal taken
        yield from [b""] * (taken - 1)
        taken = 0
        yield row

    while broken:
        broken = False
        try:
            for row in separated_rows(chain([head], texts())):
                yield from numbered(row)
        except UnreadableRowsError as error:
            broken = True
            yield from numbered(FileRow("", None, error.problem))


async def problems_in(
    arriving: AsyncIterator[bytes | FileRow], parse: Parse, refuse: Callable[[int, str], None]
) -> AsyncIterator[Problem]:
    """The question of each line; a line that holds none is refused with its number, and the stream goes on.

    Blank lines are passed over: they count as lines, and not in the ids of questions that bring none.
    """
    line_number = number = 0
    async for line in arriving:
        line_number += 1
        if isinstance(line, bytes) and not line.strip():
            continue
        number += 1
        try:
            if isinstance(line, FileRow) and line.problem:
                raise InputError(line.problem)
            record = line.value if isinstance(line, FileRow) else json.loads(line)
            json.dumps(record, ensure_ascii=False).encode()  # half a surrogate pair can be sent to no server
            if not isinstance(record, dict):
                raise InputError("a question is an object with id and question.")
            problem = parse(record, number)
        except PetsError as error:
            refuse(line_number, str(error))
        except (ValueError, RecursionError) as error:
            refuse(line_number, f"this is not JSON in UTF-8 ({error}).")
        else:
            yield problem


def spoken_problem(fields: dict[str, str], answer_type: str) -> Parse:
    """A record's question, for a model; ``answer_type`` is how answers are read where it does not say."""

    def parse(record: Record, number: int) -> Problem:
        if "gold" not in fields and "answer_type" not in record and is_answer_type(record.get("answer")):
            raise InputError(RENAMED_TYPE)
        return problem_from(record, number, fields, answer_type)

    return parse


def replayed_problem(made: Callable[[str], Problem]) -> Parse:
    """A record's question out of a recorded pool: only its id matters."""

    def parse(record: Record, number: int) -> Problem:
        id = record.get("id")
        if not isinstance(id, str | int) or isinstance(id, bool):
            raise InputError('a replayed question is named by its "id", as in the pool.')
        return made(str(id))

    return parse
