"""The functions of ``import pets``: solve, ask, stream, record, fit, replay.

Questions and pools are a path, a list of records, or a table of pandas, polars or pyarrow; a sampler may be a plain
function. Words and progress go to stderr; ``progress=False`` turns them off.
"""

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from pets.answers.auto import kinds_words
from pets.arguments import checked
from pets.cluster import RayCluster
from pets.core.allocator import Allocator
from pets.core.policy import Policy
from pets.engine.assemble import assemble_submissions, fetcher_of
from pets.engine.budget import Models
from pets.engine.progress import AnswerSummary, Solution
from pets.engine.progress_line import ProgressLine
from pets.engine.question import Answer
from pets.engine.record import Recording
from pets.engine.record import record as write_recording
from pets.engine.resume import Questions, open_run, problem_of, question_set_of
from pets.engine.run import Engine
from pets.engine.sources import Endpoints, Keys, Samplers, Servers, sources_of
from pets.engine.spec import OPTIONS, TOP_LOGPROBS, RunOptions, RunSpec
from pets.engine.stream import Stream, plan_defaults, planned, stream_budget
from pets.engine.submissions import Places, VoteLimits
from pets.errors import InputError, PetsError
from pets.lab import ReplayConfig
from pets.lab import replay as replay_pools
from pets.plans import Drift, StreamPlan, fit_plan, read_plan
from pets.plans.plan import MAX_TRACES, price_rule
from pets.pools import Pool, pools_of, read_pool
from pets.questions import Problem
from pets.report.replay_results import ReplayResults
from pets.store.database import DEFAULT_STORE

AnySampler = Samplers | Mapping[str, Samplers] | None
Arriving = Questions | AsyncIterable[str | Problem | Mapping[str, Any]]
Returned = TypeVar("Returned")

ASK_TRACES = 16
ASK_CONSISTENCY = 0.99
ASK_TIMEOUT_S = 600.0
SEEDS_PER_QUESTION = 1 << 12  # of a voter's, so that no two of its questions share one
FLAG = re.compile(r"--(no-)?([a-z][a-z-]*)(?: ([A-Z]+\b|\d[\d.]*\b|[^\s`]*[=:/][^\s`]*[^\s`.,;:]))?")
DECLARED = [*OPTIONS.values(), *fields(ReplayConfig)]
KEYWORDS = {"endpoint": "endpoint", "model": "model", "key-env": "key", "workers": "workers", "new": "new"} | {
    flag: spec.name
    for spec in DECLARED
    for flag in (spec.name.replace("_", "-"), *(flag.partition("/")[0][2:] for flag in spec.metadata.get("flags", ())))
}
SWITCHES = {spec.name for spec in DECLARED if isinstance(spec.default, bool)}


def in_keywords(text: str) -> str:
    """The text with keywords of Python in place of the command line's options; commands in backticks stay.

    >>> in_keywords("raise --max-tokens, or --keep-going; --price in=1,out=2 does. See `pets solve --new`.")
    'raise max_tokens=, or keep_going=True; price="in=1,out=2" does. See `pets solve --new`.'
    """

    def keyword(match: re.Match[str]) -> str:
        off, name, value = match.groups()
        if (word := KEYWORDS.get(name)) is None:
            return match[0]
        if word in SWITCHES:
            return f"{word}={not off}{f' {value}' if value else ''}"
        return f'{word}="{value}"' if value and set("=:/") & {*value} else f"{word}={value or ''}"

    parts = text.split("`")
    parts[::2] = [FLAG.sub(keyword, part) for part in parts[::2]]
    return "`".join(parts)


@contextmanager
def spoken_to_python() -> Iterator[None]:
    """Have errors name keywords of Python, not options of the command line."""
    try:
        yield
    except PetsError as error:
        error.args = (in_keywords(str(error)),)
        raise


class StreamOptions(RunOptions, total=False):
    """The keywords of :func:`stream`: those of a run, and three of its own."""

    horizon: int | None
    budget_window: int | None
    open_questions: int | None


@checked
@spoken_to_python()
def solve(
    questions: Questions,
    *,
    endpoint: Endpoints | None = None,
    model: Models | None = None,
    key: Keys = None,
    headers: Mapping[str, str] | None = None,
    sampler: AnySampler = None,
    store: str | Path | None = DEFAULT_STORE,
    new: bool = False,
    progress: bool | None = None,
    spec: RunSpec | None = None,
    **options: Unpack[RunOptions],
) -> Solution:
    """Answer questions by self-consistency under a budget; takes what :class:`Engine` takes.

        solution = pets.solve("mine.jsonl", endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B", budget="16x")

    The run is kept in ``store``, so that the same call again pays for nothing twice; None keeps nothing. Works inside a
    notebook too, whose event loop waits meanwhile.

    >>> solution = solve(["2 + 2?", "2 + 3?"], sampler=lambda question: "The answer is 4.", budget="4x", store=None)
    >>> [(answer.id, answer.answer) for answer in solution.answers], solution.traces, solution.consistency.mean > 0.8
    ([('q1', '4'), ('q2', '4')], 8, True)
    """

    async def run() -> Solution:
        with ProgressLine(progress) as line:
            kept = store
            if store == DEFAULT_STORE:  # where another process could not make the policy or answer type, none is used
                try:
                    objects = {name: value for name, value in options.items() if name in ("policy", "answer")}
                    (spec or RunSpec()).with_options(**objects).to_plain()
                except InputError as error:
                    kept = None
                    line.say(f"This run is not kept: {error}")
            servers = Servers(endpoint, model, key, headers, sampler)
            engine = Engine(open_run(questions, servers, store=kept, new=new, spec=spec, options=options))
            if engine.stored_run is not None:
                paid = "it asked the same: nothing is paid again" if engine.origin == "finished" else "it goes on"
                line.say(f"Run {engine.stored_run.id} of {engine.store_name}: {paid}. new=True begins another.")
            elif engine.store_name:
                line.say(f"This run is kept in {engine.store_name}, for `pets runs` too; store=None keeps nothing.")
            async with engine:
                watching = asyncio.create_task(line.watch(engine))
                try:
                    solution = await engine.run()
                finally:
                    watching.cancel()
                answers = tuple(engine.answers())
                if words := kinds_words(AnswerSummary.of(answers).read_as):
                    line.say(words)
                return replace(solution, answers=answers)

    return _run_to_end(run())


@checked
async def aask(
    question: str | Problem | Mapping[str, Any],
    *,
    endpoint: Endpoints | None = None,
    model: Models | None = None,
    key: Keys = None,
    headers: Mapping[str, str] | None = None,
    sampler: AnySampler = None,
    **options: Unpack[RunOptions],
) -> Answer:
    """As :func:`ask`, for a program with an event loop: ``answer = await pets.aask(...)``.

    >>> asyncio.run(aask("What is 17 x 23?", sampler=lambda question: "The answer is 391.")).answer
    '391'
    """
    if "budget" not in options:
        options = {"budget": ASK_TRACES, "target_consistency": ASK_CONSISTENCY, **options}
    with spoken_to_python():
        servers = Servers(endpoint, model, key, headers, sampler)
        async with Engine(open_run([question], servers, options=options)) as engine:
            await engine.run()
            (answer,) = engine.answers()
            return answer


@checked
def ask(
    question: str | Problem | Mapping[str, Any],
    *,
    endpoint: Endpoints | None = None,
    model: Models | None = None,
    key: Keys = None,
    headers: Mapping[str, str] | None = None,
    sampler: AnySampler = None,
    **options: Unpack[RunOptions],
) -> Answer:
    """One question, one vote: at most 16 traces, and fewer where the answer is 99 % certain before.

        answer = pets.ask("What is 17 x 23?", endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B")

    With a ``budget`` of your own it is spent, unless you name a ``target_consistency``, too. Nothing is kept.

    >>> ask("What is 17 x 23?", sampler=lambda question: "17 x 23 = 391. The answer is 391.").answer
    '391'
    """
    asked = aask(question, endpoint=endpoint, model=model, key=key, headers=headers, sampler=sampler, **options)
    return _run_to_end(asked)


@checked
async def stream(
    questions: Arriving,
    *,
    endpoint: Endpoints | None = None,
    model: Models | None = None,
    key: Keys = None,
    headers: Mapping[str, str] | None = None,
    sampler: AnySampler = None,
    plan: StreamPlan | str | Path | None = None,
    store: str | Path | None = None,
    progress: bool | None = None,
    **options: Unpack[StreamOptions],
) -> AsyncIterator[Answer]:
    """Answer questions as they arrive, each as soon as its vote is clear, within one budget.

        async for answer in pets.stream(questions, endpoint=url, model="Qwen/Qwen3-8B", plan=plan, budget="8x"):
            print(answer.id, answer.answer, answer.certificate)

    ``questions`` are a file, records, a table, or an asynchronous iterator, such as a queue: then the budget is for
    every ``budget_window`` questions (100) unless a ``horizon`` is named. The ``plan`` is that of :func:`fit`, or its
    file; without one the stream learns from itself, by the ``policy`` "price:warmup=2" or yours. Leaving the loop ends
    the stream at once. With a ``store`` it is kept, and `pets resume` goes on with it.

    >>> async def answers():
    ...     answering = stream(["2 + 2?", "2 + 3?"], sampler=lambda question: "The answer is 4.", budget="4x")
    ...     return sorted([(answer.id, answer.answer) async for answer in answering])
    >>> asyncio.run(answers())
    [('q1', '4'), ('q2', '4')]
    """
    with spoken_to_python():
        plan = read_plan(plan) if isinstance(plan, str | Path) else plan
        question_set = None if isinstance(questions, AsyncIterable) else question_set_of(questions)
        spec = RunSpec.of(**plan_defaults(plan))
        if question_set is not None:
            spec = spec.with_options(sampling=replace(question_set.sampling, top_logprobs=None))
        if plan is not None and "policy" in options:
            raise InputError("a plan brings its own policy: leave out the policy, or the plan.")
        servers = Servers(endpoint, model, key, headers, sampler)
        spec = servers.named_in(spec.with_options(**options))
        sources = sources_of(servers, spec)
        problems = None if question_set is None else [spec.asked(problem) for problem in question_set.problems]
        answers: asyncio.Queue[Answer | None] = asyncio.Queue()
        line = ProgressLine(progress)
        running = Stream(
            planned(spec, plan, sources, problems),
            sources,
            answers.put_nowait,
            problems=problems,
            name=f"{'questions' if question_set is None else question_set.name} (stream)",
            store=store,
            drift=None if plan is None else Drift.of(plan, on_alarm=lambda drift: line.say(drift.words)),
        )
        async with running:
            work = asyncio.create_task(running.run(_arriving(questions if problems is None else problems)))
            work.add_done_callback(lambda task: answers.put_nowait(None))
            try:
                while (answer := await answers.get()) is not None:
                    yield answer
                await work
            finally:
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work


class Voter:
    """Votes on questions as they come, from any number of tasks, under one budget: what a service needs.

        async with pets.Voter(endpoint=url, model="Qwen/Qwen3-8B", budget="8x") as voter:
            answers = await asyncio.gather(*(voter.ask(question) for question in questions))

    Takes what :func:`stream` takes, but for a plan and a store. The budget is for every ``budget_window`` questions
    (100), or for the ``horizon`` in all; it is reserved before a trace is asked for. :attr:`budget` says what is spent.

    >>> async def answers():
    ...     async with Voter(sampler=lambda question: "The answer is 4.", budget="4x") as voter:
    ...         answers = await asyncio.gather(voter.ask("2 + 2?"), voter.ask("3 + 1?"))
    ...         return [answer.answer for answer in answers], voter.budget.spent <= 8
    >>> asyncio.run(answers())
    (['4', '4'], True)
    """

    @checked
    def __init__(
        self,
        *,
        endpoint: Endpoints | None = None,
        model: Models | None = None,
        key: Keys = None,
        headers: Mapping[str, str] | None = None,
        sampler: AnySampler = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        servers = Servers(endpoint, model, key, headers, sampler)
        spec = servers.named_in(RunSpec.of(**plan_defaults(None)).with_options(**options))
        self._sources = sources_of(servers, spec)
        self._spec = planned(spec, None, self._sources).check("stream")
        self.budget = stream_budget(self._spec, self._sources.model)
        """What may be spent, and what is."""
        horizon, seed = self._spec.spending.horizon, self._spec.serving.seed
        allocator = Allocator(self._spec.make_policy(), self.budget, horizon=horizon, seed=seed)
        fetcher = fetcher_of(self._spec, self._sources, patience_s=None)
        places = Places(self._spec.pacing.in_flight)
        self._driver, self._submissions = assemble_submissions(allocator, fetcher, places, spec=self._spec)
        self._samplers, self._asked = self._sources.opened(), 0

    async def __aenter__(self) -> Self:
        await self._samplers.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._samplers.__aexit__(None, None, None)

    async def ask(self, question: str | Problem | Mapping[str, Any], *, timeout: float = ASK_TIMEOUT_S) -> Answer:
        """The vote on a question, over what has come back after ``timeout`` seconds at the latest.

        Cancelled, it charges the requests in flight and gives back the rest. Raises where no trace came.
        """
        self._asked += 1
        problem = self._spec.asked(problem_of(question, self._asked))
        limits = VoteLimits(
            self._spec.drawn,
            seed=self._spec.serving.seed + SEEDS_PER_QUESTION * self._asked,
            max_traces=self._spec.spending.max_traces or SEEDS_PER_QUESTION,
            deadline=asyncio.get_running_loop().time() + timeout,
            answer=self._spec.reading.answer,
        )
        return (await self._submissions.submit(problem, limits)).result()


@checked
@spoken_to_python()
def record(
    questions: Questions,
    *,
    endpoint: Endpoints | None = None,
    model: Models | None = None,
    key: Keys = None,
    headers: Mapping[str, str] | None = None,
    sampler: AnySampler = None,
    traces: int = 64,
    output: str | Path | None = None,
    progress: bool | None = None,
    **options: Unpack[RunOptions],
) -> Pool:
    """Sample so many traces of every question: a pool, for :func:`replay` and :func:`fit`.

        pool = pets.record("mine.jsonl", endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B", traces=64)

    The pool is a file, ``mine.pool.jsonl`` here unless ``output`` names another: it grows by a line for every question,
    and the same call again goes on where the file ends. Options are those of :func:`solve` that say how traces are
    drawn and read.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     pool = record(["2 + 2?"], sampler=lambda text: "It is 4.", traces=3, output=f"{folder}/mine.jsonl")
    >>> pool.name, pool.questions[0].answers
    ('mine', ('4', '4', '4'))
    """
    question_set, answer = question_set_of(questions), options.pop("answer", None)
    path = Path(output or f"{question_set.name}.pool.jsonl")
    if path.suffix != ".jsonl":
        raise InputError(f'"{path}" must end in .jsonl: it grows by lines.')
    drawn = RunSpec(sampling=replace(question_set.sampling, top_logprobs=TOP_LOGPROBS)).with_options(**options)
    servers = Servers(endpoint, model, key, headers, sampler)
    spec = servers.named_in(drawn)
    sources = sources_of(servers, spec)
    problems = question_set.problems
    if isinstance(answer, str):
        problems = tuple(replace(problem, answer_type=answer) for problem in problems)
    elif answer is not None:
        raise InputError(f'a recording names how answers are read, such as "number"; got {answer!r}.')
    recording = Recording(tuple(map(spec.asked, problems)), traces, spec, model=sources.model)

    async def run() -> None:
        with ProgressLine(progress) as line:
            line.say(f"Traces are kept in {path}; the same call again goes on with it.")
            async with sources.opened():
                await write_recording(recording, sources.samplers, path, line.counter("questions"))

    _run_to_end(run())
    return read_pool(path)


@checked
@spoken_to_python()
def fit(
    pool: Any,
    mean_budget: float = 16,
    *,
    policy: str | Policy = "price",
    max_traces: int = MAX_TRACES,
    answer: str | None = None,
    seed: int = 0,
) -> StreamPlan:
    """The plan for a stream of questions like those of ``pool``, at ``mean_budget`` traces each; no gold is needed.

    ``pool`` is a file, "starter", a :class:`Pool`, a table or records. Every question gets four traces, and what they
    show decides how many more, up to ``max_traces``; with the ``policy`` "price:rounds=1" at once, as in the paper. Its
    ``zone`` is the lead that another answer needs to matter. ``answer`` is how recorded answers are read: by default
    the pool's own kind, else as recorded. :func:`write_plan` keeps it for the command line.

    >>> records = [{"id": "q1", "answers": ["A"] * 16}, {"id": "q2", "answers": ["A", "B", "B", "C"] * 4}]
    >>> plan = fit(records, mean_budget=10, policy="price:rounds=1")
    >>> plan.mean_budget, plan.provenance.traces
    (10.0, 32)
    """
    pools = pools_of(pool)
    if len(pools) > 1:
        raise InputError(f"a plan is fitted to one pool; got {len(pools)}: {', '.join(pool.name for pool in pools)}.")
    rule = price_rule(policy)
    return fit_plan(pools[0], mean_budget, rule.rounds, cap=max_traces, zone=rule.zone, answer=answer, seed=seed)


@checked
@spoken_to_python()
def replay(
    pools: Any,
    policies: str | Policy | Sequence[str | Policy],
    *,
    config: ReplayConfig | None = None,
    answer: str | None = None,
    workers: int = 1,
    cluster: RayCluster | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> ReplayResults:
    """Run one policy or several on recorded answers, in random orders; how many traces each needs.

        results = pets.replay("mine.pool.jsonl", ["okg", "uniform"])
        results.traces_at(0.95)
        results.plot()

    ``pools`` is a file, a folder, "starter", a :class:`Pool`, a table, records, or a list of these. ``settings`` are
    those of :class:`~pets.lab.ReplayConfig` (``repetitions=30``, ``size=64``...). ``answer`` is the answer type that
    reads the recorded strings: by default each pool's own kind, else as recorded. With more than one worker, the
    calling script needs the usual ``if __name__ == "__main__":``. A ``cluster`` replays on its cores in their stead.

    >>> records = [{"id": "q1", "answers": ["A", "B", "A", "A"]}, {"id": "q2", "answers": ["B"] * 4}]
    >>> results = replay(records, ["uniform", "okg"], repetitions=2)
    >>> results[0].questions, float(results[0].result("okg").consistency[:, -1].min())
    (2, 1.0)
    """
    with ProgressLine(progress) as line:
        results = replay_pools(
            pools_of(pools),
            policies,
            config=config,
            answer=answer,
            workers=workers,
            cluster=cluster,
            progress=line.counter("traces drawn"),
            **settings,
        )
    return ReplayResults(results)


async def _arriving(questions: Any) -> AsyncIterator[Problem]:
    """Questions of a list or an asynchronous iterator, as problems."""
    if not isinstance(questions, AsyncIterable):
        for problem in questions:
            yield problem
        return
    numbers = count(1)
    async for question in questions:
        yield problem_of(question, next(numbers))


def _run_to_end(work: Coroutine[Any, Any, Returned]) -> Returned:
    """The result of a coroutine, run in another thread where a loop is running in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    task = loop.create_task(work)

    async def ended() -> Returned:
        return await task

    def run() -> Returned:
        with runner:
            return runner.run(ended())

    with ThreadPoolExecutor(1, "pets-run") as thread:
        outcome = thread.submit(run)
        try:
            return outcome.result()
        except KeyboardInterrupt:  # a notebook's Stop: nothing more is asked, and a store is left whole
            with suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(task.cancel)
            raise
