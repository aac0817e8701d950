"""``pets batch``: a run's waves as files, for engines without a server, and cancelling jobs at a provider."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from pets.cli._groups import FILE, option, option_group, verb_group
from pets.cli._output import check_output, check_rows_output, count
from pets.cli._run import kept_words, write_answers
from pets.cli._terminal import say
from pets.cli.options import (
    CODE,
    FORMER,
    HEADER,
    KEY_ENV,
    NEW,
    OUTPUT,
    AnswerOptions,
    KeptRunOptions,
    ModelOptions,
    QuestionOptions,
    SamplingOptions,
    read_keys,
    run_config,
)
from pets.cli.solve import BudgetOptions, PaceOptions
from pets.engine import Engine
from pets.engine.batch import batch_samplers
from pets.engine.resume import config_of
from pets.engine.sources import sources_of
from pets.errors import InputError, StateError
from pets.openai.batch import BatchJob, BatchReplies, custom_id
from pets.openai.headers import parse_headers
from pets.samplers.batch import BatchSampler, FileBatches
from pets.store import RunSettings, Store
from pets.store.database import DEFAULT_STORE

NO_SERVER = "http://localhost/v1"  # that requests would go to; nothing is sent
NOTHING_LEFT = 1  # the exit code where there is no next wave: `while pets batch write ...; do ...; done`


@verb_group()
def batch() -> None:
    """Write the waves of a run as batch files and read what came of them; cancel jobs.

    \b
    pets batch write mine.jsonl --model Qwen/Qwen3-8B --budget 16x -o wave.jsonl
    vllm run-batch -i wave.jsonl -o replies.jsonl --model Qwen/Qwen3-8B
    pets batch read replies.jsonl

    The same three again are the next wave, until `pets batch write` says that there is none and exits with 1.
    """


@option_group("Wave")
class WaveOptions:
    """Of which model, and where the requests go."""

    model: str = option("The model, as the engine calls it.", required=True)
    output: Path = option("The file of requests to write.", flags=("-o", "--output"), required=True)
    new: bool = NEW


@option_group("Run")
class StoredWaveOptions:
    """Which run of which store."""

    store: str = option("The file of runs.", DEFAULT_STORE, metavar="FILE")
    run: str = option('Which run: its number, or "last".', "last")
    answer: str | None = CODE


@batch.verb(
    former={
        **FORMER,
        "--max-per-question": "--max-traces",
        "--resume": "what the same command does by itself: leave it out",
        "--run": "found by the questions and settings: leave it out",
        "--concurrency": "for the engine that takes the file to decide: leave it out",
    }
)
@click.argument("questions", metavar="QUESTIONS")
def write(
    questions: str,
    wave: WaveOptions,
    budget: BudgetOptions,
    pace: PaceOptions,
    sampling: SamplingOptions,
    selection: QuestionOptions,
    answers: AnswerOptions,
    kept: KeptRunOptions,
) -> None:
    """Write the next wave of a run over QUESTIONS in OpenAI's batch format; the run is kept in a store.

    The same command goes on with the run: it writes the wave again whose replies were not read, else the next one.
    Where there is none the run is finished, and the exit code is 1.

    \b
    pets batch write mine.jsonl --model Qwen/Qwen3-8B --budget 16x -o wave.jsonl
    """
    check_output(wave.output)
    question_set = selection.load(questions)
    model, files = ModelOptions(model=(wave.model,)), FileBatches(wave.output)
    groups, own = (budget, pace, selection, answers, kept), {"policy": budget.spec, "batch_api": True}
    engine = Engine(
        question_set,
        model=wave.model,
        sampler=BatchSampler(NO_SERVER, wave.model, files),
        store=kept.store or DEFAULT_STORE,
        new=wave.new,
        config=run_config(model, sampling, *groups, drawn=question_set.sampling, prices=budget.price, **own),
    )
    asyncio.run(_run(engine))
    if not files.requests:
        assert engine.stored_run is not None  # batch jobs need a store
        name = f"Run {engine.stored_run.id} of {engine.store_name}"
        say(f"{name} is finished: there is no wave to write.")
        raise click.exceptions.Exit(NOTHING_LEFT)
    say(f"{wave.output}: {count(files.requests, 'request')}. {kept_words(engine)}")


@batch.verb()
@click.argument("replies", nargs=-1, required=True, type=FILE, metavar="REPLIES...")
def read(replies: Sequence[Path], source: StoredWaveOptions, output: Path | None = OUTPUT) -> None:
    """Read what came of a wave, output and errors, into its run; the answers so far go to stdout or a file.

    Where a line answers no request of the run, nothing is read. Replies that are missing may be read later; `pets batch
    write` writes their requests again.

    \b
    pets batch read replies.jsonl -o answers.jsonl
    """
    check_rows_output(output)
    stored = _stored_jobs(source.store, source.run)
    with BatchReplies({custom_id(line) for job in stored.jobs for line in job.lines}) as lines:
        _read_lines(lines, replies)
        sampler = BatchSampler(NO_SERVER, stored.settings.model, FileBatches(replies=lines))
        engine = Engine.resume(source.store, source.run, sampler=sampler, answer=source.answer)
        asyncio.run(_run(engine, drain=True, then=lambda: write_answers(engine, output)))
    solution, left = engine.solution(), sampler.left
    say(f"{count(len(lines), 'line')} read; the run has {count(solution.traces, 'trace')} so far.")
    if left:
        say(f"Not answered: {count(left, 'request')}. Read their replies, or write the wave again.")


def _read_lines(lines: BatchReplies, paths: Sequence[Path]) -> None:
    """Take in files of replies, all of them or none."""
    try:
        for path in paths:
            with path.open("rb") as file:
                lines.add(file, f'"{path}"')
    except OSError as error:
        raise InputError(f'"{error.filename}": {error.strerror}. Name a file of replies.') from None


@option_group("Provider")
class ProviderOptions:
    """Which store, and where the jobs are."""

    store: str = option("The file of runs.", DEFAULT_STORE, metavar="FILE")
    endpoint: str | None = option("Another address than the run began with.", metavar="URL")
    key_env: tuple[str, ...] = KEY_ENV
    header: tuple[str, ...] = HEADER
    answer: str | None = CODE


@batch.verb()
@click.argument("run", metavar="RUN", default="last")
def cancel(run: str, provider: ProviderOptions) -> None:
    """Cancel the jobs of RUN (its number, or "last") at their provider; what they had ready is paid for and kept.

    The rest costs nothing and goes back to the budget. The run can go on: `pets solve` asks for what is worth it then.

    \b
    pets batch cancel 3
    """
    stored = _stored_jobs(provider.store, run)
    settings = stored.settings
    urls = settings.endpoints if provider.endpoint is None else (provider.endpoint,)
    if not urls:
        raise InputError("this run goes by files, not by a provider: there is nothing to cancel.")
    if not stored.traces_in_flight:
        say(f"Run {stored.run} has no open job: there is nothing to cancel.")
        return
    key, headers = read_keys(provider.key_env), parse_headers(provider.header)
    _, samplers = sources_of(None, urls, settings.model, key, headers, config_of(settings))
    for sampler in batch_samplers(samplers):
        sampler.provider.cancels = True
    engine = Engine.resume(provider.store, run, sampler=samplers, answer=provider.answer)
    asyncio.run(_run(engine, drain=True))
    missing, traces = count(stored.traces_in_flight, "trace"), count(engine.solution().traces, "trace")
    say(f"{missing} had not come back; the run has {traces} now. {kept_words(engine)}")


async def _run(engine: Engine, *, drain: bool = False, then: Callable[[], object] = lambda: None) -> None:
    """Run until a wave is written or, to ``drain`` it, until every request in flight is answered."""
    engine.leaves_jobs = not drain
    async with engine:
        await engine.run(drain=drain)
        then()


class _StoredJobs(NamedTuple):
    """The jobs of a run, its settings, and how many of its traces are in flight."""

    run: int
    jobs: Sequence[BatchJob]
    settings: RunSettings
    traces_in_flight: int


def _stored_jobs(location: str, run: str) -> _StoredJobs:
    with Store.open(location, create=False) as store:
        view = store.view(run)
        if not config_of(view.settings).batch_api:
            raise StateError(f"run {view.id} is not by batch jobs; `pets runs` lists the runs of the store.")
        return _StoredJobs(view.id, view.jobs(), view.settings, sum(1 for _ in view.lost()))
