"""From questions, or from a store, to a run that can begin: its spec, its sources, its record; and how the parts of a
driver take in what an earlier process has paid for.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, Self

from pets._version import __version__
from pets.answers.judge import MAX_PROMPT_TOKENS
from pets.answers.recorded import Recorded
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.money import Currency, amount_words
from pets.core.record import VoteCount
from pets.core.soft import SoftVoteCount
from pets.engine.arrivals import PendingLaunches, Wiring
from pets.engine.batch import NO_JUDGE, batched, launches_in_jobs
from pets.engine.budget import Amount, currency_of, model_name, total_of
from pets.engine.pacing import Pace, pace_of
from pets.engine.progress import PRIOR_QUESTIONS, Certifier, sampled
from pets.engine.question import (
    UNREAD,
    Answer,
    OpenQuestion,
    QuestionTotals,
    answer_type_of,
    group_by_question,
    prompt_of,
    traces_of_each,
)
from pets.engine.reading import judge_of, read_again
from pets.engine.sources import Servers, Sources, source_name, sources_of, taken_up
from pets.engine.spec import OPTIONS, RunOptions, RunSpec, check_option_names
from pets.errors import BudgetError, InputError, PetsError, StateError
from pets.questions import Problem, QuestionSet, find_questions
from pets.questions.files import AUTO, problem_from
from pets.registry import answer_types
from pets.samplers import Prompt, Sampler
from pets.store import LostLaunch, Run, RunRecord, RunView, Store, StoredTrace
from pets.store.cache import TraceCache, trace_keys
from pets.store.records import LOST, question_row, reader_of
from pets.store.store import open_database
from pets.tabular.reading import Table, table_records
from pets.types import Launch, Question, Trace

ADDED_FIELDS = {"soft", "models", "horizon", "budget_window", "answer_sizes"}
"""Fields that runs of before had not: where nothing is said in them, a run is the same run."""

Labels = Callable[[str, list[str]], dict[str, str]]
Questions = str | Path | QuestionSet | Table | Iterable[str | Problem | Mapping[str, Any]]
Origin = Literal["new", "unfinished", "finished"]

UNKNOWN_PROMPT_TOKENS = 8192  # held for the prompt of a question that has yet to come


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run that can begin: new, taken up, or finished.

    ``identity`` is that by which the same call finds a new run in the ``store`` again, ``run`` a stored one. The
    ``cache`` has traces that other runs paid for, by the ``keys`` of the questions.
    """

    spec: RunSpec
    problems: Sequence[Problem]
    record: RunRecord
    sources: Sources
    store: Store | None = None
    run: Run | None = None
    origin: Origin = "new"
    identity: str | None = None
    repeatable: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    cache: TraceCache | None = None

    @classmethod
    def stored(cls, store: Store, run: Run, spec: RunSpec, record: RunRecord, sources: Sources) -> Self:
        """A stored run, as ``spec`` and ``record`` say now."""
        keys = run.keys() if record.seeds_by == "prompt" else {}
        return cls(spec, tuple(run.problems()), record, sources, store, run, "unfinished", None, True, keys)

    def with_cache(self, place: str | Path | None) -> "OpenedRun":
        """The same with the traces of the store at this place that it can have for nothing, where there are any."""
        keeping, first = self.spec.keeping, self.sources.first
        own = self.record.sources[first : first + len(self.sources.samplers)]
        if keeping.reuse == "nothing" or not any(own) or self.record.verb != "solve":
            return self
        # Soft votes need what a model might have said at each token, which is not kept.
        if place is None or self.store is None or not self.store.has_traces or self.spec.reading.soft:
            return self
        cache = TraceCache(
            open_database(place, create=False),
            self.problems,
            self.keys,
            own,
            self.spec.sampling.token_limit,
            any_server=keeping.reuse == "model",
            run=None if self.run is None else self.run.id,
        )
        if cache.held.traces or cache.held.without_texts:
            return replace(self, cache=cache)
        cache.close()
        return self

    def going_on(self, place: str | Path) -> "OpenedRun":
        """A run of the store at this place as it goes on; what has changed is written down."""
        run, (record, sources) = self.run, taken_up(self.record, self.sources)
        assert run is not None
        if self.spec.keeping.keep_going:  # whatever its first traces said
            record = with_said(record, "keeping", keep_going=True)
        before = run.settings
        if record != before:
            run.change(record)
        if record.total != before.total:  # its waves begin anew, with what is left to spend from here on
            run.save("topped_up_at", run.summary().traces)
            run.save("wave", None)
        return replace(self, record=record, sources=sources).with_cache(place)


def open_run(
    questions: Questions,
    servers: Servers,
    *,
    store: str | Path | None = None,
    new: bool = False,
    spec: RunSpec | None = None,
    options: RunOptions,
) -> OpenedRun:
    """A new run over questions, or the one of the store that asks the same."""
    question_set = question_set_of(questions)
    check_option_names(options, RunOptions.__annotations__)
    spec = servers.named_in(spec or RunSpec(sampling=question_set.sampling)).with_options(**options).check("solve")
    if spec.serving.batch_api:
        if store is None:
            raise InputError("batch jobs outlive the process that hands them in: they need a store.")
        spec = batched(spec, model_name(servers.model) or "")
    if new:
        spec = spec.with_options(reuse="nothing")
    problems = tuple(map(spec.asked, question_set.problems))
    sources = sources_of(servers, spec).judged_by(judge_of(problems, spec.reading.answer))
    source = source_name(sources.model or None, servers.sampler, sources.samplers)
    again = store is not None and source is not None and not new
    with ExitStack() as stack:
        opened = identity = earlier = None
        if store is not None:
            identity = identity_of(spec, problems, source or "")  # what cannot be kept is refused: no file is made
            opened = stack.enter_context(Store.open(store))
            like = opened.runs_like(identity) if again else ()
            earlier = next((run for run in like if run.settings.budget == spec.spending.budget), None)
        if store is not None and opened is not None and earlier is not None:
            run = stack.enter_context(opened.open_run(earlier.id, code=spec.to_plain()["reading"]["answer"]))
            now = {name: spec.get(name) for name, option in OPTIONS.items() if option.metadata["operational"]}
            spec = spec_of_run(run.settings, run.code).with_options(**now)  # its servers are asked as now
            made = OpenedRun.stored(opened, run, spec, run.settings, sources)
            made = replace(made, origin="finished") if earlier.state == "finished" else made.going_on(store)
        else:
            spec = bounded_spec(spec, problems, sources.samplers)
            kept = opened is not None
            record = run_record(spec, problems, sources, name=question_set.name, declared=source, stored=kept)
            keys = trace_keys(problems, spec.drawn, spec.reading.system, spec.serving.seed)
            identity = None if source is None else identity
            made = OpenedRun(spec, problems, record, sources, opened, None, "new", identity, again, keys)
            made = made.with_cache(store)
        stack.pop_all()  # all is well: it stays open
    return made


def reopen_run(
    store: str | Path,
    run: int | str,
    servers: Servers,
    *,
    verb: Literal["solve", "stream"] = "solve",
    answer: str | None = None,
    budget: str | None = None,
    changes: Mapping[str, Any],
) -> OpenedRun:
    """The run of that number, or the last, with ``changes`` to its spec (``None`` leaves an option as it is)."""
    changes = {name: value for name, value in changes.items() if value is not None}
    with ExitStack() as stack:
        opened = stack.enter_context(Store.open(store, create=False))
        stored = stack.enter_context(opened.open_run(run, code=answer))
        record = stored.settings
        if record.verb != verb:
            words = "a stream; `pets resume` goes on with it" if verb == "solve" else "not a stream, or of a newer pets"
            raise StateError(f"run {stored.id} is {words}.")
        spec = spec_to_read(stored, record)
        if (most := changes.get("max_traces")) is not None:
            cap = spec.spending.max_traces
            if cap is None or most < cap:
                words = "any number of traces" if cap is None else f"up to {cap} traces"
                raise InputError(f"this run gives a question {words}; --max-traces {most} can only raise that.")
            record = with_said(record, "spending", max_traces=most)
        spec = spec.with_options(**changes)
        if budget is not None:
            summary = stored.summary()
            questions = spec.spending.horizon if verb == "stream" else summary.questions
            if questions is None:
                raise InputError(f"run {stored.id} is a stream without end: it has a budget per window and no total.")
            record = rebudgeted(record, budget, questions, summary.spent)
        servers = replace(servers, endpoint=servers.endpoint or record.endpoints, model=record.model or None)
        sources = sources_of(servers, spec).judged_by(judge_of(stored.problems(), spec.reading.answer))
        made = OpenedRun.stored(opened, stored, spec, record, sources)
        made = replace(made, repeatable=budget is None and most is None).going_on(store)
        stack.pop_all()  # all is well: it stays open
    return made


def question_set_of(questions: Questions) -> QuestionSet:
    """A set's name, a file, a set, a DataFrame, or questions one by one: texts, records as in a file, or problems."""
    if isinstance(questions, QuestionSet):
        return questions
    if isinstance(questions, str | Path):
        return find_questions(questions)
    rows = questions if isinstance(questions, Iterable) else ()
    if (records := table_records(questions)) is not None:  # what is missing in a row of a table is left out
        rows = [{name: value for name, value in record.items() if value is not None} for record in records]
    problems = tuple(problem_of(question, number) for number, question in enumerate(rows, 1))
    if not problems:
        raise InputError("there are no questions; give at least one.")
    return QuestionSet("questions", problems)


def problem_of(question: str | Problem | Mapping[str, Any], number: int) -> Problem:
    """The question; its number is its id where it has none."""
    if isinstance(question, Problem):
        return question
    if isinstance(question, str):
        return Problem(f"q{number}", Prompt.question(question), AUTO)
    if not isinstance(question, Mapping):
        raise InputError(f"question {number} is {question!r}; expected a text, a Problem, or a record as in a file.")
    try:
        return problem_from(dict(question), number)
    except InputError as error:
        raise InputError(f"question {number}: {error}") from None


def run_record(
    spec: RunSpec,
    problems: Sequence[Problem],
    sources: Sources,
    *,
    name: str = "",
    declared: str | None = None,
    stored: bool = False,
) -> RunRecord:
    """What is kept of a run, its budget worked out; refused where the budget cannot be kept.

    Of a run that is ``stored``, also where another process could not make its policy or answer type. ``declared`` is
    what the user calls the model.
    """
    amount = Amount.parse(spec.spending.budget)
    total, questions = total_of(amount, len(problems)), len(problems)
    judge, limit = judge_of(problems, spec.reading.answer), spec.sampling.max_tokens
    if spec.serving.batch_api and judge is not None and judge.endpoint is None:
        raise InputError(NO_JUDGE)
    if amount.unit == "usd" and judge is not None and (judge.model or judge.endpoint or spec.serving.models):
        raise BudgetError("a budget in dollars counts one model's price: judge by the same model, or budget in tokens.")
    more_prompt, reply = (0, 0) if judge is None else (MAX_PROMPT_TOKENS, judge.max_tokens)  # of judging one trace
    currency = currency_of(
        amount,
        spec.price_at_most(sources.model),
        prompt_tokens=longest_prompt(spec, problems) + more_prompt,
        max_tokens=None if limit is None else limit + reply,
    )
    if total < (least := questions * max(1, currency.per_token)):
        token = "" if currency.counts_traces else " token"
        words, more = amount_words(total, currency.unit), amount_words(least, currency.unit)
        raise BudgetError(
            f"a budget of {words} leaves some of {questions} questions without one{token}. Give at least {more}, or "
            "ask fewer questions."
        )
    return RunRecord(
        total,
        currency,
        spec.to_plain() if stored else {},
        model=sources.model,
        endpoints=tuple(sources.endpoints),
        name=name,
        version=__version__,
        sources=tuple(sampler.source or sampler.name or declared or "" for sampler in sources.samplers),
        seeds_by="prompt",
    )


def bounded_spec(spec: RunSpec, problems: Sequence[Problem] | None, samplers: Sequence[Sampler]) -> RunSpec:
    """The spec with the token limit per trace that a budget in tokens or money needs.

    That is its own ``max_tokens``, else what the servers' context leaves beside the longest prompt, else none, which
    :func:`~pets.engine.budget.currency_of` refuses.
    """
    prompt = longest_prompt(spec, problems)
    if not prompt or spec.sampling.max_tokens is not None:
        return spec

    async def context_lengths() -> list[int]:
        return [await sampler.max_model_len() or 0 for sampler in samplers]

    with ThreadPoolExecutor(1) as thread:  # in a thread: the caller's may run an event loop
        room = min(thread.submit(asyncio.run, context_lengths()).result(), default=0) - prompt
    return spec.with_options(max_tokens=room) if room > 0 else spec


def longest_prompt(spec: RunSpec, problems: Sequence[Problem] | None) -> int:
    """The tokens of the longest prompt at most, of those that have yet to come too; 0 where traces count one each."""
    if Amount.parse(spec.spending.budget).ledger_unit == "traces":
        return 0
    prompts = (prompt_of(problem, spec.reading.system) for problem in problems or ())
    return max((prompt.max_tokens for prompt in prompts), default=UNKNOWN_PROMPT_TOKENS)


def identity_of(spec: RunSpec, problems: Iterable[Problem], model: str) -> str:
    """A digest of all that decides what a run asks and how it is answered, but for its budget and its servers."""
    sections = spec.to_plain()
    plain: dict[str, Any] = {"sampling": sections.pop("sampling")}
    for values in sections.values():
        for name, value in values.items():
            is_absent = name in ADDED_FIELDS and not value
            if not (OPTIONS[name].metadata["operational"] or name in ("budget", "keep_texts", "reuse") or is_absent):
                plain[name] = value
    digest = sha256(json.dumps([model, plain], sort_keys=True).encode())
    for problem in problems:
        digest.update(repr(question_row(0, 0, problem)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def spec_of_run(record: RunRecord, code: str | None = None) -> RunSpec:
    """The spec that a stored run was begun with.

    Answers that were read by code are taken as they are recorded, unless the user names that ``code`` again.
    """
    answer = record.spec.get("reading", {}).get("answer")
    by_questions = answer is None and code is not None and reader_of(code, None) != code
    if code not in (None, answer) and not by_questions:
        raise InputError(f"this run reads its answers as {answer or 'they come'}, not as {code}: leave it out.")
    reading = {**record.spec.get("reading", {}), "answer": answer and reader_of(answer, code)}
    spec = RunSpec.from_plain({**record.spec, "reading": reading})
    if record.answer_type is None:
        return spec
    # A run of before: its first traces chose one answer type, and a question's own type still comes before it.
    return spec.with_options(answer=f"auto:type={record.answer_type}")


def spec_to_read(run: RunView, record: RunRecord) -> RunSpec:
    """The spec of a run that goes on; refused where its texts are read by code that nobody named again."""
    spec = spec_of_run(record, run.code)
    answer = spec.reading.answer
    own = (answer_type_of(problem, answer) for problem in run.problems())
    for reader in (None if answer is None else answer_types().accept(answer), *own):
        if isinstance(reader, Recorded) and reader.reader:
            raise InputError(
                f"run {run.id} reads its answers with {reader.reader}, and a store alone names no code: give "
                f"--answer {reader.reader} to run that code."
            )
    return spec


def with_said(record: RunRecord, section: str, **values: Any) -> RunRecord:
    """The record with other values in a section of its spec."""
    return replace(record, spec={**record.spec, section: {**record.spec.get(section, {}), **values}})


def rebudgeted(record: RunRecord, text: str, questions: int, spent: int) -> RunRecord:
    """The record with another budget, in the currency that the run has: ``+2000`` more, or ``=5000`` in all.

    >>> rebudgeted(RunRecord(100), "+2x", questions=10, spent=60).total
    120
    >>> rebudgeted(RunRecord(100), "2x", questions=10, spent=60)
    Traceback (most recent call last):
    pets.errors.BudgetError: 2x more, or 2x in all? Write +2x to add to the run's budget, or =2x for its new total.
    """
    sign, text = text[:1], text.lstrip("+=")
    amount = Amount.parse(text)
    if sign not in ("+", "="):
        raise BudgetError(
            f"{text} more, or {text} in all? Write +{text} to add to the run's budget, or ={text} for its new total."
        )
    if amount.ledger_unit != record.currency.unit:
        units = [unit.replace("picodollars", "dollars") for unit in (record.currency.unit, amount.ledger_unit)]
        raise BudgetError(f"this run counts {units[0]}; {sign}{text} is in {units[1]}.")
    total = total_of(amount, questions) + (record.total if sign == "+" else 0)
    if total < spent:
        words = [amount_words(*record.currency.shown(number)) for number in (spent, total)]
        raise BudgetError(f"this run has spent {words[0]}: a total of {words[1]} is less. Write +AMOUNT to add to it.")
    return replace(record, total=total)


def total_so_far(record: RunRecord, questions: int) -> int:
    """The run's budget; that of a stream by windows grows with its questions."""
    return record.total if record.window is None else record.window[1] * -(-questions // record.window[0])


def options_of(problem: Problem, spec: RunSpec) -> int | None:
    """The size of a question's closed answer set; ``None`` where it is open."""
    return problem.options or answer_type_of(problem, spec.reading.answer).options


def run_pace(
    spec: RunSpec, record: RunRecord, questions: int, run: RunView | None = None, traces: int | None = None
) -> Pace:
    """How a run of so many ``traces`` is spread over time; if not given, of as many as the budget still brings."""
    if traces is None:
        traces = record.total // record.currency.hold
    if run is not None and (summary := run.summary()).traces and summary.spent:
        traces = record.total * summary.traces // summary.spent
    if spec.spending.max_traces is not None:
        traces = min(traces, spec.spending.max_traces * questions)
    if run is not None:
        traces = max(0, traces - (run.load("topped_up_at") or 0))
    needs_feedback = spec.spending.target_consistency is not None or not record.currency.counts_traces
    return pace_of(spec.make_policy(), traces, questions, spec.pacing.in_flight, needs_feedback=needs_feedback)


def new_allocator(
    spec: RunSpec, record: RunRecord, problems: Sequence[Problem], waves: int = 0, hurry: float | None = None
) -> Allocator:
    """A new allocator with the run's whole budget, spent in so many waves if any are given."""
    questions = [Question(problem.id, options=options_of(problem, spec)) for problem in problems]
    budget = Budget(total_so_far(record, len(questions)), spec.spending.max_traces, record.currency)
    policy = spec.make_policy().with_waves(waves) if waves else spec.make_policy()
    horizon = None if policy.waves else len(questions)  # waves are planned over all questions at once
    votes = SoftVoteCount() if spec.reading.soft else VoteCount()
    return Allocator(policy, budget, questions, horizon=horizon, seed=spec.serving.seed, votes=votes, hurry=hurry)


def adopt_run(
    allocator: Allocator,
    view: RunView,
    labels: Labels,
    confidence_kind: str | None,
    pending: Collection[Launch] = (),
    *,
    whole_wave: bool = False,
) -> None:
    """Let the allocator take in all that a run has paid for: traces, launches that never came back, lost attempts.

    ``labels`` names the classes of one question's answers, given in launch order. ``pending`` launches are on their
    way. A wave that was broken off is planned anew, unless all of it was launched (``whole_wave``).
    """
    wasted = 0

    def paid() -> Iterator[Trace]:
        nonlocal wasted
        for id, group in group_by_question(_with_lost(view)):
            names = labels(id, [trace.answer for trace in group if trace.answer is not None])
            for trace in group:
                wasted += trace.wasted
                yield trace.trace(confidence_kind, None if trace.answer is None else names[trace.answer])

    wave = view.load("wave")
    begun = 0 if wave is None else wave + whole_wave
    waves = min(begun, max(0, allocator.waves_left - 1))
    allocator.adopt(paid(), waves=waves, pending=pending)
    if view.settings.currency.counts_traces:  # tokens of lost attempts are among their traces' own
        for _ in range(wasted):
            allocator.budget.charge(Trace("", 0))


def restored(view: RunView) -> Allocator:
    """The allocator of a stored run, everything paid for adopted."""
    spec, problems = spec_of_run(view.settings, view.code), list(view.problems())
    by_id = {problem.id: problem for problem in problems}

    def labels(id: str, forms: list[str]) -> dict[str, str]:
        return OpenQuestion(by_id[id], spec.reading.answer).restore(forms)

    allocator = new_allocator(spec, view.settings, problems)
    adopt_run(allocator, view, labels, spec.confidence_kind)
    return allocator


def results(view: RunView, allocator: Allocator, *, texts: bool = True) -> Iterator[Answer]:
    """The answers that ``pets solve`` prints, from the store; without ``texts`` far less is read."""
    spec, over = spec_of_run(view.settings, view.code), view.summary().state == "finished"
    problems = list(view.problems())
    totals = stored_totals(view, spec, problems, texts=texts)
    return answers(problems, allocator, totals, spec, view.settings.model, over=over)


def stored_totals(
    view: RunView, spec: RunSpec, problems: Iterable[Problem], *, texts: bool = True
) -> Iterator[QuestionTotals]:
    """Totals of the traces of each question of a stored run."""
    kind, price = spec.confidence_kind, spec.price_in_money(view.settings.model)
    for traces in traces_of_each(problems, view.traces(texts=texts)):
        totals = QuestionTotals()
        for trace in traces:
            totals.add(trace, kind, price)
        yield totals


def answers(
    problems: Sequence[Problem],
    allocator: Allocator,
    totals: Iterable[QuestionTotals],
    spec: RunSpec,
    model: str,
    failures: Mapping[str, PetsError] | None = None,
    *,
    over: bool,
) -> Iterator[Answer]:
    """Every question's answer, in the order of the ``totals``; ``over`` says whether the run has come to its end."""
    zone, price = allocator.policy.zone, spec.price_in_money(model)
    ids = list(map(attrgetter("id"), problems))
    certify = Certifier(map(allocator.decision, sampled(ids, PRIOR_QUESTIONS)), zone)
    for problem, own in zip(problems, totals, strict=True):
        question = OpenQuestion(problem, spec.reading.answer, price=price, totals=own)
        verdict, failure = allocator.verdict(problem.id), (failures or {}).get(problem.id)
        error = None if failure is None or verdict.votes else str(failure)
        complete = allocator.complete(problem.id, over=over)
        yield question.answer(verdict, certify, complete=complete, error=error, zone=zone)


def lost_traces(launches: Iterable[LostLaunch], currency: Currency) -> list[StoredTrace]:
    """Launches that never came back, as traces without a vote at the price of all that was held for them."""
    traces = []
    for launch in launches:
        trace = StoredTrace(launch.question, launch.number, error=LOST)
        if currency.counts_traces:
            traces.append(replace(trace, wasted=launch.held - 1))
        else:
            worth = currency.usage_worth(launch.held)
            traces.append(replace(trace, tokens=worth.tokens, prompt_tokens=worth.prompt_tokens))
    return traces


def _with_lost(view: RunView) -> Iterator[StoredTrace]:
    """Traces and lost launches, question by question in launch order; launches in batch jobs are not lost."""
    traces = view.traces(texts=False)
    lost = lost_traces(() if view.settings.batch_api else view.lost(), view.settings.currency)
    if not lost:
        return traces
    places = {problem.id: place for place, problem in enumerate(view.problems())}
    return merge(traces, lost, key=lambda trace: (places[trace.question], trace.number))


def take_up(
    opened: OpenedRun, wiring: Wiring, *, on_trace: Callable[[StoredTrace], None], labels: Labels | None = None
) -> Sequence[PendingLaunches]:
    """Have the parts of a driver take in what a stored run has paid for; the launches that batch jobs hold, if any.

    Launches without a trace are charged, except those by batch jobs that no job holds: they were never sent.
    ``on_trace`` is called with every trace, ``labels`` is as in :func:`adopt_run`.
    """
    run, spec, problems = opened.run, opened.spec, opened.problems
    assert run is not None
    currency, awaited, whole_wave = run.settings.currency, list[PendingLaunches](), False
    if spec.serving.batch_api:
        seeds = spec.seeds(len(problems))
        positions = {problem.id: place for place, problem in enumerate(problems)}
        positions |= seeds.blocks(opened.keys, apart=True)
        awaited, never_sent = launches_in_jobs(run.jobs(), run.lost(), positions, seeds)
        whole_wave = not never_sent
        if never_sent:
            run.write([], [], dropped=never_sent)
    elif lost := lost_traces(run.lost(), currency):
        run.write([], lost)
    _read_unread(run, spec, problems)
    for trace in run.traces(texts=False):
        on_trace(trace)
        wiring.fetcher.remember(trace, opened.sources.first)
    if problems:
        questions, first = wiring.questions, problems[0]
        wiring.stops.first_traces.count_stored(run, lambda: questions.type_name(first))
    pending = [Launch(id, number) for id, numbers in awaited for number in numbers]
    kind, labels = spec.confidence_kind, labels or wiring.questions.labels_of
    adopt_run(wiring.allocator, run, labels, kind, pending, whole_wave=whole_wave)
    if not currency.counts_traces:
        for trace in run.traces(texts=False):
            if trace.part is None:
                wiring.costs.learn(trace.question, currency.cost(trace))
    return awaited


def _read_unread(run: Run, spec: RunSpec, problems: Iterable[Problem]) -> None:
    """Read the texts whose reading took too long when they came back."""
    if not any(trace.finish == UNREAD for trace in run.traces(texts=False)):
        return
    types = {problem.id: answer_type_of(problem, spec.reading.answer) for problem in problems}
    unread = [trace for trace in run.traces() if trace.finish == UNREAD and trace.text]
    run.set_answers(read_again(types[trace.question], trace) for trace in unread)
