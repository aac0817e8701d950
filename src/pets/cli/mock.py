"""``pets mock``: an OpenAI-compatible endpoint to test against, for free."""

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

import pets.mock
from pets.cli._groups import option, verb
from pets.cli._terminal import say
from pets.errors import InputError
from pets.mock import AnswerSource, DistributionAnswers, Faults, MockModel, PoolAnswers, RequestLimit, synthetic
from pets.pools import pool_files, read_pool
from pets.questions import question_set

MADE_UP = "made-up"
FAULTS = {spec.name.replace("_", "-"): spec.metadata["help"] for spec in fields(Faults) if "help" in spec.metadata}
SECONDS = {"slow": "slow_seconds", "rate-limit": "retry_after"}  # what a number after the rate is


def parse_faults(texts: Sequence[str]) -> Faults:
    """Parse NAME=RATE[:SECONDS] into faults with their rates.

    >>> parse_faults(["slow=0.1:2"]).slow_seconds
    2.0
    """
    rates: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        rate, colon, seconds = number.partition(":")
        try:
            if name not in FAULTS or name in rates or (colon and name not in SECONDS):
                raise ValueError
            rates[name] = float(rate)
            if colon:
                rates[SECONDS[name]] = float(seconds)
        except ValueError:
            raise InputError(
                f"a fault is given once, as NAME=RATE, NAME one of {', '.join(FAULTS)}, with :SECONDS after "
                f"{' and '.join(SECONDS)}; got {text!r}."
            ) from None
    return Faults(**{name.replace("-", "_"): rate for name, rate in rates.items()})


@verb()
@click.argument("source", metavar="[POOL|ANSWERS.json|made-up]", default=MADE_UP)
def mock(
    source: str,
    fault: tuple[str, ...] = option(
        "A fault and the share of requests that it befalls, such as hang=0.02; give it again for more. "
        + " ".join(f"{name}: {text}" for name, text in FAULTS.items())
        + " Seconds follow a rate: slow=0.1:2, rate-limit=0.1:5.",
        (),
        metavar="NAME=RATE[:SECONDS]",
    ),
    tokens: int = option("The mean length of a trace, where none is recorded.", 64),
    seed: int = option("What made-up questions, faults and requests without a seed are drawn from.", 0),
    host: str = option("The address to listen at.", "127.0.0.1"),
    port: int = option("The port to listen at; 0 takes a free one.", 8000),
    model: str = option("The model's name.", "mock"),
    api_key: str | None = option("Refuse requests without this key."),
    max_model_len: int | None = option("The context: how many tokens prompt and trace have at most together."),
    rpm: int | None = option(
        "How many requests per minute it takes: more get a 429, and x-ratelimit headers say what is left."
    ),
    tokens_per_second: float = option("How fast every trace comes; 0 answers at once.", 0.0),
) -> None:
    """Serve an OpenAI-compatible endpoint that answers from a recorded POOL, and misbehaves on demand.

    It also answers from known distributions: yours, {"question": {"answer": probability}} in a JSON file, or made-up
    ones, whose number of questions, of answers to each and Dirichlet strength may be said. A prompt is about the
    question whose id it holds; those of the starter set are known by their text. GET /mock/stats counts faults, GET
    /mock/questions has the questions as JSONL.

    \b
    pets mock                                      100 made-up questions on http://127.0.0.1:8000/v1
    pets mock gpqa.jsonl --tokens-per-second 50    recorded traces, each taking its time
    pets mock made-up:questions=20,options=6,strength=1
    pets mock --fault rate-limit=0.1:2 --fault error-500=0.05 --fault hang=0.02
    curl localhost:8000/v1/completions -d '{"model": "mock", "prompt": "q7", "n": 4}'
    """
    asked = {problem.prompt.content: problem.id for problem in question_set("starter").problems}

    def warn(prompt: str) -> None:
        shown = json.dumps(prompt if len(prompt) <= 60 else f"{prompt[:57]}...", ensure_ascii=False)
        say(
            f"A prompt names no question: {shown}. It gets the answers of one that its hash picks. "
            "Put ids into prompts; GET /mock/questions lists them. Told once; /mock/stats counts on."
        )

    served = MockModel(
        _answer_source(source, tokens, seed),
        faults=parse_faults(fault),
        prompts={prompt: id for prompt, id in asked.items() if isinstance(prompt, str)},  # few-shot ones: without ids
        on_unmatched=warn,
        model=model,
        api_key=api_key,
        max_model_len=max_model_len,
        request_limit=None if rpm is None else RequestLimit(rpm),
        tokens_per_second=tokens_per_second,
        seed=seed,
    )
    # serve is imported here: it is an extra
    pets.mock.serve(served, host, port, ready=lambda url: say(f"{url} (model {model}); Ctrl-C stops."))
    stats = served.stats
    counts = "".join(f", {name} {number}" for name, number in sorted(stats.faults.items()))
    unmatched = f", prompts that name no question: {stats.unmatched}" if stats.unmatched else ""
    say(f"Requests: {stats.requests}, traces served: {stats.traces}{counts}{unmatched}.")


def _answer_source(source: str, tokens: int, seed: int) -> AnswerSource:
    """Choose what to answer from: made-up questions, a file of distributions, or a pool."""
    name, _, numbers = source.partition(":")
    if name == MADE_UP:
        return synthetic(**_made_up(numbers), tokens=tokens, seed=seed)
    path = Path(source)
    if path.suffix == ".json":
        try:
            content: Any = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            content = None  # the reader of pools says what is wrong
        tables = list(content.values()) if isinstance(content, dict) else []
        chances = [chance for table in tables if isinstance(table, dict) for chance in table.values()]
        known = all(isinstance(table, dict) for table in tables) and all(isinstance(n, int | float) for n in chances)
        if tables and known:
            return DistributionAnswers(content, tokens=tokens, seed=seed)
    files = pool_files([path])
    if len(files) > 1:
        raise InputError(f'folder "{path}" holds {len(files)} pools, and one is served. Name it: {files[0]}')
    return PoolAnswers(read_pool(files[0]), tokens=tokens, seed=seed)


def _made_up(text: str) -> dict[str, Any]:
    """Parse how many questions are made up, how many answers each has, and how strongly they agree.

    >>> _made_up(""), _made_up("questions=3,strength=0.1")
    ({'questions': 100}, {'questions': 3, 'strength': 0.1})
    """
    numbers: dict[str, Any] = {"questions": 100}
    for part in filter(None, text.split(",")):
        key, _, number = part.partition("=")
        try:
            numbers[key] = {"questions": int, "options": int, "strength": float}[key](number)
        except (KeyError, ValueError):
            raise InputError(
                f"made-up questions are {MADE_UP}:questions=N,options=N,strength=X; got {part!r}."
            ) from None
    return numbers
