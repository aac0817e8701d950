"""``pets solve``: questions in, answers out, each with its certificate, under a budget."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from pets.cli._groups import SpecOptions, option, refuse_named, verb
from pets.cli._output import FORMAT_HELP, Format, check_output, count, print_rows
from pets.cli._ray import RayOptions
from pets.cli._run import given_up_words, kept_words, run_engine, run_jobs
from pets.cli._terminal import echo, say
from pets.cli.options import KEEP, NEW, OUTPUT, ModelOptions, QuestionOptions, ServerOptions, run_spec
from pets.core.money import amount_words
from pets.engine import Engine, RunSpec
from pets.engine.batch import batched
from pets.engine.estimate import estimate, parse_expectation, seen_in_store
from pets.engine.progress import duration_words
from pets.engine.question import instructions
from pets.engine.resume import bounded_spec
from pets.errors import InputError
from pets.questions import QuestionSet
from pets.samplers import Sampler
from pets.samplers.batch import BatchSampler, FileBatches
from pets.store.database import DEFAULT_STORE

KEEP_NOTHING = "none"
NO_SERVER = "http://localhost/v1"  # that requests of a file would go to; nothing is sent
NOTHING_LEFT = 1  # the exit code where there is no next wave: `while pets solve ... --to FILE; do ...; done`


@verb()
@click.argument("questions", metavar="QUESTIONS", required=False)
def solve(
    questions: str | None,
    run: SpecOptions,
    model: ModelOptions,
    ray: RayOptions,
    selection: QuestionOptions,
    store: str | None = KEEP,
    new: bool = NEW,
    to: Path | None = option(
        "Write the next wave to this file in OpenAI's batch format, for `vllm run-batch` and its like, instead of "
        "handing it in; `pets resume RUN --replies FILE` reads what came of it.",
        needs="batch_api",
        rare=True,
    ),
    output: Path | None = OUTPUT,
    dry_run: str | None = option(
        "Say what the run would take, if a trace takes so many tokens and seconds, or what the store has seen; ask "
        "nothing of any model.",
        metavar="[tokens=N,seconds=S]",
        alone="",
    ),
    form: Format | None = option(FORMAT_HELP, flags=("--format",), needs="dry_run", rare=True),
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
    check_output(output, questions, rows=True)
    if ray.ray is not None:
        ray.check(model)
    if questions is None:
        if ray.ray:
            raise InputError(f'which questions? --ray took "{ray.ray}" for its ADDRESS: put QUESTIONS before --ray.')
        if dry_run:
            parse_expectation(dry_run)
        raise InputError("which questions? Give a file or a named set (`pets pools questions` lists them).")
    question_set = selection.load(questions)
    files, servers = None if to is None else FileBatches(to), None
    if files is not None:
        check_output(to, questions)
        reason = "--to writes requests to a file and asks no server"
        run.refuse("batch", reason)
        refuse_named(reason, "local", "dry_run", "form", ServerOptions, RayOptions)
    spec = run_spec(run, model, question_set.sampling)
    spec = batched(spec, model.name or "") if spec.serving.batch_api else spec
    samplers: Sequence[Sampler]
    if files is not None:
        samplers = [BatchSampler(NO_SERVER, model.name or "", files)]
    elif ray.ray is None:
        samplers, servers = model.samplers(spec), model.servers
    else:
        samplers = ray.samplers(model.name, model.local, soft=spec.reading.soft)
        if "concurrency" not in run:
            spec = spec.with_options(concurrency=ray.in_flight(model.name, len(samplers)))
    made = partial(
        Engine,
        question_set,
        endpoint=servers,
        headers=model.headers,
        model=model.model,
        sampler=samplers,
        new=new,
        spec=spec,
    )
    if dry_run is not None:
        place = store or DEFAULT_STORE
        if not new and Path(place).exists():  # a run that is over would cost nothing, which is said
            try:
                engine = made(store=place)
                if engine.stored_run is not None:
                    _print_origin(engine, engine.stored_run.id)
                engine.close()
                if engine.origin == "finished":
                    return
            except InputError as error:  # it would be refused
                say(str(error))
        spec = bounded_spec(spec, [spec.asked(problem) for problem in question_set.problems], samplers)
        expectation = parse_expectation(dry_run) if dry_run else seen_in_store(place, model.name or "")
        _print_estimate(question_set, spec, model.name or "", expectation, form)
        return
    if store is None and not Path(DEFAULT_STORE).exists():
        say(f"The run is kept in {DEFAULT_STORE}: --store names another file, --store {KEEP_NOTHING} keeps nothing.")
    engine = made(store=None if store == KEEP_NOTHING else store or DEFAULT_STORE)
    if files is None:
        if engine.stored_run is not None:
            _print_origin(engine, engine.stored_run.id)
        run_engine(engine, output)
        return
    asyncio.run(run_jobs(engine))  # writes the wave whose replies were not read, else the next one
    if not files.requests:
        assert engine.stored_run is not None  # batch jobs need a store
        say(f"Run {engine.stored_run.id} of {engine.store_name} is finished: there is no wave to write.")
        raise click.exceptions.Exit(NOTHING_LEFT)
    say(f"{to}: {count(files.requests, 'request')}. {kept_words(engine)}")


def _print_origin(engine: Engine, run: int) -> None:
    """Say that an earlier run goes on, or is shown again."""
    name = f"Run {run} of {engine.store_name} asks the same"
    if engine.origin == "unfinished":
        say(f"{name} and is unfinished: going on with it; --new starts anew.")
    else:
        more = f"`pets resume {run} --budget +AMOUNT` adds to it"
        say(f"{name} and is finished: its answers again, nothing is paid; --new starts anew, {more}.")


def _print_estimate(
    question_set: QuestionSet,
    spec: RunSpec,
    model: str,
    expectation: tuple[float | None, float | None, str],
    form: Format | None,
) -> None:
    """Print what the run would take, as a row or as a table."""
    texts = sorted(instructions(question_set.problems, spec.reading.answer)) if spec.reading.instruct else []
    problems = [spec.asked(problem) for problem in question_set.problems]
    expected = estimate(problems, spec, model, *expectation)
    policy = spec.spending.policy if isinstance(spec.spending.policy, str) else type(spec.spending.policy).__name__
    limit = "the server's own limit" if expected.max_tokens is None else f"{expected.max_tokens:,} tokens at most"
    in_all = "not known"
    if expected.tokens is not None:
        in_all = f"{expected.tokens:,}, and {expected.prompt_tokens:,} of prompts"
    longer = f"{expected.times_as_long:.1f} times as long as all traces at once"
    facts = [
        ("questions", f"{expected.questions:,}"),
        ("budget", amount_words(expected.budget, expected.unit)),
        ("policy", policy),
        ("traces", f"{expected.traces:,}, about {expected.traces / expected.questions:.1f} per question"),
        ("per trace", limit),
        ("tokens", in_all),
        ("cost", "not known without --price" if expected.cost is None else amount_words(expected.cost, "usd")),
    ]
    if expected.waves:
        facts.append(("waves", f"{expected.waves} at most; {given_up_words(expected.points_given_up)}"))
    time = "" if expected.seconds is None else f"{duration_words(expected.seconds)}, "
    facts += [("time", time + longer), *(("asked with", text) for text in texts), ("by", expected.basis)]
    row = asdict(expected) | {"policy": policy, "instructions": texts}
    print_rows([row], form, lambda: echo(*(f"{name:<12} {value}" for name, value in facts)))
    if spec.spending.max_traces is not None and expected.traces >= spec.spending.max_traces * expected.questions:
        say(
            f"The budget takes every question to {spec.spending.max_traces} traces, those that all agree on too: "
            "--target-consistency 0.99 would stop earlier."
        )
