"""From questions, or from a store, to a run that can begin: its spec, its sources, its record."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from pets.engine.batch import batched
from pets.engine.models import Endpoints, Keys, Models, model_name, model_shares
from pets.engine.pacing import Pace
from pets.engine.reading import judge_of
from pets.engine.resume import (
    bounded_spec,
    earlier_run,
    identity_of,
    kept_going,
    rebudgeted,
    recapped,
    run_pace,
    run_record,
    spec_of_run,
    spec_to_read,
)
from pets.engine.sources import Samplers, Sources, source_name, sources_of, taken_up
from pets.engine.spec import SECTIONS, RunOptions, RunSpec, check_option_names
from pets.errors import InputError, StateError
from pets.questions import Problem, QuestionSet, find_questions
from pets.questions.files import AUTO, problem_from
from pets.samplers import Prompt
from pets.store import Run, RunRecord, Store
from pets.store.cache import Eligibility, TraceCache, trace_keys
from pets.store.store import open_database
from pets.tabular.reading import Table, table_records

Questions = str | Path | QuestionSet | Table | Iterable[str | Problem | Mapping[str, Any]]
Origin = Literal["new", "unfinished", "finished"]


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run that can begin: new, taken up, or over already: then nothing is asked.

    ``run`` is in the ``store`` already, under ``identity`` where the same call finds it again (``repeatable``). By the
    ``keys`` of its questions the ``cache`` has traces that other runs paid for.
    """

    spec: RunSpec
    problems: Sequence[Problem]
    record: RunRecord
    sources: Sources
    pace: Pace
    store: Store | None = None
    run: Run | None = None
    origin: Origin = "new"
    identity: str | None = None
    repeatable: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    cache: TraceCache | None = None


def open_run(
    questions: Questions,
    *,
    endpoint: Endpoints | None = None,
    model: Models | None = None,
    key: Keys = None,
    headers: Mapping[str, str] | None = None,
    sampler: Samplers | Mapping[str, Samplers] | None = None,
    store: str | Path | None = None,
    new: bool = False,
    spec: RunSpec | None = None,
    options: RunOptions,
) -> OpenedRun:
    """A new run over questions, or the one of the store that asks the same."""
    question_set = question_set_of(questions)
    check_option_names(options, RunOptions.__annotations__)
    spec = spec or RunSpec(sampling=question_set.sampling)
    spec = spec.with_options(models=spec.serving.models or model_shares(model)).with_options(**options)
    spec = spec.check("solve")
    if spec.serving.batch_api:
        if store is None:
            raise InputError("batch jobs outlive the process that hands them in: they need a store.")
        spec = batched(spec, model_name(model) or "")
    problems = tuple(map(spec.asked, question_set.problems))
    spec = spec.with_options(headers=tuple(sorted(headers or spec.serving.headers)))
    name = ", ".join(map(str, spec.serving.models)) or model_name(model)
    sources = sources_of(sampler, endpoint, name, key, headers, spec)
    sources = sources.judged_by(judge_of(problems, spec.reading.answer))
    if new:
        spec = spec.with_options(reuse="nothing")
    keys = trace_keys(problems, spec.drawn, spec.reading.system, spec.serving.seed)
    source = source_name(name, sampler, sources.samplers)
    identity = None
    if store is not None:  # what cannot be kept is refused before there is a file
        digest = identity_of(spec, problems, source or "")
        identity = None if source is None else digest
    with ExitStack() as stack:
        opened = None if store is None else stack.enter_context(Store.open(store))
        earlier = None
        if opened is not None and identity is not None and not new:
            earlier = earlier_run(opened, identity, spec.spending.budget)
        if opened is not None and earlier is not None:
            run = stack.enter_context(opened.open_run(earlier.id, code=spec.to_plain()["reading"]["answer"]))
            spec, problems = _asked_as(spec_of_run(run.settings, run.code), spec), tuple(run.problems())
            pace = run_pace(spec, run.settings, len(problems), run)  # or refuses: nothing changes
            keys = run.keys() if run.settings.seeds_by == "prompt" else {}
            cache = None
            if earlier.state != "finished":
                record, sources = taken_up(run.settings, sources)
                record = kept_going(record) if spec.keeping.keep_going else record
                if record is not run.settings:
                    run.change(record)
                cache = _cache(store, spec, problems, keys, record, sources, run.id)
            stack.pop_all()  # all is well: it stays open
            origin: Origin = "finished" if earlier.state == "finished" else "unfinished"
            about = spec, problems, run.settings, sources, pace, opened, run, origin
            return OpenedRun(*about, repeatable=True, keys=keys, cache=cache)
        spec = bounded_spec(spec, problems, sources.samplers)
        record = run_record(spec, problems, sources, name=question_set.name, declared=source, stored=opened is not None)
        pace = run_pace(spec, record, len(problems))
        cache = None if store is None else _cache(store, spec, problems, keys, record, sources)
        stack.pop_all()  # all is well: it stays open
    again = identity is not None and not new
    return OpenedRun(
        spec, problems, record, sources, pace, opened, identity=identity, repeatable=again, keys=keys, cache=cache
    )


def _cache(
    store: str | Path | None,
    spec: RunSpec,
    problems: Sequence[Problem],
    keys: Mapping[str, str],
    record: RunRecord,
    sources: Sources,
    run: int | None = None,
) -> TraceCache | None:
    """The traces of the store that the run can have for nothing; ``None`` where there are none.

    Soft votes need what a model might have said at each token, which is not kept.
    """
    own = record.sources[sources.first : sources.first + len(sources.samplers)]
    if store is None or spec.keeping.reuse == "nothing" or spec.reading.soft or not any(own):
        return None
    eligible = Eligibility(own, spec.sampling.token_limit, any_server=spec.keeping.reuse == "model")
    cache = TraceCache(open_database(store, create=False), problems, keys, eligible, run)
    if cache.held.traces or cache.held.without_texts:
        return cache
    cache.close()
    return None


def reopen_run(
    store: str | Path,
    run: int | str = "last",
    *,
    endpoint: Endpoints | None = None,
    key: Keys = None,
    headers: Mapping[str, str] | None = None,
    sampler: Samplers | Mapping[str, Samplers] | None = None,
    concurrency: int | None = None,
    hurry: float | None = None,
    answer: str | None = None,
    budget: str | None = None,
    max_traces: int | None = None,
    keep_going: bool = False,
) -> OpenedRun:
    """The run of that number, or the last; :meth:`pets.engine.run.Engine.resume` says what of it can be changed."""
    with ExitStack() as stack:
        opened = stack.enter_context(Store.open(store, create=False))
        stored = stack.enter_context(opened.open_run(run, code=answer))
        if stored.settings.verb == "stream":
            raise StateError(f"run {stored.id} is a stream; `pets resume` goes on with it.")
        record, problems = stored.settings, tuple(stored.problems())
        spec = spec_to_read(stored, record)
        record = kept_going(record) if keep_going else record
        record = record if max_traces is None else recapped(record, spec, max_traces)
        said = {"keep_going": keep_going or None, "max_traces": max_traces, "concurrency": concurrency, "hurry": hurry}
        spec = spec.with_options(**{name: value for name, value in said.items() if value is not None})
        sources = sources_of(sampler, endpoint or record.endpoints, record.model or None, key, headers, spec)
        sources = sources.judged_by(judge_of(problems, spec.reading.answer))
        if budget is not None:
            record = rebudgeted(record, budget, len(problems), stored.summary().spent)
        pace = run_pace(spec, record, len(problems), stored)  # or refuses: nothing changes
        record, sources = taken_up(record, sources)
        if record is not stored.settings:
            stored.change(record)
        if budget is not None:
            stored.save("topped_up_at", stored.summary().traces)
            stored.save("wave", None)  # they begin anew
            pace = run_pace(spec, record, len(problems), stored)  # of what is left to spend from here on
        keys = stored.keys() if record.seeds_by == "prompt" else {}
        cache = _cache(store, spec, problems, keys, record, sources, stored.id)
        stack.pop_all()  # all is well: it stays open
    again = budget is None and max_traces is None
    return OpenedRun(
        spec, problems, record, sources, pace, opened, stored, "unfinished", repeatable=again, keys=keys, cache=cache
    )


def _asked_as(spec: RunSpec, now: RunSpec) -> RunSpec:
    """The spec of a stored run, its servers asked as a user says now."""
    names = [field for section in SECTIONS.values() for field in fields(section) if field.metadata["operational"]]
    return spec.with_options(**{field.name: now.get(field.name) for field in names})


def question_set_of(questions: Questions) -> QuestionSet:
    """A set's name, a file, a set, a DataFrame, or questions one by one: texts, records as in a file, or problems.

    >>> question_set_of(["What is 2 + 2?", {"question": "2 + 3?", "gold": 5}]).problems[1].gold
    '5'
    """
    if isinstance(questions, QuestionSet):
        return questions
    if isinstance(questions, str | Path):
        return find_questions(questions)
    problems = tuple(problem_of(question, number) for number, question in enumerate(_rows(questions), 1))
    if not problems:
        raise InputError("there are no questions; give at least one.")
    return QuestionSet("questions", problems)


def _rows(
    questions: Table | Iterable[str | Problem | Mapping[str, Any]],
) -> Iterable[str | Problem | Mapping[str, Any]]:
    """The rows of a table, without what is missing in them; whatever else is given as it is."""
    records = table_records(questions)
    if records is None:
        return questions if isinstance(questions, Iterable) else ()
    return [{name: value for name, value in record.items() if value is not None} for record in records]


def problem_of(question: str | Problem | Mapping[str, Any], number: int) -> Problem:
    """The question at this place among others, which is its id where it has none."""
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
