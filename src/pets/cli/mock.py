"""``pets mock``: an OpenAI-compatible endpoint to test against, for free."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import pets.mock
from pets.errors import InputError
from pets.mock import Book, Faults, Known, Mock, Recorded, synthetic
from pets.pools import pool_files, read_pool
from pets.questions import question_set

__all__ = ["mock"]

FAULTS = Faults.help()


def fault_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A flag for each fault."""
    for name, says in reversed(FAULTS.items()):
        option = click.option(f"--{name.replace('_', '-')}", name, type=float, default=0.0, metavar="RATE", help=says)
        command = option(command)
    return command


@click.command()
@click.argument("pool", required=False, type=click.Path(path_type=Path))
@click.option("--answers", type=click.Path(path_type=Path), help='JSON: {"question": {"answer": probability}}.')
@click.option("--questions", type=int, default=100, show_default=True, help="Made-up questions q0, q1, ...")
@click.option("--options", type=int, default=4, show_default=True, help="Answers to each made-up question.")
@click.option("--strength", type=float, default=0.5, show_default=True, help="Dirichlet strength of their answers.")
@click.option("--tokens", type=int, default=64, show_default=True, help="Mean length of a trace, if none is recorded.")
@click.option("--tokens-per-second", type=float, default=0.0, help="Speed of every trace; 0 answers at once.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of made-up questions, faults, unseeded requests.")
@click.option("--model", default="mock", show_default=True, help="The model's name.")
@click.option("--api-key", help="Refuse requests without this key.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, default=8000, show_default=True, help="0 takes a free one.")
@click.option("--n-limit", type=int, help="Refuse requests with a larger n, as a server with so many slots does.")
@fault_flags
@click.option("--slow-seconds", type=float, default=1.0, show_default=True)
@click.option("--retry-after", type=float, default=1.0, show_default=True, help="Seconds that a 429 names.")
def mock(pool: Path | None, answers: Path | None, host: str, port: int, **settings: Any) -> None:
    """Serve an OpenAI-compatible endpoint that answers from a recorded POOL, and misbehaves on demand.

    Without a POOL it answers from known distributions: made-up ones, or yours. A prompt is about the question whose
    id it holds; those of the starter set are known by their text. Each fault is a flag with a rate from 0 to 1; GET
    /mock/stats has the books, GET /mock/questions the questions as JSONL.

    \b
    pets mock                                      100 made-up questions on http://127.0.0.1:8000/v1
    pets mock gpqa.jsonl --tokens-per-second 50    recorded traces, each taking its time
    pets mock --rate-limit 0.1 --error-500 0.05 --hang 0.02 --half-body 0.02
    curl localhost:8000/v1/completions -d '{"model": "mock", "prompt": "q7", "n": 4}'
    """
    wrong = Faults(**{name: settings.pop(name) for name in (*FAULTS, "slow_seconds", "retry_after")})
    book = _book(pool, answers, settings)
    server = Mock(book, faults=wrong, prompts=_starter_prompts(), puzzled=_warn, **settings)
    pets.mock.serve(  # imported here: it is an extra
        server, host, port, ready=lambda url: click.echo(f"{url} (model {server.model}); Ctrl-C stops.", err=True)
    )
    stats = server.stats
    faults = "".join(f", {name} {count}" for name, count in sorted(stats.faults.items()))
    unmatched = f", prompts that name no question: {stats.unmatched}" if stats.unmatched else ""
    click.echo(f"Requests: {stats.requests}, traces served: {stats.traces}{faults}{unmatched}.", err=True)


def _starter_prompts() -> dict[str, str]:
    """What `pets solve starter` asks: few-shot prompts, which hold no ids."""
    problems = question_set("starter").problems
    return {problem.prompt.content: problem.id for problem in problems if isinstance(problem.prompt.content, str)}


def _warn(prompt: str) -> None:
    shown = json.dumps(prompt if len(prompt) <= 60 else f"{prompt[:57]}...", ensure_ascii=False)
    click.echo(
        f"A prompt names no question: {shown}. It gets the answers of one that its hash picks. "
        "Put ids into prompts; GET /mock/questions lists them. Told once; /mock/stats counts on.",
        err=True,
    )


def _book(pool: Path | None, answers: Path | None, settings: dict[str, Any]) -> Book:
    """What to answer from; takes out of the settings what only a book needs."""
    made_up = [settings.pop(name) for name in ("questions", "options", "strength")]
    common = {"tokens": settings.pop("tokens"), "seed": settings["seed"]}
    if pool is not None and answers is not None:
        raise InputError("a POOL and --answers are two sources; give one.")
    if pool is not None:
        files = pool_files([pool])
        if len(files) > 1:
            raise InputError(f'folder "{pool}" holds {len(files)} pools, and one is served. Name it: {files[0]}')
        return Recorded(read_pool(files[0]), **common)
    if answers is not None:
        return Known(_distributions(answers), **common)
    return synthetic(*made_up, **common)


def _distributions(path: Path) -> dict[str, dict[str, float]]:
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f'answers "{path}": {error.strerror or error}. Name a file that can be read.') from None
    except (ValueError, RecursionError) as error:
        raise InputError(f'answers "{path}": not JSON ({error}). Repair it.') from None
    if not isinstance(found, dict) or not all(isinstance(chances, dict) for chances in found.values()):
        raise InputError(f'answers "{path}": expected {{"question": {{"answer": probability}}}}. Repair it.')
    return found
