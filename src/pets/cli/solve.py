"""``pets solve`` and ``pets top-up``: questions in, answers out, each with its certificate, under a budget."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

from pets.cli._output import check_output
from pets.cli._run import run_engine
from pets.cli.options import drawing_options, field_option, load_questions
from pets.confidence import KINDS
from pets.engine import Engine, RunConfig, TokenPrice
from pets.engine.estimate import estimate, parse_expectation, seen_in_store
from pets.engine.run import Dialect, make_samplers
from pets.errors import InputError

__all__ = ["solve", "top_up"]

LOCAL_CONCURRENCY = 16
ALLOWED_WITH_RESUME = {"store", "resume", "number", "endpoint", "concurrency", "first", "fields"}


@click.command(short_help="Answer questions under a budget, live.")
@click.argument("questions", metavar="QUESTIONS", required=False)
@click.option("--budget", default="16x", show_default=True, help="16x (mean a question), 5000 (traces), 2Mtok, 5usd.")
@click.option("--policy", default="okg", show_default=True, help='Such as "okg" or "price:rounds=3".')
@click.option("--max-traces", type=click.IntRange(min=1), default=64, show_default=True,
              help="The most traces that one question gets.")  # fmt: skip
@click.option("--rpm", type=click.IntRange(min=1), help="Requests per minute that each endpoint takes.")
@click.option("--tpm", type=click.IntRange(min=1), help="Tokens per minute that each endpoint takes.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Traces in flight; default 64, of a local model 16.")
@click.option("--endpoint", multiple=True, metavar="URL", help="An OpenAI-compatible server; give it again for more.")
@click.option("--model", help="The servers' model, or a GGUF file; default: SmolLM2-135M-Instruct, local.")
@click.option("--dialect", type=click.Choice(get_args(Dialect)), help="Of the server, where it is not plain.")
@click.option("--slots", type=click.IntRange(min=1), help="Traces that the local model decodes together.")
@click.option("--context", type=click.IntRange(min=1), help="Tokens of prompt and trace that the local model holds.")
@click.option("--threads", type=click.IntRange(min=1), help="Of the local model; default: one a core.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=600.0, show_default=True, help="Seconds a request.")
@click.option("--answer", help="How answers are read, for all questions: choice, number, math, text.")
@click.option("--system", help="A system message for every question.")
@click.option("--confidence", type=click.Choice(KINDS), help="Ask for log-probabilities; votes may weigh by this.")
@click.option("--price", help="Dollars per million tokens: in=0.15,out=0.60.")
@click.option("--target-consistency", type=float, help="Stop when this self-consistency is expected, such as 0.99.")
@click.option("--overshoot", type=float, default=0.1, show_default=True, help="Most that tokens or money may go over.")
@click.option("--tries", type=click.IntRange(min=1), default=6, show_default=True, help="Of a trace, then it fails.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the traces' seeds.")
@click.option("--first", type=click.IntRange(min=1), help="Only so many questions, from the first on.")
@click.option("--store", type=click.Path(dir_okay=False), help="A file of runs: this one then survives anything.")
@click.option("--resume", is_flag=True, help="Go on with a run of the store; its own settings hold.")
@click.option("--run", "number", default="last", show_default=True, help="Which run to resume.")
@click.option("--dry-run", is_flag=True, help="Say what it would take; ask nothing of any model.")
@click.option("--expect", metavar="tokens=N,seconds=S", help="Of a trace, for --dry-run.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Results as JSONL; else stdout.")
@field_option
@drawing_options
def solve(questions: str | None, output: Path | None, **given: Any) -> None:
    """Answer QUESTIONS, a file (JSONL, CSV, Parquet) or a named set, by self-consistency under a budget.

    \b
    pets solve mine.jsonl --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B --budget 16x --store runs.db
    pets solve --store runs.db --resume
    pets solve starter --first 20 --budget 4x                  the local model

    Every answer comes with its votes, its traces and tokens, and the probability that it is the vote over infinitely
    many traces. Ctrl-C waits for the traces in flight; a run in a store is resumed where it stopped.
    The key of a server comes from OPENAI_API_KEY.
    """
    check_output(output)
    if given["resume"]:
        engine = _resumed(questions, given)
    else:
        found = _new(questions, given)
        if found is None:
            return
        engine = found
    run_engine(engine, output)


def _resumed(questions: str | None, given: dict[str, Any]) -> Engine:
    if given["store"] is None:
        raise InputError("--resume needs --store FILE: the file that holds the run.")
    source = click.get_current_context().get_parameter_source
    named = [name for name in given if source(name) is ParameterSource.COMMANDLINE]
    if ignored := [f"--{name.replace('_', '-')}" for name in named if name not in ALLOWED_WITH_RESUME]:
        raise InputError(
            f"--resume goes on with the run's own settings: leave out {', '.join(ignored)}. "
            "`pets top-up` gives a run more budget."
        )
    engine = Engine.resume(
        given["store"],
        given["number"],
        endpoint=given["endpoint"] or None,
        key=os.environ.get("OPENAI_API_KEY"),
        concurrency=given["concurrency"],
    )
    if questions is not None:
        asked = [problem.id for problem in load_questions(questions, given["fields"]).problems[: given["first"]]]
        if asked != [problem.id for problem in engine.problems]:
            engine.close()
            raise InputError(
                f'"{questions}" is not what this run asks. Leave the questions out, or name its run with --run.'
            )
    return engine


def _new(questions: str | None, given: dict[str, Any]) -> Engine | None:
    """The engine of a new run; none where only a dry run was wanted."""
    if questions is None:
        raise InputError("which questions? Give a file or a named set (`pets questions` lists them), or --resume.")
    asked = load_questions(questions, given["fields"])
    asked = replace(asked, problems=asked.problems[: given["first"]])
    local = not given["endpoint"]
    options = {name: given[name] for name in ("budget", "policy", "max_traces", "answer", "system", "confidence")}
    options |= {name: given[name] for name in ("target_consistency", "overshoot", "tries", "rpm", "tpm", "seed")}
    options |= {name: given[name] for name in ("temperature", "max_tokens", "stop", "window") if given[name]}
    if given["temperature"] is not None:
        options["temperature"] = given["temperature"]
    options["concurrency"] = given["concurrency"] or (LOCAL_CONCURRENCY if local else RunConfig().concurrency)
    options["price"] = None if given["price"] is None else TokenPrice.parse(given["price"])
    config = RunConfig(sampling=asked.sampling).with_options(options)  # type: ignore[arg-type]
    model, expect = given["model"] or "", given["expect"]
    if given["dry_run"]:
        tokens, seconds, basis = parse_expectation(expect) if expect else seen_in_store(given["store"], model)
        click.echo(json.dumps(asdict(estimate(asked.problems, config, model, tokens, seconds, basis))))
        return None
    samplers = make_samplers(
        given["endpoint"],
        given["model"],
        key=os.environ.get("OPENAI_API_KEY"),
        dialect=given["dialect"],
        stream=config.kind is not None,
        timeout=given["timeout"],
        slots=given["slots"],
        context=given["context"],
        threads=given["threads"],
    )
    return Engine(
        asked,
        endpoint=given["endpoint"],
        model=given["model"],
        sampler=samplers,
        store=given["store"],
        config=config,
    )


@click.command("top-up", short_help="Give a run more budget and go on.")
@click.argument("run", metavar="RUN")
@click.option("--budget", required=True, metavar="+AMOUNT", help="+2000, +4x, +1Mtok, +2usd: in the run's currency.")
@click.option("--store", required=True, type=click.Path(dir_okay=False), help="The file that holds the run.")
@click.option("--endpoint", multiple=True, metavar="URL", help="Other servers than the run began with.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Traces in flight.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Results as JSONL; else stdout.")
def top_up(
    run: str, budget: str, store: str, endpoint: tuple[str, ...], concurrency: int | None, output: Path | None
) -> None:
    """Give RUN (its number, or "last") more budget and go on; nothing that was paid for is sampled again.

    \b
    pets top-up last --budget +2000 --store runs.db
    """
    check_output(output)
    engine = Engine.resume(
        store,
        run,
        endpoint=endpoint or None,
        key=os.environ.get("OPENAI_API_KEY"),
        concurrency=concurrency,
        top_up=budget,
    )
    run_engine(engine, output)
