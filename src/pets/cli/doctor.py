"""``pets doctor``: what a server can do, what it makes of a few questions, and what to change before a run."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import NamedTuple

import click

from pets.cli._config_file import FILE_NAME, ConfigFile
from pets.cli._groups import SpecOptions, option, verb
from pets.cli._output import FORMAT, Format, print_rows
from pets.cli._terminal import echo, say
from pets.cli.options import ModelOptions, QuestionOptions, local_settings, run_spec
from pets.core.money import amount_words
from pets.engine import RunSpec
from pets.engine.budget import price_of
from pets.engine.diagnosis import PROBE_TOKENS, PROBE_TRACES, TRACE_TOKENS, Diagnosis, diagnose
from pets.engine.estimate import RunEstimate, estimate
from pets.engine.sources import Servers, endpoint_keys, endpoints_by_model, keys_by_model, sources_of
from pets.errors import BudgetError, InputError
from pets.questions import Problem, QuestionSet
from pets.samplers import Sampler, Sampling

FAULTY = 1  # the exit code
LIMIT_STEP = 500  # tokens
LIVE_QUESTIONS = 3  # that are asked, one trace each
MARKS = {"ok": "ok   ", "note": "note ", "fault": "FAULT"}


@verb()
@click.argument("questions", metavar="[QUESTIONS]", required=False)
def doctor(
    questions: str | None,
    run: SpecOptions,
    model: ModelOptions,
    selection: QuestionOptions,
    form: Format | None = FORMAT,
    trust: bool = option(
        "Have the pets.toml found here count as it is now, with the servers, keys and code that it names; then leave.",
        False,
    ),
) -> None:
    """Look at a server before a run: can it be reached, is the key right, is there the model, what does it honour?

    \b
    pets doctor --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B
    pets doctor mine.jsonl --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B --budget 5usd
    pets doctor                                                 the local model

    Of QUESTIONS three are asked live, fewer with --first: what was read from each, how long it was, and what the
    budget would buy. What that may cost is said before. Exit code 1 means that a run would fail or answer nothing.
    """
    if trust:
        file = click.get_current_context().find_object(ConfigFile)
        if file is None:
            raise InputError(f"there is no {FILE_NAME} here or in a folder above: nothing to trust.")
        say(*(f"{name} = {setting!r}" for name, setting in file.risky.items()))
        say(f'"{file.path}" counts from now on, until it changes; that is kept in "{file.trust()}".')
        return
    question_set = None if questions is None else selection.load(questions)
    own = Sampling() if question_set is None else replace(question_set.sampling, top_logprobs=None)
    spec = run_spec(run, model, own)
    everything = () if question_set is None else question_set.problems
    number = min(LIVE_QUESTIONS, len(everything))  # the first, the last, and some between
    places = sorted({round(i * (len(everything) - 1) / max(1, number - 1)) for i in range(number)})
    problems = [everything[place] for place in places]
    served = _served_models(model, spec)
    say(_announcement(served, problems))
    settings = local_settings(model.local)

    def sampler_at(own: ServedModel, url: str, name: str) -> Sampler:
        servers = Servers(url or None, name if url else own.model, own.key, model.headers)
        return sources_of(servers, own.spec, **settings).samplers[0]

    examined: list[tuple[Diagnosis, RunEstimate | None]] = []
    for own_model in served:
        make, alone = partial(sampler_at, own_model), own_model.spec
        diagnosis = asyncio.run(diagnose(own_model.server, own_model.model, make, problems, alone))
        examined.append((diagnosis, None if question_set is None else _forecast(diagnosis, question_set, alone)))

    def print_people() -> None:
        for diagnosis, forecast in examined:
            echo(*_report(diagnosis, forecast, spec))

    rows = (
        asdict(diagnosis) | {"faulty": diagnosis.faulty, "forecast": None if forecast is None else asdict(forecast)}
        for diagnosis, forecast in examined
    )
    print_rows(rows, form, print_people)
    if any(diagnosis.faulty for diagnosis, _ in examined):
        sys.exit(FAULTY)


class ServedModel(NamedTuple):
    """One model at one server, its key, and the spec of a run with it alone; the local model has an empty address."""

    server: str
    model: str | None
    key: str | None
    spec: RunSpec


def _served_models(options: ModelOptions, spec: RunSpec) -> list[ServedModel]:
    """List every server of the model, or of each of several models."""
    if not (shares := spec.serving.models):
        servers = options.servers or ("",)
        keys = endpoint_keys(servers, options.keys)
        return [ServedModel(server, options.name, key, spec) for server, key in zip(servers, keys, strict=True)]
    urls, keys_of = endpoints_by_model(options.names, options.servers), keys_by_model(options.names, options.keys)
    return [
        ServedModel(url, share.name, keys_of[share.name], spec.with_options(models=(), price=share.price))
        for share in shares
        for url in urls[share.name] or [""]
    ]


def _announcement(served: Sequence[ServedModel], problems: Sequence[Problem]) -> str:
    """Say how many traces are asked for, and what they cost at most."""
    spec = served[0].spec
    probe = min(PROBE_TOKENS, spec.sampling.max_tokens or PROBE_TOKENS)
    tokens = PROBE_TRACES * probe + len(problems) * (spec.sampling.max_tokens or TRACE_TOKENS)
    prompts = sum(spec.asked(problem).prompt.max_tokens for problem in [*problems[:1], *problems[:1], *problems])
    prices = [price_of(own.model or "", own.spec.spending.price) for own in served if own.server]
    dollars = sum(price.dollars(prompts, tokens) for price in prices if price is not None)
    cost = f", {amount_words(dollars, 'usd')}" if dollars else ""
    traces = len(served) * (PROBE_TRACES + len(problems))
    return f"Asking for {traces} traces, {len(served) * tokens:,} tokens at most{cost}."


def _forecast(diagnosis: Diagnosis, question_set: QuestionSet, spec: RunSpec) -> RunEstimate | None:
    """Estimate what the budget buys from the live traces; ``None`` without traces, or where it needs a token limit."""
    traces = [trace for trace in diagnosis.traces if trace.tokens]
    if not traces:
        return None
    tokens = sum(trace.tokens or 0 for trace in traces) / len(traces)
    seconds = sum(trace.seconds for trace in traces) / len(traces)
    if spec.sampling.max_tokens is None and diagnosis.max_model_len is not None:
        spec = spec.with_options(sampling=replace(spec.sampling, max_tokens=diagnosis.max_model_len))
    problems = [spec.asked(problem) for problem in question_set.problems]
    try:
        return estimate(problems, spec, diagnosis.model, tokens, seconds, f"{len(traces)} live traces")
    except BudgetError as error:
        longest = max(trace.tokens or 0 for trace in traces)
        limit = LIMIT_STEP * -(-2 * longest // LIMIT_STEP)  # twice as long as any, in round numbers
        remedy = f"Give --max-tokens {limit}: the longest live trace had {longest:,}."
        diagnosis.add("budget", "fault", str(error), remedy if "--max-tokens" in str(error) else "")
        return None


def _report(diagnosis: Diagnosis, forecast: RunEstimate | None, spec: RunSpec) -> Iterator[str]:
    yield f"{diagnosis.server or 'local model'} {diagnosis.model}".rstrip()
    for check in diagnosis.checks:
        yield f"  {MARKS[check.state]}  {check.name:18} {check.finding}"
    for trace in diagnosis.traces:
        answer = "nothing read" if trace.answer is None else f"read {trace.answer!r}"
        answer = "cut" if trace.is_cut else answer
        tokens = "?" if trace.tokens is None else f"{trace.tokens:,}"
        yield f"  {trace.question}: {answer} as {trace.answer_type}; {tokens} tokens in {trace.seconds:.1f} s"
        if trace.answer is None:
            yield f"    {' '.join(trace.text.split())}"
    if forecast is not None:
        cost = "" if forecast.cost is None else f", {amount_words(forecast.cost, 'usd')}"
        seconds = forecast.seconds or 0.0
        time = f"{max(1, round(seconds))} s" if seconds < 120 else f"{round(seconds / 60):,} min"
        bought = f"{forecast.traces:,} traces of {forecast.questions:,} questions, {forecast.tokens:,} tokens{cost}"
        how = f"with {spec.pacing.concurrency} in flight, by {forecast.basis}"
        yield f"  --budget {spec.spending.budget}: {bought}, about {time} {how}."
    if remedies := [check.remedy for check in diagnosis.checks if check.remedy]:
        yield "  To change:"
        yield from (f"  - {remedy}" for remedy in remedies)
