"""``pets stream``: questions as they arrive, answers as they come about, within a budget."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pets.answers.base import AnswerType
from pets.cli._output import format_amount
from pets.cli._signals import INTERRUPTED, interruptible
from pets.cli._stdin import Parse, lines, problems_in, replayed_problem, spoken_problem
from pets.cli.options import field_option, load_questions, merge_sampling
from pets.confidence import KINDS
from pets.core.tally import majority
from pets.engine import Answer, RunConfig, TokenPrice
from pets.engine.budget import price_of
from pets.engine.run import make_samplers
from pets.errors import InputError
from pets.plans import Drift, Stream, StreamPlan, StreamSettings, left_by_windows, read_plan, stream_budget
from pets.plans.stream import RecordedAnswer, RecordedStream
from pets.policies.price import Price
from pets.pools import pool_files, read_pool
from pets.questions import Problem, parse_fields
from pets.registry import make_answer_type
from pets.replay.config import ReplayConfig
from pets.replay.draws import draw_traces
from pets.replay.labelled import RAW, read_answers
from pets.samplers import Prompt, Sampler, Sampling

__all__ = ["stream"]

STDIN = "-"
MEAN_TRACES = 16.0  # per question, where neither a plan nor the user says
ALLOWED_WITH_RESUME = {"store", "resume", "number", "endpoint", "questions", "fields", "plan_file", "alarm_rate"}
at_least_1 = click.IntRange(min=1)


@click.command(short_help="Answer questions as they arrive, within a budget.")
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False), help="The plan that `pets fit` made."
)
@click.option("--cold", is_flag=True, help="Work without a plan: learn from the stream itself.")
@click.option("--questions", metavar="FILE|-", help="A file, a named set, or - for JSONL on stdin (the default).")
@click.option("--replay", type=click.Path(path_type=Path), help="Draw from this recorded pool instead of a model.")
@click.option("--horizon", type=at_least_1, help="How many questions will come; known for a file.")
@click.option(
    "--budget-window",
    "window",
    type=at_least_1,
    help="A stream without an end has a budget for every so many questions; on stdin 100.",
)
@click.option(
    "--budget",
    help="16x (mean per question), 5000 (traces), 2Mtok or 5usd, in all or per window; the plan's by default.",
)
@click.option("--price", help="Dollars per million tokens: in=0.15,out=0.60.")
@click.option(
    "--rounds",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="With --cold: how many batches a question gets at most after its warm-up.",
)
@click.option(
    "--max-traces",
    "cap",
    type=at_least_1,
    help="The most traces that one question gets; the plan's by default, cold 64.",
)
@click.option(
    "--open-questions",
    type=at_least_1,
    default=8,
    show_default=True,
    help="How many questions are on their way at a time.",
)
@click.option(
    "--concurrency", type=at_least_1, default=64, show_default=True, help="How many traces are in flight at most."
)
@click.option(
    "--alarm-rate",
    type=click.FloatRange(0, 1, True, True),
    default=0.01,
    show_default=True,
    help="The chance of a drift alarm, ever, where nothing has changed.",
)
@click.option("--endpoint", multiple=True, metavar="URL", help="An OpenAI-compatible server; give it again for more.")
@click.option("--model", help="The servers' model, or a GGUF file; by default SmolLM2-135M-Instruct on this machine.")
@click.option("--rpm", type=at_least_1, help="Requests per minute that each endpoint takes.")
@click.option("--tpm", type=at_least_1, help="Tokens per minute that each endpoint takes.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=600.0,
    show_default=True,
    help="Seconds that a request may take.",
)
@click.option(
    "--tries",
    type=at_least_1,
    default=6,
    show_default=True,
    help="How many times a trace is tried before it counts as failed.",
)
@click.option("--answer", help="How answers are read: choice, number, math, text; with --replay also raw.")
@click.option("--system", help="A system message for every question.")
@click.option(
    "--confidence", type=click.Choice(KINDS), help="Ask for log-probabilities, and keep this confidence of each trace."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The seed that the seeds of all traces follow from.",
)
@click.option("--temperature", type=click.FloatRange(min=0.0), help="1 is the model's own distribution.")
@click.option("--max-tokens", type=at_least_1, help="Where a trace is cut; a cut one casts no vote.")
@click.option("--stop", multiple=True, help="Text that ends a trace; give it again for more.")
@click.option("--store", type=click.Path(dir_okay=False), help="A file of runs: the stream then survives anything.")
@click.option("--resume", is_flag=True, help="Go on with a stream of the store; its own settings hold.")
@click.option("--run", "number", default="last", show_default=True, help="Which run of the store to resume.")
@field_option
def stream(**given: Any) -> None:
    """Answer questions as they arrive: JSONL in, a line of JSON for each as soon as it is answered.

    \b
    pets stream --plan plan.json --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B < questions.jsonl
    pets stream --plan plan.json --budget-window 1000 ...     no end: the plan's mean for every 1000 questions
    pets stream --cold --horizon 500 --budget 12x ...         no training pool
    pets stream --plan plan.json --replay recorded.jsonl      on recorded answers
    pets stream --store runs.db --resume < questions.jsonl    where it stopped

    A question is {"id", "question" or "prompt", "answer": "number"?}. The budget is never exceeded; what easy questions
    leave is spent on the others. A line that cannot be asked gets a line with "error", and the stream goes on. Ctrl-C
    takes in no more, waits for the traces in flight and answers every question that was begun. With a store nothing is
    paid for twice, whatever ends the process.
    """
    if not given["resume"] and (given["plan_file"] is None) != given["cold"]:
        raise InputError("give either --plan FILE (`pets fit` makes one) or --cold, which learns from the stream.")
    plan = None if given["plan_file"] is None else read_plan(given["plan_file"])
    if given["resume"]:
        verb = _resumed(plan, given)
    else:
        verb = _live(plan, given) if given["replay"] is None else _recorded(plan, given)
    if not verb.run():
        sys.exit(INTERRUPTED)


@dataclass(slots=True)
class _Verb:
    """One run of the verb: lines on stdout as they come, words on stderr.

    ``problems`` is None where they come line by line; ``targets`` are the votes of all recorded traces.
    """

    make: Callable[[Callable[[Answer], None]], Stream]
    problems: Sequence[Problem] | None
    parse: Parse
    targets: Mapping[str, str | None] | None = None
    answered: int = 0
    agreed: int = 0
    not_answered: int = 0  # lines that held no question, and questions that were refused
    _stream: Stream = field(init=False)

    def run(self) -> bool:
        """Run to the end; False if it was stopped before."""
        self._stream = self.make(self._print)
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            kept = "; --resume goes on with it" if self._stream.stored_run is not None else ""
            click.echo(f"Stopped at once: traces in flight are lost, and charged{kept}.", err=True)
            sys.exit(INTERRUPTED)
        self._print_summary()
        return not self._stream.driver.draining

    async def _run(self) -> None:
        async with self._stream as running:
            with interruptible(running.drain, "No more questions; waiting for the traces in flight."):
                await running.run(self._arriving())

    def _arriving(self) -> AsyncIterator[Problem]:
        """The questions; a line that holds none is refused with its number and what is wrong."""
        if self.problems is not None:
            return _in_order(self.problems)
        return problems_in(lines(sys.stdin.buffer), self.parse, self._refuse)

    def _refuse(self, line: int, reason: str) -> None:
        self.not_answered += 1
        click.echo(json.dumps({"line": line, "error": reason}, ensure_ascii=False))

    def _print(self, answer: Answer) -> None:
        if answer.error is None or answer.traces:
            self.answered += 1
            self.agreed += answer.answer is not None and answer.answer == (self.targets or {}).get(answer.id)
        else:
            self.not_answered += 1
        click.echo(json.dumps(answer.to_plain(), ensure_ascii=False))

    def _print_summary(self) -> None:
        driver, drift = self._stream.driver, self._stream.drift
        budget = driver.allocator.budget
        unit = budget.currency.unit
        share = f" ({budget.spent / budget.total:.1%})" if budget.total else ""
        spent, total = format_amount(budget.spent, unit), format_amount(budget.total, unit)
        words = [f"{self.answered:,} questions answered, {spent} of {total}{share}."]
        if self._stream.lost:
            words.append(
                f"{self._stream.lost:,} traces were in flight when it was broken off: charged, without a vote."
            )
        if self.not_answered:
            words.append(f'{self.not_answered:,} not answered; a line with "error" says why of each.')
        if self.targets is not None and self.answered:
            words.append(f"Self-consistency with the vote of all traces drawn: {self.agreed / self.answered:.3f}.")
        if drift is not None:
            state = "ALARM" if drift.alarm else "none"
            words.append(f"Drift from the plan: {state} (p = {drift.p_value:.3g}, {drift.seen:,} warm-ups).")
        if driver.draining:
            words.append("Stopped before the end: questions without a line were not asked.")
        if self._stream.stored_run is not None:
            words.append(f"Run {self._stream.stored_run.id}.")
        for line in words:
            click.echo(line, err=True)


def _live(plan: StreamPlan | None, given: dict[str, Any]) -> _Verb:
    """A model, asked."""
    if given["answer"] is not None:
        make_answer_type(given["answer"])
    asked = None if given["questions"] in (None, STDIN) else load_questions(given["questions"], given["fields"])
    problems = None if asked is None else asked.problems
    chosen = Sampling() if asked is None else replace(asked.sampling, top_logprobs=None)
    sampling = merge_sampling(chosen, given["temperature"], given["max_tokens"], given["stop"], None)
    price = None if given["price"] is None else TokenPrice.parse(given["price"])
    config = _config(given, given["answer"], sampling, price)
    options = {} if plan is None else {plan.provenance.answer: plan.provenance.options}
    settings = _settings(plan, config, given, problems, price_of(given["model"] or "", price), options)
    samplers = _samplers(settings, given)
    kind = "text" if plan is None or plan.provenance.answer == RAW else plan.provenance.answer
    return _Verb(
        lambda on_answer: Stream(settings, samplers, on_answer, store=given["store"], **_watching(plan, given)),
        problems,
        spoken_problem(parse_fields(given["fields"]), kind),
    )


def _recorded(plan: StreamPlan | None, given: dict[str, Any]) -> _Verb:
    """A recorded pool, drawn from as the replay lab draws; its own questions unless ids come on stdin."""
    if given["endpoint"] or given["model"]:
        raise InputError("--replay draws from a recorded pool; leave out --endpoint and --model.")
    if given["store"] is not None:
        raise InputError("--replay pays for nothing; leave out --store.")
    if given["questions"] not in (None, STDIN):
        raise InputError("with --replay the questions are the pool's own, or ids as JSONL on stdin (--questions -).")
    cap = given["cap"] or (64 if plan is None else plan.cap)
    (file,) = pool_files([given["replay"]])
    pool = read_answers(read_pool(file), given["answer"])
    drawn = draw_traces(pool, ReplayConfig(repetitions=1, size=cap, seed=given["seed"]), 0)
    targets = {id: majority([trace.answer for trace in path]) for id, path in drawn.traces.items()}
    problems = None if given["questions"] == STDIN else [_named(id) for id in targets]
    config = _config(given, RecordedAnswer(), Sampling(), None)
    given = {**given, "cap": min(cap, drawn.size)}
    settings = _settings(plan, config, given, problems, None, {"text": pool.options})
    samplers = [RecordedStream(drawn.traces, config.seeds(0).cap)]
    return _Verb(
        lambda on_answer: Stream(settings, samplers, on_answer, **_watching(plan, given)),
        problems,
        replayed_problem(_named),
        targets,
    )


def _resumed(plan: StreamPlan | None, given: dict[str, Any]) -> _Verb:
    """A stream of the store, taken up where it stopped."""
    if given["store"] is None:
        raise InputError("--resume needs --store FILE: the file that holds the stream.")
    source = click.get_current_context().get_parameter_source
    if ignored := [
        name for name in given if name not in ALLOWED_WITH_RESUME and source(name) is ParameterSource.COMMANDLINE
    ]:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in ignored)
        raise InputError(f"--resume goes on with the stream's own settings: leave out {named}.")
    asked = None if given["questions"] in (None, STDIN) else load_questions(given["questions"], given["fields"])
    return _Verb(
        lambda on_answer: Stream.resume(
            given["store"],
            given["number"],
            lambda settings: _samplers(settings, given),
            on_answer,
            **_watching(plan, given),
        ),
        None if asked is None else asked.problems,
        spoken_problem(parse_fields(given["fields"]), "text"),
    )


def _config(
    given: dict[str, Any], answer: str | AnswerType | None, sampling: Sampling, price: TokenPrice | None
) -> RunConfig:
    names = ("concurrency", "system", "confidence", "tries", "rpm", "tpm", "seed")
    return RunConfig(answer=answer, sampling=sampling, price=price, **{name: given[name] for name in names})


def _settings(
    plan: StreamPlan | None,
    config: RunConfig,
    given: dict[str, Any],
    problems: Sequence[Problem] | None,
    price: TokenPrice | None,
    options: Mapping[str, int | None],
) -> StreamSettings:
    budget, horizon = stream_budget(
        MEAN_TRACES if plan is None else plan.mean_budget,
        given["cap"] or (64 if plan is None else plan.cap),
        budget=given["budget"],
        horizon=given["horizon"],
        window=given["window"],
        problems=problems,
        price=price,
        max_tokens=config.sampling.max_tokens,
    )
    leave = left_by_windows(budget)
    cold = Price(given["rounds"], use_up=True, leave=leave, cold=True)
    policy = cold if plan is None else plan.policy(use_up=True, leave=leave)
    endpoints = tuple(given["endpoint"])
    return StreamSettings(
        policy, budget, config, horizon, given["open_questions"], given["model"] or "", endpoints, options
    )


def _samplers(settings: StreamSettings, given: dict[str, Any]) -> list[Sampler]:
    return make_samplers(
        given["endpoint"] or settings.endpoints,
        settings.model or None,
        key=os.environ.get("OPENAI_API_KEY"),
        stream=settings.config.kind is not None,
        timeout=given["timeout"],
    )


def _watching(plan: StreamPlan | None, given: dict[str, Any]) -> dict[str, Any]:
    """Drift from the plan, where there is one."""
    return {"drift": None if plan is None else Drift.of(plan, given["alarm_rate"]), "on_alarm": _alarm}


def _alarm(drift: Drift) -> None:
    click.echo(
        f"Drift: after {drift.seen:,} questions the warm-up patterns no longer fit the plan (p = {drift.p_value:.2g}). "
        "The budget is kept; fit a new plan on recent answers to spend it well.",
        err=True,
    )


def _named(id: str) -> Problem:
    """A question that is known by its id alone."""
    return Problem(id, Prompt(id))


async def _in_order(problems: Sequence[Problem]) -> AsyncIterator[Problem]:
    for problem in problems:
        yield problem
