"""``pets stream``: questions as they arrive, answers as they come about, within a budget."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from pets.cli._signals import INTERRUPTED
from pets.cli._stdin import Parse, lines, problems_in, replayed_problem, spoken_problem
from pets.cli.options import field_option, load_questions, merge_sampling
from pets.cli.streaming import Replayed, Running, in_order, stream_budget
from pets.core.allocator import Allocator
from pets.engine.sources import samplers_of
from pets.errors import InputError
from pets.plans import Drift, SampledTraces, StreamPlan, left_by_windows, read_plan
from pets.plans.traces import Source
from pets.policies.price import Price
from pets.pools import pool_files, read_pool
from pets.questions import Problem, parse_fields
from pets.registry import make_answer_type
from pets.replay.labelled import RAW
from pets.samplers import Sampler, Sampling

__all__ = ["stream"]

STDIN = "-"
MEAN = 16.0  # traces a question, where neither a plan nor the user says
at_least_1 = click.IntRange(min=1)


@click.command(short_help="Answer questions as they arrive, within a budget.")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False), help="As `pets fit` made it.")
@click.option("--cold", is_flag=True, help="Without a plan: learn from the stream itself.")
@click.option("--questions", metavar="FILE|-", help="A file, a named set, or - for JSONL on stdin (the default).")
@click.option("--replay", type=click.Path(path_type=Path), help="Draw from this recorded pool instead of a model.")
@click.option("--horizon", type=at_least_1, help="How many questions will come; known for a file.")
@click.option("--window", type=at_least_1, help="No end: a budget for every so many questions; stdin: 100.")
@click.option("--budget", help="16x (mean a question) or 5000 (traces), in all or a window; default: the plan's.")
@click.option(
    "--rounds", type=click.IntRange(min=0), default=3, show_default=True, help="With --cold: batches at most."
)
@click.option("--max-per-question", "cap", type=at_least_1, help="Traces at most; default: the plan's, cold 64.")
@click.option("--at-once", type=at_least_1, default=8, show_default=True, help="Questions on their way together.")
@click.option("--concurrency", type=at_least_1, default=64, show_default=True, help="Traces in flight.")
@click.option("--alarm-rate", type=click.FloatRange(0, 1, True, True), default=0.01, show_default=True,
              help="The chance of a drift alarm, ever, where nothing has changed.")  # fmt: skip
@click.option("--endpoint", multiple=True, metavar="URL", help="An OpenAI-compatible server; give it again for more.")
@click.option("--model", help="The servers' model, or a GGUF file; default: SmolLM2-135M-Instruct, local.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=600.0, show_default=True, help="Seconds a request.")
@click.option("--tries", type=at_least_1, default=6, show_default=True, help="Of a trace, then it fails.")
@click.option("--answer", help="How answers are read: choice, number, math, text; with --replay also raw.")
@click.option("--system", help="A system message for every question.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the traces.")
@click.option("--temperature", type=click.FloatRange(min=0.0), help="1 is the model's own distribution.")
@click.option("--max-tokens", type=at_least_1, help="Where a trace is cut; a cut one casts no vote.")
@click.option("--stop", multiple=True, help="Text that ends a trace; give it again for more.")
@field_option
def stream(plan_file: Path | None, cold: bool, replay: Path | None, **given: Any) -> None:
    """Answer questions as they arrive: JSONL in, a line of JSON for each as soon as it is answered.

    \b
    pets stream --plan plan.json --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B < questions.jsonl
    pets stream --plan plan.json --window 1000 ...            no end: the plan's mean for every 1000 questions
    pets stream --cold --horizon 500 --budget 12x ...         no training pool
    pets stream --plan plan.json --replay recorded.jsonl      on recorded answers

    A question is {"id", "question" or "prompt", "answer": "number"?}. The budget is never exceeded; what easy questions
    leave is spent on the others. A line that cannot be asked gets a line with "error", and the stream goes on. Ctrl-C
    takes in no more, waits for the traces in flight and answers every question that was begun.
    """
    plan = _the_plan(plan_file, cold)
    cap = given["cap"] or (64 if plan is None else plan.cap)
    what = _live(plan, given) if replay is None else _recorded(replay, cap, given)
    budget, horizon = stream_budget(
        MEAN if plan is None else plan.mean_budget,
        min(cap, what.cap or cap),
        budget=given["budget"],
        horizon=given["horizon"],
        window=given["window"],
        known=None if what.problems is None else len(what.problems),
    )
    leave = left_by_windows(budget)
    learning = Price(given["rounds"], use_up=True, leave=leave, cold=True)
    policy = learning if plan is None else plan.policy(use_up=True, leave=leave)
    running = Running(
        Allocator(policy, budget, horizon=horizon, seed=given["seed"]),
        what.source,
        samplers=what.samplers,
        drift=None if plan is None else Drift.of(plan, given["alarm_rate"]),
        targets=what.targets,
        at_once=given["at_once"],
        concurrency=given["concurrency"],
    )
    asked = what.problems
    if not running.run(_arriving(what.parse, running.refuse) if asked is None else in_order(asked)):
        sys.exit(INTERRUPTED)


@dataclass(frozen=True, slots=True)
class _What:
    """What is asked, and who answers; ``problems`` is None where they come line by line."""

    source: Source
    problems: Sequence[Problem] | None
    parse: Parse
    samplers: Sequence[Sampler] = ()
    targets: dict[str, str | None] | None = None
    cap: int | None = None


def _the_plan(path: Path | None, cold: bool) -> StreamPlan | None:
    if (path is None) != cold:
        raise InputError("give either --plan FILE (`pets fit` makes one) or --cold, which learns from the stream.")
    return None if path is None else read_plan(path)


def _live(plan: StreamPlan | None, given: dict[str, Any]) -> _What:
    """A model, asked."""
    if given["answer"] is not None:
        make_answer_type(given["answer"])
    fields = given["fields"]
    asked = None if given["questions"] in (None, STDIN) else load_questions(given["questions"], fields)
    chosen = Sampling() if asked is None else replace(asked.sampling, top_logprobs=None)  # votes count alike here
    samplers = samplers_of(
        given["endpoint"],
        given["model"],
        key=os.environ.get("OPENAI_API_KEY"),
        timeout=given["timeout"],
        concurrency=given["concurrency"],
    )
    source = SampledTraces(
        samplers,
        merge_sampling(chosen, given["temperature"], given["max_tokens"], given["stop"], None),
        answer=given["answer"],
        system=given["system"],
        options=None if plan is None else {plan.provenance.answer: plan.provenance.options},
        tries=given["tries"],
        seed=given["seed"],
    )
    kind = "text" if plan is None or plan.provenance.answer == RAW else plan.provenance.answer
    return _What(source, None if asked is None else asked.problems, _spoken(fields, kind), samplers)


def _recorded(path: Path, cap: int, given: dict[str, Any]) -> _What:
    """A recorded pool, drawn from; its own questions unless others of them are named."""
    if given["endpoint"] or given["model"]:
        raise InputError("--replay draws from a recorded pool; leave out --endpoint and --model.")
    (file,) = pool_files([path])
    replayed = Replayed.of(read_pool(file), given["answer"], cap, given["seed"])
    named = given["questions"]
    if named not in (None, STDIN):
        raise InputError("with --replay the questions are the pool's own, or ids as JSONL on stdin (--questions -).")
    problems = replayed.problems if named is None else None
    return _What(
        replayed.source, problems, replayed_problem(Replayed.problem), targets=replayed.targets, cap=replayed.cap
    )


def _spoken(fields: tuple[str, ...], answer: str) -> Parse:
    return spoken_problem(parse_fields(fields), answer)


def _arriving(parse: Parse, refuse: Callable[[int, str], None]) -> AsyncIterator[Problem]:
    """Questions on stdin; a line that holds none is refused with its number and what is wrong."""
    return problems_in(lines(sys.stdin.buffer), parse, refuse)
