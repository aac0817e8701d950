"""``pets resume``: a run of a store goes on, with more budget if asked."""

import asyncio
from pathlib import Path
from typing import Any

import click

from pets.cli._groups import FILE, SpecOptions, named_options, option, refuse_named, verb
from pets.cli._output import check_output, count, is_for_people
from pets.cli._ray import RayOptions
from pets.cli._run import run_engine, run_jobs, write_answers
from pets.cli._terminal import say
from pets.cli.options import CODE, FIELDS, LOCAL, OUTPUT, STORE, QuestionOptions, ServerOptions
from pets.cli.solve import NO_SERVER
from pets.cli.stream import resumed_stream
from pets.engine import Engine
from pets.engine.resume import spec_of_run
from pets.errors import InputError
from pets.openai.batch import BatchReplies, custom_id
from pets.samplers.batch import BatchSampler, FileBatches
from pets.store import Store
from pets.store.database import DEFAULT_STORE


@verb()
@click.argument("run", metavar="RUN")
@click.argument("questions", metavar="[QUESTIONS|-]", required=False)
def resume(
    run: str,
    questions: str | None,
    changed: SpecOptions,
    servers: ServerOptions,
    ray: RayOptions,
    local: tuple[str, ...] = LOCAL,
    budget: str | None = option(
        "More budget, in the run's currency (+2000, +4x, +1Mtok, +2usd), or its new total (=16x, =5usd).",
        metavar="+AMOUNT|=TOTAL",
    ),
    replies: tuple[Path, ...] = option(
        "A file of replies to the wave that `pets solve --batch-api --to` wrote, output or errors; give it again for "
        "more. Replies that are missing may be read later.",
        (),
        kind=FILE,
        metavar="FILE",
    ),
    store: str | None = STORE,
    answer: str | None = CODE,
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
    if budget is not None and "budget" not in named_options():
        raise InputError("a run gets more budget on the command line alone: --budget +AMOUNT or --budget =TOTAL.")
    location = store or DEFAULT_STORE
    with Store.open(location, create=False) as opened:
        view = opened.view(run)
        settings, jobs, run = view.settings, view.jobs(), str(view.id)
    changes: dict[str, Any] = {"budget": budget, "answer": answer, **changed}
    if settings.verb == "stream":
        changed.refuse("stream", f"run {run} is a stream")
        if "max_traces" in changed:
            raise InputError(f"run {run} is a stream, which keeps its --max-traces: leave it out.")
        refuse_named(f"run {run} is a stream", "replies", "local", RayOptions)
        running = resumed_stream(location, run, questions, plan, servers, QuestionOptions(fields=fields), **changes)
        running.run(output, resume=True)
        return
    if questions is not None:
        raise InputError(f'run {run} holds its questions: leave "{questions}" out.')
    if fields or plan is not None:
        raise InputError(f"run {run} is no stream: leave out {'--field' if fields else '--plan'}.")
    if settings.batch_api and not settings.endpoints:
        if not replies:
            ways = "--replies FILE reads what came of its wave, the same `pets solve ... --to FILE` writes the next one"
            raise InputError(f"run {run} goes by files: {ways}.")
        changed.refuse("batch", f"run {run} goes by files")
        refuse_named(f"run {run} goes by files", "local", ServerOptions, RayOptions)
        with BatchReplies({custom_id(line) for job in jobs for line in job.lines}) as lines:
            for path in replies:
                try:
                    with path.open("rb") as file:
                        lines.add(file, f'"{path}"')
                except OSError as error:
                    raise InputError(f'"{path}": {error.strerror}. Name a file of replies.') from None
            sampler = BatchSampler(NO_SERVER, settings.model, FileBatches(replies=lines))
            _read_replies(Engine.resume(location, run, sampler=sampler, **changes), sampler, lines, output)
        return
    if replies:
        raise InputError(f"run {run} asks servers: leave out --replies.")
    samplers = None
    if ray.ray is None:
        refuse_named(f"run {run} goes on with its own settings", "local")
    else:
        refuse_named("--ray hosts the model itself", ServerOptions)
        spec = spec_of_run(settings)
        if settings.endpoints or spec.serving.models:
            raise InputError("this run asks servers or several models; --ray goes on with one model without a server.")
        samplers = ray.samplers(settings.model or None, local, soft=spec.reading.soft)
    engine = Engine.resume(
        location,
        run,
        endpoint=servers.endpoint or None,
        key=servers.keys,
        headers=servers.headers,
        sampler=samplers,
        **changes,
    )
    run_engine(engine, output, rows=not is_for_people(None))


def _read_replies(engine: Engine, sampler: BatchSampler, lines: BatchReplies, output: Path | None) -> None:
    """Read what came of a wave into its run, all files or none; write the answers so far."""
    asyncio.run(run_jobs(engine, drain=True, then=lambda: write_answers(engine.answers(), output)))
    say(f"{count(len(lines), 'line')} read; the run has {count(engine.solution().traces, 'trace')} so far.")
    if lines.failed:
        say(
            f"{count(lines.failed, 'request')} failed; the next wave decides anew. The first error: {lines.first_error}"
        )
    if sampler.left:
        say(f"Not answered: {count(sampler.left, 'request')}. Read their replies, or write the wave again.")
