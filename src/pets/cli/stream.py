"""``pets stream``: questions as they arrive, answers as they come about, within a budget."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from pets.answers.recorded import Recorded
from pets.cli._groups import SpecOptions, option, refuse_named, verb
from pets.cli._output import check_output, count, growing_output
from pets.cli._run import (
    ANSWER_COLUMNS,
    NOTHING_ANSWERED,
    answered_words,
    answers_in,
    interruptible,
    kept_words_said,
    remarks,
    watch_outages,
)
from pets.cli._stdin import arriving_rows, problems_in, replayed_problem, spoken_problem
from pets.cli._terminal import say
from pets.cli.main import INTERRUPTED
from pets.cli.options import KEEP, OUTPUT, ModelOptions, QuestionOptions, ServerOptions, run_spec
from pets.core.money import amount_words
from pets.core.tally import majority
from pets.engine import Answer
from pets.engine.progress import AnswerSummary
from pets.engine.resume import identity_of
from pets.engine.sources import Servers, Sources
from pets.engine.stream import RecordedStream, Stream, plan_defaults, planned
from pets.errors import InputError
from pets.lab.config import ReplayConfig
from pets.lab.draws import draw_traces
from pets.lab.labelled import RAW, read_answers
from pets.plans import Drift, StreamPlan, read_plan
from pets.pools import read_pool
from pets.questions import Problem, QuestionSet, parse_fields
from pets.questions.files import AUTO, STDIN
from pets.samplers import Sampling

POOL: Any = option("Draw from this recorded pool instead of a model.", kind=click.Path(path_type=Path))


@verb()
@click.argument("questions", metavar="[QUESTIONS|-]", required=False)
def stream(
    questions: str | None,
    run: SpecOptions,
    model: ModelOptions,
    selection: QuestionOptions,
    plan: Path | None = option("The plan that `pets fit` made; without one, the stream teaches what it can."),
    store: str | None = KEEP,
    pool: Path | None = POOL,
    output: Path | None = OUTPUT,
) -> None:
    """Answer questions as they arrive: JSONL or CSV in, a line of JSON for each as soon as it is answered.

    \b
    pets stream --plan plan.json --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B < questions.jsonl
    pets stream --plan plan.json --budget-window 1000 ...     no end: the plan's mean for every 1000 questions
    pets stream mine.jsonl --budget 12x ...                   no training pool; a file, whose end is known
    pets stream --plan plan.json --pool recorded.jsonl        on recorded answers
    pets stream --plan plan.json --store runs.db ...          `pets resume last < questions.jsonl` goes on

    QUESTIONS is a file, a named set, or - for stdin, which is the default. A line is {"id", "question" or "prompt",
    "answer_type": "number"?}, or under a head of CSV a row with those columns. A budget in traces is never exceeded;
    what easy questions leave goes to others. A line that cannot be asked gets a line with "error", and the stream goes
    on. Ctrl-C takes in no more, waits for the traces in flight and answers every question that was begun. With a store
    nothing is paid for twice, whatever ends the process.
    """
    check_output(output, rows=True)
    if output is not None and (before := answers_in(output)):
        raise InputError(f'"{output}" holds {count(before, "answer")}. Name another file, or move it away.')
    if plan is not None and "policy" in run:
        raise InputError("a --plan is a policy; leave --policy out.")
    fitted = None if plan is None else read_plan(plan)
    on_stdin = questions == STDIN or (questions is None and pool is None)
    expected = {"horizon": selection.first} if on_stdin else {}
    said = SpecOptions({**plan_defaults(fitted), **expected, **run})
    if pool is not None:
        running = _replayed(pool, questions, said, fitted)
    else:
        running = _live(questions, said, fitted, model, selection, store)
    running.run(output)


@dataclass(slots=True)
class RunningStream:
    """One run of the verb: rows as they come, words on stderr.

    ``problems`` is None where they come line by line, under the names that ``fields`` say; ``targets`` are the votes of
    all recorded traces.
    """

    make: Callable[..., Stream]
    problems: Sequence[Problem] | None
    fields: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, str | None] | None = None
    summary: AnswerSummary = field(default_factory=AnswerSummary)
    agreed: int = 0
    refused_lines: int = 0  # that held no question
    write: Callable[[Mapping[str, Any]], object] = field(init=False)
    _stream: Stream = field(init=False)

    def run(self, output: Path | None, *, resume: bool = False) -> None:
        """Run to the end or to Ctrl-C, each answer written as it comes; cut short, it exits as a shell expects."""
        with growing_output(output, ("line", *ANSWER_COLUMNS), resume=resume) as self.write:
            self._stream = self.make(on_answer=self._print)
            driver = self._stream.driver
            with kept_words_said(self._stream):
                asyncio.run(self._run())
            self._print_summary()
        if driver.stops.drained:
            sys.exit(INTERRUPTED)
        if not self.summary.questions and not resume:
            say('No question was read: a line is {"id", "question"}, or a row of CSV under its head.')
        if not self.summary.answered and (self.summary.questions or not resume):
            sys.exit(NOTHING_ANSWERED)

    async def _run(self) -> None:
        async with self._stream as running:
            words = "No more questions; waiting for the traces in flight."
            watch = watch_outages(running.outage)
            async with interruptible(running.drain, words, watch):
                await running.run(self._arriving())

    async def _arriving(self) -> AsyncIterator[Problem]:
        """Yield the questions, as many as were announced; refuse a line that holds none with the reason.

        One that does not say how it is answered goes by the plan's answer type.
        """
        for problem in self.problems or ():
            yield problem
        if self.problems is not None:
            return
        spec = self._stream.spec
        left, kind = spec.spending.horizon, next(iter(spec.reading.answer_sizes), RAW)
        spoken = spoken_problem(self.fields, AUTO if kind == RAW else kind)
        parse = spoken if self.targets is None else replayed_problem
        async for problem in problems_in(arriving_rows(sys.stdin.buffer), parse, self._refuse):
            yield problem
            left = None if left is None else left - 1
            if left == 0:
                return

    def _refuse(self, line: int, reason: str) -> None:
        self.refused_lines += 1
        self.write({"line": line, "error": reason})

    def _print(self, answer: Answer) -> None:
        self.summary.add(answer)
        self.agreed += answer.canonical is not None and answer.canonical == (self.targets or {}).get(answer.id)
        self.write(answer.to_plain())

    def _print_summary(self) -> None:
        driver, drift = self._stream.driver, self._stream.drift
        budget = driver.allocator.budget
        unit = budget.currency.unit
        share = f" ({budget.spent / budget.total:.1%})" if budget.total else ""
        spent, total = amount_words(budget.spent, unit), amount_words(budget.total, unit)
        words = [
            f"{answered_words(self.summary).capitalize()}, {spent} of {total}{share}.",
            *remarks(self.summary, self._stream.spec.drawn.max_tokens),
        ]
        if self._stream.launches_lost:
            words.append(
                f"{self._stream.launches_lost:,} traces were in flight when it was broken off: charged, without a vote."
            )
        if not_asked := self.refused_lines + self.summary.questions - self.summary.asked:
            words.append(f'Not asked: {not_asked:,}; a line with "error" says why of each.')
        if self.targets is not None and self.summary.asked:
            share_right = self.agreed / self.summary.asked
            words.append(f"Self-consistency with the vote of all traces drawn: {share_right:.3f}.")
        if drift is not None:
            state = "ALARM" if drift.alarm else "none"
            words.append(f"Drift from the plan: {state} (p = {drift.p_value:.3g}, {drift.seen:,} warm-ups).")
        if driver.stops.drained:
            words.append("Stopped before the end: questions without a line were not asked.")
        if self._stream.stored_run is not None:
            words.append(f"Run {self._stream.stored_run.id} of {self._stream.store_name}.")
        say(*words)


def _live(
    questions: str | None,
    said: SpecOptions,
    plan: StreamPlan | None,
    model: ModelOptions,
    selection: QuestionOptions,
    store: str | None,
) -> RunningStream:
    question_set = _loaded(questions, selection)
    own = Sampling() if question_set is None else replace(question_set.sampling, top_logprobs=None)
    spec = run_spec(said, model, own, headers=tuple(sorted(model.headers)))
    sources = Sources(model.samplers(spec), model.servers, model.name or "")
    problems = None if question_set is None else [spec.asked(problem) for problem in question_set.problems]
    spec = planned(spec, plan, sources, problems)
    source = None if problems is None else identity_of(spec, problems, sources.model)
    if problems is None:
        with suppress(OSError, ValueError):  # a pipe or a terminal is read by no other process as well
            status = os.fstat(sys.stdin.fileno())
            source = f"file {status.st_dev}:{status.st_ino}" if stat.S_ISREG(status.st_mode) else None
    make = partial(
        Stream,
        spec,
        sources,
        problems=problems,
        name=f"{'stdin' if question_set is None else question_set.name} (stream)",
        store=store,
        source=source,
        drift=_drift_from(plan),
    )
    return RunningStream(make, problems, parse_fields(selection.fields))


def _replayed(path: Path, questions: str | None, typed: SpecOptions, plan: StreamPlan | None) -> RunningStream:
    """Draw from a recorded pool as the replay lab does; the questions are its own unless ids come on stdin."""
    reason = "--pool draws from recorded answers: no model is asked, nothing is kept"
    refuse_named(reason, ModelOptions, "fields", "store", *[] if questions == STDIN else ["first"])
    typed.refuse("pool", reason)
    if questions not in (None, STDIN):
        raise InputError("with --pool the questions are the pool's own, or ids as JSONL on stdin (QUESTIONS is -).")
    said = typed.honoured("pool")  # whatever pets.toml says of a model is said of none here
    pool = read_answers(read_pool(path), said.get("answer"))
    spec = run_spec(said, ModelOptions(), Sampling(), answer=Recorded(), keep_going=True)  # nothing is paid for
    cap = spec.spending.max_traces
    assert cap is not None  # the command line has no word for no limit
    traces = draw_traces(pool, ReplayConfig(repetitions=1, size=cap, seed=spec.serving.seed), 0)
    targets = {id: majority([trace.answer for trace in path]) for id, path in traces.traces.items()}
    problems = None if questions == STDIN else [replayed_problem({"id": id}) for id in targets]
    spec = spec.with_options(answer_sizes={"text": pool.options}, max_traces=min(cap, traces.size))
    spec = planned(spec, plan, Sources(), problems)
    sources = Sources([RecordedStream(traces.traces, spec.seeds(0).cap)])
    make = partial(Stream, spec, sources, problems=problems, drift=_drift_from(plan))
    return RunningStream(make, problems, targets=targets)


def resumed_stream(
    store: str,
    run: str,
    questions: str | None,
    plan: Path | None,
    servers: ServerOptions,
    selection: QuestionOptions,
    **changes: Any,
) -> RunningStream:
    """Continue a stream of the store where it stopped, with changed options: budget, code, ``keep_going``."""
    question_set = _loaded(questions, selection)
    drift = _drift_from(None if plan is None else read_plan(plan))
    asked = Servers(servers.endpoint, key=servers.keys, headers=servers.headers)
    make = partial(Stream.resume, store, run, asked, drift=drift, **changes)
    problems = None if question_set is None else question_set.problems
    return RunningStream(make, problems, parse_fields(selection.fields))


def _loaded(questions: str | None, selection: QuestionOptions) -> QuestionSet | None:
    """Load the questions of a file or a named set; ``None`` for stdin, whose end nobody knows."""
    return None if questions is None or questions == STDIN else selection.load(questions)


def _drift_from(plan: StreamPlan | None) -> Drift | None:
    """The drift detector of a plan, which prints its alarm."""
    return None if plan is None else Drift.of(plan, on_alarm=lambda drift: say(drift.words))
