"""Recording: n traces of every question as a pool, so that policies can be studied without paying again.

Every question is a line of its own, written whole and flushed to disk when its last trace is back. A recording that
was broken off is taken up again where it stopped: what stands in the file is not sampled twice. How it was recorded
stands beside it, in ``<file>.recording``, so that other traces do not get among them.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pets.confidence import KINDS
from pets.errors import BusyError, InputError, PetsError, PoolError, RefusedError, ReplyError
from pets.pools import PooledQuestion
from pets.pools.writing import line_of
from pets.questions import Problem
from pets.registry import make_answer_type
from pets.samplers import Completion, Sampler, Sampling, Seeds

__all__ = ["Recording", "record", "unanswered"]

TRIES = 5  # of a request that may pass
BACKOFF = 0.5  # seconds after the first failure, doubled after each further one
MOST = 32  # traces of one request: its reply is held in memory whole, and lost whole where it breaks off
TOO_MANY = {400, 413, 422}  # what servers say to more choices than they give
START = b'{"id":"'  # of every line that is written here


@dataclass(frozen=True, slots=True)
class Recording:
    """What to record: ``traces`` of every problem, drawn from ``model`` as ``sampling`` says, seeds from ``seed``.

    ``part`` (i, k) is every k-th problem, from the i-th on: k machines can share the work, and their files, put
    together, are what one machine would have recorded, since a trace's seed depends on its question's place alone.
    """

    problems: Sequence[Problem]
    traces: int
    sampling: Sampling
    seed: int = 0
    at_once: int = 1  # questions in flight
    part: tuple[int, int] = (1, 1)
    model: str = ""  # its name, held against that of what the file holds already

    def __post_init__(self) -> None:
        i, k = self.part
        if not 1 <= i <= k:
            raise InputError(f"part {i}/{k} is none of {k}; parts are counted from 1.")
        if self.traces < 1 or self.at_once < 1:
            raise InputError(f"traces and questions in flight are at least 1; got {self.traces} and {self.at_once}.")

    @property
    def numbered(self) -> list[tuple[int, Problem]]:
        """The problems of this part, each with its place among all."""
        i, k = self.part
        return list(enumerate(self.problems))[i - 1 :: k]

    @property
    def terms(self) -> dict[str, object]:
        """What makes traces of one question draws of the same kind, as JSON holds it.

        >>> Recording((), traces=8, sampling=Sampling(temperature=0.7), model="m").terms["temperature"]
        0.7
        """
        drawn = {**asdict(self.sampling), "stop": list(self.sampling.stop)}
        return {"model": self.model, "traces": self.traces, "seed": self.seed, **drawn}

    @property
    def prompts(self) -> dict[str, str]:
        """A digest of what each question asks, by id.

        >>> from pets.samplers import Prompt
        >>> Recording((Problem("q", Prompt("2 + 2 =")),), traces=8, sampling=Sampling()).prompts
        {'q': 'fc862d87704712b1'}
        """
        # The content alone: recordings begun by version 0.1.0 go on.
        texts = ((p.id, json.dumps({"content": asdict(p.prompt)["content"]})) for p in self.problems)
        return {id: hashlib.sha256(text.encode()).hexdigest()[:16] for id, text in texts}


async def record(
    recording: Recording, sampler: Sampler, path: Path, told: Callable[[int, int], None] = lambda done, all_: None
) -> int:
    """Sample what the file does not hold yet, appending a line a question; how many questions were sampled.

    ``told`` hears how many questions of how many are recorded, first before any is sampled. What fails for good ends
    the recording, and raises when the questions that were in flight beside it have come home.
    """
    for spec in {problem.answer for _, problem in recording.numbered}:
        make_answer_type(spec)  # a bad one raises before anything is paid for
    numbered, kept = recording.numbered, _kept(path, recording)
    _append(path, b"")  # a file that cannot be written, too
    _agree(path, recording, kept)
    seeds = Seeds(recording.seed, cap=max(4096, recording.traces))
    waiting = [(number, problem) for number, problem in reversed(numbered) if problem.id not in kept]
    todo, sampled = len(waiting), 0
    failures: list[PetsError] = []

    async def work() -> None:
        nonlocal sampled
        while waiting and not failures:
            number, problem = waiting.pop()
            try:
                traces = await _traces(sampler, problem, recording, seeds.at(number, 0))
                _append(path, line_of(pooled(problem, traces)).encode() + b"\n")
            except PetsError as error:
                failures.append(error)
                return
            sampled += 1
            told(len(numbered) - todo + sampled, len(numbered))

    told(len(numbered) - todo, len(numbered))
    async with asyncio.TaskGroup() as group:
        for _ in range(min(recording.at_once, todo)):
            group.create_task(work())
    if failures:
        raise failures[0]
    return sampled


async def _traces(sampler: Sampler, problem: Problem, recording: Recording, seed: int) -> list[Completion]:
    """As many traces as were asked for, also from a server that gives fewer at a time or none now and then."""
    found: list[Completion] = []
    most, failed = MOST, 0
    while len(found) < recording.traces:
        n = min(most, recording.traces - len(found))
        try:
            found += await sampler.sample(problem.prompt, n, seed + len(found), recording.sampling)
            failed = 0
        except RefusedError as error:
            if n == 1 or error.status not in TOO_MANY:
                raise
            most = n // 2
        except (BusyError, ReplyError) as error:
            failed += 1
            if failed == TRIES:
                raise
            await asyncio.sleep(max(BACKOFF * 2 ** (failed - 1), error.retry_after or 0.0))
    return found


def pooled(problem: Problem, traces: Sequence[Completion]) -> PooledQuestion:
    """A question's traces as a pool holds them; a trace that was cut at its limit gave no answer."""
    read = make_answer_type(problem.answer).extract
    confidences: dict[str, tuple[float | None, ...]] = {
        kind: tuple(None if t.confidence is None else round(getattr(t.confidence, kind), 3) for t in traces)
        for kind in KINDS
    }
    told = any(trace.confidence is not None for trace in traces)
    return PooledQuestion(
        problem.id,
        tuple(None if trace.finish == "length" else read(trace.text) or None for trace in traces),
        problem.gold or None,  # a pool has no empty one
        tuple(trace.tokens or 0 for trace in traces) if all(trace.tokens is not None for trace in traces) else None,
        confidences["tail"] if told else None,
        confidences if told else {},
    )


def unanswered(path: Path) -> int:
    """To how many questions of a recorded file no trace gave an answer: paid for, but no question of a pool."""
    with path.open("rb") as lines:
        return sum(not any(json.loads(line)["answers"]) for line in lines if line.strip())


def _agree(path: Path, recording: Recording, kept: set[str]) -> None:
    """The terms of the recording, and the prompts of what is kept, are those of the file.

    A file that has no terms beside it, or a question without its digest there, is taken as it is.
    """
    beside = path.with_name(f"{path.name}.recording")  # no suffix of a pool: a folder of pools may hold it
    terms, prompts = recording.terms, recording.prompts
    try:
        held = json.loads(beside.read_bytes()) if kept else {}
        changed = [name for name, value in terms.items() if held.get(name, value) != value]
        known = {id: digest for id, digest in held.get("prompts", {}).items() if id in kept}
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(beside, error) from None
    except (ValueError, AttributeError, RecursionError):
        raise PoolError(
            f'"{beside}" does not say how "{path.name}" was recorded. Delete it to go on unchecked.'
        ) from None
    if changed:
        was = ", ".join(f"{name} {held[name]!r}" for name in changed)
        now = ", ".join(f"{terms[name]!r}" for name in changed)
        raise PoolError(f'"{path}" was recorded with {was}; now it is {now}. Record as before, or into another file.')
    if others := [id for id in known if prompts.get(id, known[id]) != known[id]]:
        raise PoolError(
            f'"{path}" holds traces of {len(others)} of these questions with another prompt, first {others[0]!r}. '
            "Ask as before, or record into another file."
        )
    _write(beside, {**(held or terms), "prompts": {**known, **{id: prompts[id] for id in prompts if id not in kept}}})


def _write(beside: Path, terms: dict[str, object]) -> None:
    """Whole or not at all: what a file's traces are is not lost to a full disk."""
    fresh = beside.with_name(f"{beside.name}.new")
    try:
        fresh.write_text(json.dumps(terms, indent=1) + "\n", "utf-8")
        fresh.replace(beside)
    except OSError as error:
        raise _unusable(beside, error) from None


def _unusable(beside: Path, error: OSError) -> PoolError:
    return PoolError(f'"{beside}" cannot be used ({error.strerror}). Name another pool file, or mend it.')


def _append(path: Path, line: bytes) -> None:
    """A line, whole and on disk, or nothing of it."""
    before = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())  # it was paid for
    except OSError as error:
        with suppress(OSError):
            os.truncate(path, before)  # half a line would spoil the next one
        raise PoolError(f'"{path}" cannot be written ({error.strerror}). Name another file, or make room.') from None


def _kept(path: Path, recording: Recording) -> set[str]:
    """Ids of the questions that the file holds already; a last line that was broken off is dropped.

    Not read as a pool: there, a question to which no trace gave an answer is an error; here it was paid for.
    """
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise PoolError(f'"{path}" cannot be read ({error.strerror}). Name another file.') from None
    *lines, last = whole.split(b"\n")
    kept = {_id(line, f'"{path}" line {number}', recording) for number, line in enumerate(lines, 1) if line.strip()}
    if last.startswith(START) and not _is_json(last):
        os.truncate(path, len(whole) - len(last))
    elif last:  # whole but for its line break; somebody else's file raises, and not a byte of it is dropped
        kept.add(_id(last, f'"{path}" line {len(lines) + 1}', recording))
        _append(path, b"\n")
    return kept


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _id(line: bytes, place: str, recording: Recording) -> str:
    try:
        record = json.loads(line)
        id, many = str(record["id"]), len(record["answers"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PoolError(f"{place} was not recorded here. Choose another file.") from None
    if many != recording.traces:
        raise PoolError(
            f"{place} holds {many} traces of {id!r}; this recording has {recording.traces} a question. "
            "Choose another file, or the same number of traces."
        )
    return id
