"""``pets mock``: an OpenAI-compatible endpoint to test against, for free."""

import json
from pathlib import Path

import click

import pets.mock
from pets.cli._groups import option, option_group, verb
from pets.cli._terminal import json_line, say
from pets.errors import InputError
from pets.mock import AnswerSource, DistributionAnswers, Faults, MockModel, PoolAnswers, RequestLimit, synthetic
from pets.pools import pool_files, read_pool
from pets.questions import question_set


@option_group("Answers")
class MockAnswerOptions:
    """What the mock answers from, where it is no recorded pool."""

    answers: Path | None = option('A JSON file of known answers: {"question": {"answer": probability}}.')
    count: int = option("How many questions are made up: q0, q1, ...", 100)
    options: int = option("How many answers each made-up question has.", 4)
    strength: float = option("The Dirichlet strength of the answers to made-up questions.", 0.5)
    tokens: int = option("The mean length of a trace, where none is recorded.", 64)
    seed: int = option("What made-up questions, faults and requests without a seed are drawn from.", 0)


@option_group("Server")
class MockServerOptions:
    """How the mock is reached, and how fast it answers."""

    host: str = option("The address to listen at.", "127.0.0.1")
    port: int = option("The port to listen at; 0 takes a free one.", 8000)
    model: str = option("The model's name.", "mock")
    api_key: str | None = option("Refuse requests without this key.")
    n_limit: int | None = option("Refuse requests with a larger n, as a server with this many slots does.")
    max_model_len: int | None = option("The context: how many tokens prompt and trace have at most together.")
    requests_per_minute: int | None = option(
        "Refuse more requests with 429, and say in x-ratelimit headers what is left."
    )
    prompt_cache: bool = option(
        "Tell in the usage how many prompt tokens are cached: those of prompts seen before.", False
    )
    tokens_per_second: float = option("How fast every trace comes; 0 answers at once.", 0.0)


@verb()
@click.argument("pool", required=False, type=click.Path(path_type=Path))
def mock(pool: Path | None, answers: MockAnswerOptions, server: MockServerOptions, faults: Faults) -> None:
    """Serve an OpenAI-compatible endpoint that answers from a recorded POOL, and misbehaves on demand.

    Without a POOL it answers from known distributions: made-up ones, or yours. A prompt is about the question whose
    id it holds; those of the starter set are known by their text. Each fault is a rate from 0 to 1, the share of
    requests that it befalls; GET /mock/stats counts them, GET /mock/questions has the questions as JSONL.

    \b
    pets mock                                      100 made-up questions on http://127.0.0.1:8000/v1
    pets mock gpqa.jsonl --tokens-per-second 50    recorded traces, each taking its time
    pets mock --rate-limit 0.1 --error-500 0.05 --hang 0.02 --half-body 0.02
    curl localhost:8000/v1/completions -d '{"model": "mock", "prompt": "q7", "n": 4}'
    """
    model = MockModel(
        _answer_source(pool, answers),
        faults=faults,
        prompts=_starter_prompts(),
        on_unmatched=_warn,
        model=server.model,
        api_key=server.api_key,
        n_limit=server.n_limit,
        max_model_len=server.max_model_len,
        request_limit=None if server.requests_per_minute is None else RequestLimit(server.requests_per_minute),
        prompt_cache=server.prompt_cache,
        tokens_per_second=server.tokens_per_second,
        seed=answers.seed,
    )
    pets.mock.serve(  # imported here: it is an extra
        model,
        server.host,
        server.port,
        ready=lambda url: say(f"{url} (model {model.model}); Ctrl-C stops."),
    )
    stats = model.stats
    counts = "".join(f", {name} {number}" for name, number in sorted(stats.faults.items()))
    unmatched = f", prompts that name no question: {stats.unmatched}" if stats.unmatched else ""
    say(f"Requests: {stats.requests}, traces served: {stats.traces}{counts}{unmatched}.")


def _starter_prompts() -> dict[str, str]:
    """What `pets solve starter` asks: few-shot prompts, which hold no ids."""
    problems = question_set("starter").problems
    return {problem.prompt.content: problem.id for problem in problems if isinstance(problem.prompt.content, str)}


def _warn(prompt: str) -> None:
    shown = json_line(prompt if len(prompt) <= 60 else f"{prompt[:57]}...")
    say(
        f"A prompt names no question: {shown}. It gets the answers of one that its hash picks. "
        "Put ids into prompts; GET /mock/questions lists them. Told once; /mock/stats counts on."
    )


def _answer_source(pool: Path | None, answers: MockAnswerOptions) -> AnswerSource:
    """What to answer from."""
    if pool is not None and answers.answers is not None:
        raise InputError("a POOL and --answers are two sources; give one.")
    if pool is not None:
        files = pool_files([pool])
        if len(files) > 1:
            raise InputError(f'folder "{pool}" holds {len(files)} pools, and one is served. Name it: {files[0]}')
        return PoolAnswers(read_pool(files[0]), tokens=answers.tokens, seed=answers.seed)
    if answers.answers is not None:
        return DistributionAnswers(_distributions(answers.answers), tokens=answers.tokens, seed=answers.seed)
    return synthetic(answers.count, answers.options, answers.strength, tokens=answers.tokens, seed=answers.seed)


def _distributions(path: Path) -> dict[str, dict[str, float]]:
    try:
        answers = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f'answers "{path}": {error.strerror or error}. Name a file that can be read.') from None
    except (ValueError, RecursionError) as error:
        raise InputError(f'answers "{path}": not JSON ({error}). Repair it.') from None
    if not isinstance(answers, dict) or not all(isinstance(chances, dict) for chances in answers.values()):
        raise InputError(f'answers "{path}": expected {{"question": {{"answer": probability}}}}. Repair it.')
    return answers
