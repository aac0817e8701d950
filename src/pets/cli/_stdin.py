"""Rows that arrive one by one, perhaps for ever, and the questions in them: JSONL, or CSV under its head."""

import asyncio
import io
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import BinaryIO

from pets.errors import InputError, PetsError
from pets.prompts import Prompt
from pets.questions import Problem
from pets.questions.files import RENAMED_TYPE, is_answer_type, problem_from, record_of
from pets.tabular import FileRow, Record
from pets.tabular.reading import json_lines, separated_rows, sniffed_suffix

READ_AHEAD_ROWS = 64
MAX_LINE_BYTES = 1 << 24  # a stream without line ends must not fill the memory

Parse = Callable[[Record, int], Problem]


async def arriving_rows(file: BinaryIO) -> AsyncIterator[FileRow]:
    """Yield the rows of a file or pipe as they come, with their line numbers.

    A thread of its own reads them: one that waits for a line cannot be cancelled, and must not keep the program from
    ending.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[FileRow | None] = asyncio.Queue()
    room = threading.Semaphore(READ_AHEAD_ROWS)

    def read() -> None:
        with suppress(RuntimeError):  # the loop has ended: no more rows are wanted
            with suppress(OSError, ValueError):  # a pipe that broke, or was closed, has ended
                for row in _rows(_lines(file)):
                    room.acquire()
                    loop.call_soon_threadsafe(queue.put_nowait, row)
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="pets-lines", daemon=True).start()
    while (row := await queue.get()) is not None:
        room.release()
        yield row


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines, long ones cut. Read past the file's own buffer, whose lock would stay taken."""
    with suppress(io.UnsupportedOperation, AttributeError):
        file = os.fdopen(os.dup(file.fileno()), "rb")
    with file:
        while line := file.readline(MAX_LINE_BYTES):
            # What is cut is no question: it is refused under its number, and the rest of it passed over.
            yield line if len(line) < MAX_LINE_BYTES else line[:40]
            while len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE_BYTES)


def _rows(lines: Iterator[bytes]) -> Iterator[FileRow]:
    """Parse JSON line by line or, where the first line that is not blank is a head of CSV, rows of CSV."""
    first: list[bytes] = []
    for line in lines:
        first.append(line)
        if line.strip():
            break
    whole = chain(first, lines)
    if first and sniffed_suffix(first[-1]) == ".csv":
        return separated_rows((line.decode("utf-8-sig", "surrogateescape") for line in whole), MAX_LINE_BYTES)
    return json_lines(whole)


async def problems_in(
    arriving: AsyncIterator[FileRow], parse: Parse, refuse: Callable[[int, str], None]
) -> AsyncIterator[Problem]:
    """Yield the question of each row; refuse one that holds none with its line number, and go on.

    Blank lines are passed over: they count as lines, and not in the ids of questions that bring none.
    """
    number = 0
    async for row in arriving:
        number += 1
        try:
            record = record_of(row)
            json.dumps(record, ensure_ascii=False).encode()  # half a surrogate pair can be sent to no server
            problem = parse(record, number)
        except (PetsError, UnicodeEncodeError) as error:
            reason = str(error) if isinstance(error, PetsError) else f"this is not UTF-8 ({error})."
            refuse(int(row.place.removeprefix("line ")), reason)
        else:
            yield problem


def spoken_problem(fields: Mapping[str, str], answer_type: str) -> Parse:
    """Make a parser of records for a live model; ``answer_type`` applies where a record names none."""

    def parse(record: Record, number: int) -> Problem:
        if "gold" not in fields and "answer_type" not in record and is_answer_type(record.get("answer")):
            raise InputError(RENAMED_TYPE)
        return problem_from(record, number, fields, answer_type)

    return parse


def replayed_problem(record: Record, number: int = 0) -> Problem:
    """Parse a record that names a question of a recorded pool by its id."""
    id = record.get("id")
    if not isinstance(id, str | int) or isinstance(id, bool):
        raise InputError('a replayed question is named by its "id", as in the pool.')
    return Problem(str(id), Prompt(str(id)))
