"""``pets resume``: a run of a store goes on, with more budget if asked; `pets runs cancel` ends its batch jobs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from pets.cli._groups import FILE, SpecOptions, named_options, option, option_group, refuse_named, verb
from pets.cli._output import check_output, count
from pets.cli._ray import RayOptions
from pets.cli._run import kept_words, run_engine, run_jobs, write_answers
from pets.cli._terminal import is_terminal, say
from pets.cli.options import CODE, FIELDS, OUTPUT, STORE, LocalModelOptions, QuestionOptions, ServerOptions
from pets.cli.solve import NO_SERVER
from pets.cli.stream import resumed_stream
from pets.engine import Engine
from pets.engine.batch import batch_samplers
from pets.engine.resume import spec_of_run
from pets.engine.sources import Servers, sources_of
from pets.errors import InputError, StateError
from pets.openai.batch import BatchJob, BatchReplies, custom_id
from pets.samplers.batch import BatchSampler, FileBatches
from pets.store import RunRecord, Store
from pets.store.database import DEFAULT_STORE


@option_group("Run")
class ResumedRunOptions:
    """With which budget the run goes on, and where it is kept."""

    budget: str | None = option(
        "More budget, in the run's currency (+2000, +4x, +1Mtok, +2usd), or its new total (=16x, =5usd).",
        metavar="+AMOUNT|=TOTAL",
    )
    replies: tuple[Path, ...] = option(
        "A file of replies to the wave that `pets solve --batch-api --to` wrote, output or errors; give it again for "
        "more. Replies that are missing may be read later.",
        (),
        kind=FILE,
        metavar="FILE",
    )
    store: str | None = STORE
    answer: str | None = CODE


@verb()
@click.argument("run", metavar="RUN")
@click.argument("questions", metavar="[QUESTIONS|-]", required=False)
def resume(
    run: str,
    questions: str | None,
    kept: ResumedRunOptions,
    changed: SpecOptions,
    servers: ServerOptions,
    local: LocalModelOptions,
    ray: RayOptions,
    fields: tuple[str, ...] = FIELDS,
    plan: Path | None = option("The plan whose drift a stream is watched for."),
    output: Path | None = OUTPUT,
) -> None:
    """Go on with RUN (its number, or "last") where it stopped, under its own settings; nothing is paid for twice.

    \b
    pets resume last                                    what Ctrl-C, a kill or an outage broke off
    pets resume 3 --budget +2000                        2,000 traces more
    pets resume 3 --budget =16x                         16 per question in all
    pets resume 3 --max-traces 256 --budget +4x         a question may get 256 now
    pets resume last --replies replies.jsonl            what came of a wave of batch files
    pets resume last questions.jsonl -o rows.jsonl      a stream; without a file its questions come on stdin

    A bare amount is refused, as is a total below what was spent.
    """
    check_output(output, questions, rows=True)
    if kept.budget is not None and "budget" not in named_options():
        raise InputError("a run gets more budget on the command line alone: --budget +AMOUNT or --budget =TOTAL.")
    location = kept.store or DEFAULT_STORE
    with Store.open(location, create=False) as store:
        view = store.view(run)
        settings, run = view.settings, str(view.id)
    by_files = settings.batch_api and not settings.endpoints
    if settings.verb == "stream":
        changed.refuse("stream", f"run {run} is a stream")
        if "max_traces" in changed.said:
            raise InputError(f"run {run} is a stream, which keeps its --max-traces: leave it out.")
        refuse_named(f"run {run} is a stream", LocalModelOptions, RayOptions)
        changes = {"budget": kept.budget, "answer": kept.answer, **changed.said}
        running = resumed_stream(location, run, questions, plan, servers, QuestionOptions(fields=fields), **changes)
        running.run(output, resume=True)
        return
    if questions is not None:
        raise InputError(f'run {run} holds its questions: leave "{questions}" out.')
    if fields or plan is not None:
        raise InputError(f"run {run} is no stream: leave out {'--field' if fields else '--plan'}.")
    if by_files != bool(kept.replies):
        ways = "--replies FILE reads what came of its wave, the same `pets solve ... --to FILE` writes the next one"
        raise InputError(f"run {run} {f'goes by files: {ways}' if by_files else 'asks servers: leave out --replies'}.")
    if by_files:
        changed.refuse("batch", f"run {run} goes by files")
        refuse_named(f"run {run} goes by files", ServerOptions, LocalModelOptions, RayOptions)
        _read_replies(location, run, kept, changed, output)
        return
    samplers = None
    if ray.ray is None:
        refuse_named(f"run {run} goes on with its own settings", LocalModelOptions)
    else:
        refuse_named("--ray hosts the model itself", ServerOptions)
        spec = spec_of_run(settings)
        if settings.endpoints or spec.serving.models:
            raise InputError("this run asks servers or several models; --ray goes on with one model without a server.")
        samplers = ray.samplers(settings.model or None, local.local, soft=spec.reading.soft)
    engine = Engine.resume(
        location,
        run,
        endpoint=servers.endpoint or None,
        key=servers.keys,
        headers=servers.headers,
        sampler=samplers,
        answer=kept.answer,
        budget=kept.budget,
        **changed.said,
    )
    run_engine(engine, output, rows=not is_terminal())


def _read_replies(location: str, run: str, kept: ResumedRunOptions, changed: SpecOptions, output: Path | None) -> None:
    """Read what came of a wave into its run, all files or none; write the answers so far."""
    _, jobs, settings, _ = stored_jobs(location, run)
    with BatchReplies({custom_id(line) for job in jobs for line in job.lines}) as lines:
        try:
            for path in kept.replies:
                with path.open("rb") as file:
                    lines.add(file, f'"{path}"')
        except OSError as error:
            raise InputError(f'"{error.filename}": {error.strerror}. Name a file of replies.') from None
        sampler = BatchSampler(NO_SERVER, settings.model, FileBatches(replies=lines))
        engine = Engine.resume(location, run, sampler=sampler, answer=kept.answer, budget=kept.budget, **changed.said)
        asyncio.run(run_jobs(engine, drain=True, then=lambda: write_answers(engine.answers(), output)))
    solution, left = engine.solution(), sampler.left
    say(f"{count(len(lines), 'line')} read; the run has {count(solution.traces, 'trace')} so far.")
    if lines.failed:
        say(
            f"{count(lines.failed, 'request')} failed; the next wave decides anew. The first error: {lines.first_error}"
        )
    if left:
        say(f"Not answered: {count(left, 'request')}. Read their replies, or write the wave again.")


def cancel_jobs(location: str, run: str, servers: ServerOptions, answer: str | None) -> None:
    """Cancel a run's jobs at their provider; what they had ready is read, the rest goes back to the budget."""
    id, _, settings, in_flight = stored_jobs(location, run)
    urls = servers.endpoint or settings.endpoints
    if not urls:
        raise InputError("this run goes by files, not by a provider: there is nothing to cancel.")
    if not in_flight:
        say(f"Run {id} has no open job: there is nothing to cancel.")
        return
    asked = Servers(urls, settings.model, servers.keys, servers.headers)
    samplers = sources_of(asked, spec_of_run(settings)).samplers
    for sampler in batch_samplers(samplers):
        sampler.provider.cancels = True
    engine = Engine.resume(location, run, sampler=samplers, answer=answer)
    asyncio.run(run_jobs(engine, drain=True))
    missing, traces = count(in_flight, "trace"), count(engine.solution().traces, "trace")
    say(f"{missing} had not come back; the run has {traces} now. {kept_words(engine)}")


def stored_jobs(location: str, run: str) -> tuple[int, Sequence[BatchJob], RunRecord, int]:
    """The number of a run of the store, its jobs, its settings, and how many of its traces are in flight."""
    with Store.open(location, create=False) as store:
        view = store.view(run)
        if not view.settings.batch_api:
            raise StateError(f"run {view.id} is not by batch jobs; `pets runs` lists the runs of the store.")
        return view.id, view.jobs(), view.settings, sum(1 for _ in view.lost())
