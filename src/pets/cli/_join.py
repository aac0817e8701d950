"""``pets solve --join``: one more process on a run that several share."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pets.cli._run import INTERRUPTED, interruptible, run_engine, watch_outages, watched_by
from pets.cli.options import ModelOptions, StoredRunOptions
from pets.engine.config import RunConfig
from pets.engine.resume import config_of
from pets.engine.run import Engine
from pets.engine.sources import check_resent, make_samplers
from pets.engine.workers import SharedSampler, Worker, check_version, follow
from pets.errors import InputError, StateError
from pets.samplers import Sampler
from pets.store import RunState, RunView, Store
from pets.store.database import is_shared

__all__ = ["join_run", "lead", "shared_sampler"]

ALLOWED_WITH_JOIN = {"join", "endpoint", "key_env", "header", "concurrency", "output"}
SEVERAL_MODELS = "a run of several models is not shared: leave --join out, or ask one model."


def join_run(
    run: str, questions: str | None, model: ModelOptions, storage: StoredRunOptions, output: Path | None
) -> None:
    """Serve a run until it is finished; allocate where nobody does."""
    if questions is not None:
        name = "the last run" if run == "last" else f"run {run}"
        raise InputError(f"{name} has its questions: leave {questions} out, or --join new.")
    location = storage.check_resume(ALLOWED_WITH_JOIN)
    _check_location(location)
    with Store.open(location, create=False) as store:
        view = store.view(run)
        name = f"Run {view.id} of {store.name}"
        check_version(view.settings, view.id)
        _check_shareable(view)
        while True:
            worker = _worker(location, view, model, storage.concurrency)
            state = asyncio.run(_follow(location, view.id, worker, name))
            if state == "finished":
                click.echo(f"{name} is finished; this process brought {worker.traces:,} traces.", err=True)
                return
            if state == "running":  # interrupted
                sys.exit(INTERRUPTED)
            shared = SharedSampler(location, _worker(location, view, model, storage.concurrency))
            try:
                engine = Engine.resume(
                    location, view.id, endpoint=model.endpoint or None, key=model.keys, headers=model.headers,
                    sampler=shared, concurrency=shared.width,
                )  # fmt: skip
            except StateError:
                if view.state() == "running":  # another was faster
                    continue
                raise
            click.echo(f"{name}: this process allocates.", err=True)
            lead(engine, shared)
            run_engine(engine, output)
            return


def shared_sampler(
    sampler: Sequence[Sampler] | Mapping[str, Sequence[Sampler]], location: str | None, config: RunConfig
) -> SharedSampler:
    """The workers of a new run as a sampler, this process the first of them."""
    if isinstance(sampler, Mapping):
        raise InputError(SEVERAL_MODELS)
    if config.batch_api:
        raise InputError("--batch-api sends whole waves as jobs, which nobody has to share: leave --join out.")
    if location is None:
        raise InputError("--join keeps the run and --no-store does not: leave one out.")
    _check_location(location)
    return SharedSampler(location, Worker(location, sampler, config.concurrency))


def lead(engine: Engine, shared: SharedSampler) -> None:
    """Let the workers' requests be those of the engine's run, as many as all of them take."""

    def run() -> int:
        assert engine.stored_run is not None  # it is made before anything is asked
        return engine.stored_run.id

    shared.run, shared.on_width = run, engine.widen


def _check_location(location: str) -> None:
    if not is_shared(location):
        raise InputError("processes share a run in a PostgreSQL: name it with --store postgresql://SERVER/DATABASE.")


def _check_shareable(view: RunView) -> None:
    config = config_of(view.settings)
    if config.models or config.batch_api:
        kind = "of several models" if config.models else "by batch jobs"
        raise InputError(
            f"run {view.id} is one {kind}, which is not shared: go on with it by `--resume --run {view.id}`."
        )


def _worker(location: str, view: RunView, model: ModelOptions, concurrency: int | None) -> Worker:
    config = config_of(view.settings)
    samplers = make_samplers(
        model.endpoint or view.settings.endpoints,
        view.settings.model or None,
        key=model.keys,
        headers=check_resent(config, model.headers),
        stream=config.kind is not None,
        timeout=config.timeout,
    )
    return Worker(location, samplers, concurrency or config.concurrency)


async def _follow(location: str, run: int, worker: Worker, name: str) -> RunState:
    click.echo(f"{name}: waiting for requests.", err=True)
    with interruptible(worker.drain, "Waiting for the traces in flight."):
        async with watched_by(watch_outages(lambda: worker.outage)):
            return await follow(location, run, worker)
