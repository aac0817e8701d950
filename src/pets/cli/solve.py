"""``pets solve``: questions in, answers out, each with its certificate, under a budget."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pets.cli._groups import option, option_group, refuse_groups, verb
from pets.cli._output import check_output, check_rows_output, count
from pets.cli._ray import RayOptions
from pets.cli._run import clock, given_up_words, kept_words, run_engine, run_jobs
from pets.cli._terminal import echo, is_terminal, say
from pets.cli.options import (
    NEW,
    OUTPUT,
    ZONE,
    AnswerOptions,
    KeptRunOptions,
    LocalModelOptions,
    ModelOptions,
    PaceOptions,
    QuestionOptions,
    SamplingOptions,
    run_spec,
)
from pets.core.money import amount_words
from pets.core.policy import Policy
from pets.engine import Engine, RunSpec
from pets.engine.batch import batched
from pets.engine.estimate import RunEstimate, estimate, parse_expectation, seen_in_store
from pets.engine.question import instructions
from pets.engine.resume import bounded_spec
from pets.errors import InputError
from pets.questions import QuestionSet
from pets.registry import make_policy, spec_of, typed_policy
from pets.samplers import Sampler
from pets.samplers.batch import BatchSampler, FileBatches
from pets.store.database import DEFAULT_STORE

NO_SERVER = "http://localhost/v1"  # that requests of a file would go to; nothing is sent
NOTHING_LEFT = 1  # the exit code where there is no next wave: `while pets solve ... --to FILE; do ...; done`


@option_group("Budget")
class BudgetOptions:
    """What may be spent, and on what."""

    budget: str = option("What may be spent: 16x (per question on average), 5000 (traces), 2Mtok or 5usd.", "16x")
    max_traces: int = option("How many traces a question gets at most.", 64, at_least=1)
    policy: str = option('Who gets the next trace: a policy such as "okg" or "price:rounds=3".', "okg")
    zone: float = ZONE
    target_consistency: float | None = option("Stop when this self-consistency is expected, such as 0.99.")
    price: tuple[str, ...] = option(
        "Dollars per million tokens, for budgets in money: in=0.15,out=0.60; MODEL=in=...,out=... for one of several "
        "models. Batch jobs cost half, or batch=SHARE of it.",
        (),
    )
    overshoot: float = option(
        "By what share a budget in tokens or money may be exceeded; 999 of 1,000 runs keep to it.", 0.1
    )

    @property
    def spec(self) -> str | Policy:
        """The policy with its zone; an object where the user's own code makes it."""
        if not self.zone:
            return typed_policy(self.policy)
        zoned = make_policy(self.policy).with_zone(self.zone)
        return spec_of(zoned) or self.policy


@option_group("Estimate")
class DryRunOptions:
    """What a run would take."""

    dry_run: bool = option("Say what the run would take; ask nothing of any model.", False)
    expect: str | None = option("What a trace takes, for --dry-run.", metavar="tokens=N,seconds=S", needs="dry_run")


@option_group("Run")
class NewRunOptions:
    """Whether the run is kept, and whether it is another one."""

    new: bool = NEW
    no_store: bool = option("Keep nothing of the run: it cannot be resumed.", False)

    def place(self, storage: KeptRunOptions) -> str | None:
        """The file that keeps the run, of which the user hears before it is written."""
        if not self.no_store and storage.store is None and not Path(DEFAULT_STORE).exists():
            say(f"The run is kept in {DEFAULT_STORE}: --store names another file, --no-store keeps nothing.")
        if self.no_store and storage.store is not None:
            raise InputError("--store keeps the run and --no-store does not: leave one out.")
        return None if self.no_store else storage.store or DEFAULT_STORE


@verb()
@click.argument("questions", metavar="QUESTIONS", required=False)
def solve(
    questions: str | None,
    budget: BudgetOptions,
    pace: PaceOptions,
    model: ModelOptions,
    local: LocalModelOptions,
    ray: RayOptions,
    sampling: SamplingOptions,
    selection: QuestionOptions,
    answers: AnswerOptions,
    storage: KeptRunOptions,
    new_run: NewRunOptions,
    dry_run: DryRunOptions,
    soft: bool = option(
        "For short answers: count what a trace might have said at the token that decides its answer as well.", False
    ),
    batch_api: bool = option(
        "Hand in every wave as a job of the provider's batch interface, for half the price and an answer within a day. "
        "Ctrl-C leaves a job where it is; the same command again goes on with it.",
        False,
    ),
    to: Path | None = option(
        "Write the next wave to this file in OpenAI's batch format, for `vllm run-batch` and its like, instead of "
        "handing it in; `pets resume RUN --replies FILE` reads what came of it.",
        needs="batch_api",
    ),
    output: Path | None = OUTPUT,
) -> None:
    """Answer QUESTIONS, a file, a named set, hf:org/name or - for stdin, by self-consistency under a budget.

    \b
    pets solve mine.jsonl --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B --budget 16x
    pets solve starter --first 20 --budget 4x                  the local model
    pets solve mine.jsonl --batch-api --endpoint https://api.openai.com/v1 --model gpt-4o-mini
    pets solve mine.jsonl --batch-api --model Qwen/Qwen3-8B --to wave.jsonl      exits with 1 where no wave is left
    pets solve mine.jsonl --model Qwen/Qwen3-8B --ray          vLLM on every GPU of a Ray cluster

    Every answer comes with its votes, its traces and tokens, and the probability that it is the vote over infinitely
    many traces. Ctrl-C waits for the traces in flight; the same command again, or `pets resume`, goes on where it
    stopped, and what is finished is not paid for again.
    """
    check_rows_output(output, questions)
    ray.check(model)
    if questions is None and ray.ray:
        raise InputError(f'which questions? --ray took "{ray.ray}" for its ADDRESS: put QUESTIONS before --ray.')
    if questions is None:
        raise InputError("which questions? Give a file or a named set (`pets pools questions` lists them).")
    question_set = selection.load(questions)
    if to is not None:
        check_output(to, questions)
        reason = "--to writes requests to a file and asks no server"
        groups_of_servers = (ModelOptions, LocalModelOptions, RayOptions, PaceOptions, DryRunOptions)
        refuse_groups(reason, *groups_of_servers, but={"model", "waves", "patience"})
    groups, drawn = (budget, pace, selection, answers, storage), question_set.sampling
    own: dict[str, Any] = {"policy": budget.spec, "soft": soft, "batch_api": batch_api}
    spec = run_spec(model, sampling, *groups, drawn=drawn, prices=budget.price, **own)
    spec = batched(spec, model.name or "")
    samplers: Sequence[Sampler]
    files = FileBatches(to)
    if to is not None:
        samplers = [BatchSampler(NO_SERVER, model.name or "", files)]
    elif ray.ray is None:
        samplers = model.samplers(local, spec)
    else:
        samplers = ray.samplers(model.name, local, soft=spec.reading.soft)
        concurrency = pace.concurrency or ray.in_flight(model.name, len(samplers))
        spec = spec.with_options(concurrency=concurrency)
    if dry_run.dry_run:
        spec = bounded_spec(spec, [spec.asked(problem) for problem in question_set.problems], samplers)
        _print_estimate(question_set, spec, model.name or "", storage.store or DEFAULT_STORE, dry_run.expect)
        return
    engine = Engine(
        question_set,
        endpoint=model.servers if ray.ray is None and to is None else None,
        headers=model.headers,
        model=model.model,
        sampler=samplers,
        store=new_run.place(storage),
        new=new_run.new,
        spec=spec,
    )
    if to is not None:
        _write_wave(engine, files, to)
        return
    _print_origin(engine)
    run_engine(engine, output)


def _write_wave(engine: Engine, files: FileBatches, path: Path) -> None:
    """Write the wave whose replies were not read, else the next one; exit with 1 where there is none."""
    asyncio.run(run_jobs(engine))
    if not files.requests:
        assert engine.stored_run is not None  # batch jobs need a store
        say(f"Run {engine.stored_run.id} of {engine.store_name} is finished: there is no wave to write.")
        raise click.exceptions.Exit(NOTHING_LEFT)
    say(f"{path}: {count(files.requests, 'request')}. {kept_words(engine)}")


def _print_origin(engine: Engine) -> None:
    """Say that an earlier run goes on, or is shown again."""
    if engine.stored_run is None:
        return
    name = f"Run {engine.stored_run.id} of {engine.store_name} asks the same"
    if engine.origin == "unfinished":
        say(f"{name} and is unfinished: going on with it; --new starts anew.")
    elif engine.origin == "finished":
        more = f"`pets resume {engine.stored_run.id} --budget +AMOUNT` adds to it"
        say(f"{name} and is finished: its answers again, nothing is paid; --new starts anew, {more}.")


def _print_estimate(
    question_set: QuestionSet, spec: RunSpec, model: str, store: str | None, expect: str | None
) -> None:
    """A table for a person's terminal, one line of JSON for a program."""
    texts = sorted(instructions(question_set.problems, spec.reading.answer)) if spec.reading.instruct else []
    tokens, seconds, basis = parse_expectation(expect) if expect else seen_in_store(store, model)
    problems = [spec.asked(problem) for problem in question_set.problems]
    expected = estimate(problems, spec, model, tokens, seconds, basis)
    policy = spec.spending.policy if isinstance(spec.spending.policy, str) else type(spec.spending.policy).__name__
    if is_terminal():
        for name, value in _estimate_rows(expected, policy, texts):
            echo(f"{name:<12} {value}")
    else:
        echo(json.dumps(asdict(expected) | {"policy": policy, "instructions": texts}))
    if spec.spending.max_traces is not None and expected.traces >= spec.spending.max_traces * expected.questions:
        say(
            f"The budget takes every question to {spec.spending.max_traces} traces, those that all agree on too: "
            "--target-consistency 0.99 would stop earlier."
        )


def _estimate_rows(expected: RunEstimate, policy: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a run would take, as a person reads it."""
    limit = "the server's own limit" if expected.max_tokens is None else f"{expected.max_tokens:,} tokens at most"
    yield "questions", f"{expected.questions:,}"
    yield "budget", amount_words(expected.budget, expected.unit)
    yield "policy", policy
    yield "traces", f"{expected.traces:,}, about {expected.traces / expected.questions:.1f} per question"
    yield "per trace", limit
    yield (
        "tokens",
        "not known" if expected.tokens is None else f"{expected.tokens:,}, and {expected.prompt_tokens:,} of prompts",
    )
    yield "cost", "not known without --price" if expected.cost is None else amount_words(expected.cost, "usd")
    if expected.waves:
        yield "waves", f"{expected.waves} at most; {given_up_words(expected.points_given_up)}"
    longer = f"{expected.times_as_long:.1f} times as long as all traces at once"
    yield "time", longer if expected.seconds is None else f"{clock(expected.seconds)}, {longer}"
    for text in texts:
        yield "asked with", text
    yield "by", expected.basis
