"""Recording: n traces of every question as a pool, so that policies can be studied without paying again.

Each question is a line, written whole and flushed to disk when its last trace is back: a recording that was broken off
goes on with the questions that the file does not hold. ``<file>.recording`` says how it was recorded, so that other
traces do not get among them.
"""

import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pets.answers.recorded import Recorded
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.tally import majority
from pets.engine.arrivals import StreamArrivals, Wiring
from pets.engine.assemble import assemble
from pets.engine.driver import Driver
from pets.engine.pacing import Pace
from pets.engine.question import OpenQuestion, answer_type_of, chosen_for, reading_of
from pets.engine.reading import form_of
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.errors import InputError, PetsError, PoolError
from pets.policies.uniform import Uniform
from pets.pools import PooledQuestion
from pets.pools.writing import line_of
from pets.prompts import is_cut
from pets.questions import Problem
from pets.registry import make_answer_type
from pets.samplers import Sampler
from pets.store import StoredTrace
from pets.store.cache import trace_keys
from pets.store.database import locked_file
from pets.store.export import pooled_question
from pets.tabular import atomic_write
from pets.tabular.reading import parse_json

OPEN_QUESTIONS = 2  # where nobody says
MAX_CHOICES = 32  # traces in one request: its reply is held in memory whole, and lost whole where it breaks off
START = b'{"id":"'  # of every line that is written here


@dataclass(frozen=True, slots=True)
class Recording:
    """What to record: ``traces`` of every problem, drawn from ``model`` as the spec says.

    ``part`` (i, k) is every k-th problem, from the i-th on. The files of k machines, put together, are what one would
    have recorded, since a trace's seed depends on its question's prompt alone.
    """

    problems: Sequence[Problem]
    traces: int
    spec: RunSpec = field(default_factory=RunSpec)
    part: tuple[int, int] = (1, 1)
    model: str = ""  # its name, held against that of what the file holds already

    def __post_init__(self) -> None:
        i, k = self.part
        if not 1 <= i <= k:
            raise InputError(f"part {i}/{k} is none of {k}; parts are counted from 1.")
        if self.traces < 1:
            raise InputError(f"at least 1 trace per question is recorded; got {self.traces}.")
        self.spec.check("sample")

    @property
    def own_problems(self) -> Sequence[Problem]:
        """The problems of this part."""
        i, k = self.part
        return self.problems[i - 1 :: k]

    @property
    def terms(self) -> dict[str, object]:
        """How traces are drawn, as JSON holds it: the same for all traces of a file."""
        seed, keep_texts = self.spec.serving.seed, self.spec.keeping.keep_texts
        drawn = {**asdict(self.spec.sampling), "stop": list(self.spec.sampling.stop)}
        return {"model": self.model, "traces": self.traces, "seed": seed, "keep_texts": keep_texts, **drawn}

    @property
    def prompts(self) -> dict[str, str]:
        """A digest of what each question asks, by id.

        >>> from pets.samplers import Prompt
        >>> Recording((Problem("q", Prompt("2 + 2 =")),), traces=8).prompts
        {'q': 'fc862d87704712b1'}
        """
        # The content alone: recordings begun by version 0.1.0 go on.
        texts = ((p.id, json.dumps({"content": asdict(p.prompt)["content"]})) for p in self.problems)
        return {id: hashlib.sha256(text.encode()).hexdigest()[:16] for id, text in texts}


async def record(
    recording: Recording,
    samplers: Sampler | Sequence[Sampler],
    path: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Sample what the file does not hold yet, appending a line per question; how many questions were sampled.

    ``on_progress`` is called with how many questions of how many are recorded, first before any is sampled. A question
    that fails ends the recording, and raises when those in flight beside it are back. Refused while another process
    records into the file.
    """
    problems = recording.own_problems
    for name in {problem.answer_type for problem in problems}:
        make_answer_type(name)  # a bad one raises before anything is paid for
    with locked_file(path):
        kept = _kept(path, recording)
        _append(path, b"")  # a file that cannot be written, too
        recording = _agree(path, recording, kept)
        waiting = [problem for problem in problems if problem.id not in kept]
        begun = len(problems) - len(waiting)
        on_progress(begun, len(problems))
        if not waiting:
            return 0
        writer = _Writer(recording, path, begun, len(problems), on_progress)
        spec, traces = recording.spec, recording.traces
        open_questions = spec.pacing.open_questions or OPEN_QUESTIONS
        # Attempts that are charged and lost are made up for: the cap alone is a limit.
        budget = Budget(len(waiting) * traces * spec.serving.tries, cap=traces)

        def arrivals(wiring: Wiring) -> StreamArrivals:
            return StreamArrivals(
                wiring,
                open_questions=open_questions,
                seen=set(),
                on_answer=lambda answer, question: writer.write(question, driver),
            )

        driver = assemble(
            # Texts are read when the question is whole.
            spec.with_options(answer=Recorded(), max_traces=traces, max_n=MAX_CHOICES, keep_going=True),
            Allocator(Uniform(), budget, horizon=len(waiting)),
            Sources([samplers] if isinstance(samplers, Sampler) else samplers),
            arrivals,
            keys=trace_keys(recording.problems, spec.drawn, spec.reading.system, spec.serving.seed),
            pace=Pace(open_questions * min(MAX_CHOICES, traces)),
            keep="traces",
        )

        async def arriving() -> AsyncIterator[Problem]:
            for problem in waiting:
                yield problem

        await driver.run(arriving())
        if writer.failure is not None:
            raise writer.failure
        return writer.done - begun


@dataclass(slots=True)
class _Writer:
    """Writes every question that is whole; the first that is not, or cannot be written, ends the recording."""

    recording: Recording
    path: Path
    done: int
    total: int
    on_progress: Callable[[int, int], None]
    failure: PetsError | None = None

    def write(self, question: OpenQuestion | None, driver: Driver) -> None:
        """Write a question that is over."""
        if question is None:  # it was not asked, and has failed already
            return
        traces = [trace for _, trace in sorted((question.traces or {}).items()) if trace.error is None]
        if len(traces) < self.recording.traces:
            cut_short = PoolError(f"question {question.id!r} was cut short.")
            self.failure = self.failure or driver.stops.failures.get(question.id) or cut_short
            driver.arrivals.stop()  # the others that are open are paid for in part
            return
        estimated = driver.fetcher.faults["tokens estimated"] > 0
        try:
            recorded = pooled(question.problem, traces, estimated, keep_texts=self.recording.spec.keeping.keep_texts)
            _append(self.path, line_of(recorded).encode() + b"\n")
        except PetsError as error:
            self.failure = self.failure or error
            driver.drain()
            return
        self.done += 1
        self.on_progress(self.done, self.total)


def pooled(
    problem: Problem, traces: Sequence[StoredTrace], estimated: bool = False, *, keep_texts: bool = True
) -> PooledQuestion:
    """A question's traces as a pool holds them, without tokens that were only ``estimated``."""
    texts = [trace.text for trace in traces if not is_cut(trace.finish)]
    answer_type = answer_type_of(chosen_for(problem, texts))
    read = [replace(t, answer=form_of(reading_of(answer_type, t.text, t.finish))) for t in traces]
    question = pooled_question(problem, answer_type, read, texts=keep_texts)
    return replace(question, tokens=None) if estimated else question


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """A recorded file in figures: questions that no trace answers, and accuracy over ``judged``, those with gold.

    ``cut`` traces ended at their token limit, as far as that is recorded. ``pass_at_1`` is the mean share of traces
    that equal gold, ``vote_accuracy`` the share of questions whose vote does.
    """

    unanswered: int
    cut: int
    judged: int
    pass_at_1: float
    vote_accuracy: float


def summarize_recording(path: Path, problems: Iterable[Problem]) -> RecordingSummary:
    """The summary of a recorded file; gold is what the questions say now, whatever it was when they were recorded."""
    known = {problem.id: problem for problem in problems}
    unanswered, cut, shares, votes = 0, 0, [], []
    with path.open("rb") as lines:
        for record in (json.loads(line) for line in lines if line.strip()):
            unanswered += not any(record["answers"])
            cut += sum(record.get("cut", ()))
            problem = known.get(record["id"])
            if problem is None or problem.gold is None:
                continue
            texts = record.get("texts") or [answer for answer in record["answers"] if answer]
            answer_type = answer_type_of(chosen_for(problem, texts))
            labels = answer_type.labels(record["answers"])
            gold = answer_type.gold_label(problem.gold, labels)
            if gold is not None:
                shares.append(labels.count(gold) / len(labels))
                votes.append(majority(labels) == gold)
    judged = max(1, len(votes))
    return RecordingSummary(unanswered, cut, len(votes), sum(shares) / judged, sum(votes) / judged)


def _agree(path: Path, recording: Recording, kept: set[str]) -> Recording:
    """The recording, if its terms and the prompts of what is kept are those of the file.

    What the file does not say is not compared. Where no token limit is named, the file's holds.
    """
    beside = path.with_name(f"{path.name}.recording")  # no suffix of a pool: a folder of pools may hold it
    terms, prompts = recording.terms, recording.prompts
    try:
        held = json.loads(beside.read_bytes()) if kept else {}
        if recording.spec.sampling.max_tokens is None and type(limit := held.get("max_tokens")) is int:
            recording = replace(recording, spec=recording.spec.with_options(max_tokens=limit))
            terms = recording.terms
        changed = [name for name, value in terms.items() if held.get(name, value) != value]
        known = {id: digest for id, digest in held.get("prompts", {}).items() if id in kept}
    except FileNotFoundError:
        return recording
    except OSError as error:
        raise PoolError(f'"{beside}" cannot be used ({error.strerror}). Name another pool file, or mend it.') from None
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
    new = {id: digest for id, digest in prompts.items() if id not in kept}
    with atomic_write(beside, PoolError, mode=0o600) as file:  # whole or not at all, whatever the disk has room for
        file.write(json.dumps({**(held or terms), "prompts": {**known, **new}}, indent=1).encode() + b"\n")
    return recording


def _append(path: Path, line: bytes) -> None:
    """Append a line, whole and on disk, or nothing of it."""
    before = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
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
    broken_off = last.startswith(START) and bool(parse_json(last)[1])
    if not broken_off:
        lines.append(last)
    # Somebody else's file raises, and not a byte of it is dropped.
    kept = {_id(line, f'"{path}" line {number}', recording) for number, line in enumerate(lines, 1) if line.strip()}
    if broken_off:
        os.truncate(path, len(whole) - len(last))
    elif last:  # whole but for its line break
        _append(path, b"\n")
    return kept


def _id(line: bytes, place: str, recording: Recording) -> str:
    """The id of the question that a line holds, if it was recorded here."""
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
