"""``pets sample``: record traces of every question as a pool."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pets.cli._signals import INTERRUPTED
from pets.cli.options import Source, drawing_options, field_option, load_questions, merge_sampling, source_options
from pets.recording import Recording, record, unanswered
from pets.samplers import Sampler
from pets.samplers.local import LocalSampler

__all__ = ["sample"]


@click.command(short_help="Record traces of every question as a pool.")
@click.argument("questions", metavar="QUESTIONS")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="A .jsonl file.")
@click.option("--traces", type=click.IntRange(min=1), default=64, show_default=True, help="Traces a question.")
@click.option("--first", type=click.IntRange(min=1), help="Only so many questions, from the first on.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same traces.")
@click.option("--at-once", type=click.IntRange(min=1), default=2, show_default=True, help="Questions in flight.")
@click.option("--part", default="1/1", show_default=True, metavar="I/K", help="Every K-th question from the I-th on.")
@field_option
@source_options
@drawing_options
def sample(
    questions: str,
    output: Path,
    traces: int,
    first: int | None,
    seed: int,
    at_once: int,
    part: str,
    fields: tuple[str, ...],
    temperature: float | None,
    max_tokens: int | None,
    stop: tuple[str, ...],
    window: int | None,
    **source: str,
) -> None:
    """Record traces of every question of QUESTIONS, a JSONL file or a named set, as a pool.

    \b
    pets sample starter -o starter.jsonl --traces 16 --first 10
    pets sample mine.jsonl -o mine.pool.jsonl --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B

    A question is written when its last trace is back. Broken off, the same command goes on where it stopped; how it
    was recorded stands in a file beside it (.recording), so that no other model, sampling or seed goes on with it, nor
    a question whose text has changed.
    """
    asked = load_questions(questions, fields)
    sampling = merge_sampling(replace(asked.sampling, top_logprobs=20), temperature, max_tokens, stop, window)
    recording = Recording(asked.problems[:first], traces, sampling, seed, at_once, _part(part))
    if output.suffix != ".jsonl":
        raise click.UsageError(f'"{output}" must end in .jsonl: it grows by lines. `pets pools convert` knows others.')
    chosen = Source(**source)  # type: ignore[arg-type]
    sampler = chosen.sampler()
    model = sampler.weights.name if isinstance(sampler, LocalSampler) else chosen.name
    recording = replace(recording, model=model)
    try:
        sampled = asyncio.run(_run(recording, sampler, output))
    except KeyboardInterrupt:
        click.echo(f'Stopped. What "{output}" holds is kept; the same command goes on from there.', err=True)
        sys.exit(INTERRUPTED)
    click.echo(f"{output}: {sampled} questions sampled, {len(recording.numbered)} in all.", err=True)
    if bad := unanswered(output):
        click.echo(f"No trace answers {bad} of its questions: bad lines to readers; --skip-bad passes over.", err=True)


def _part(text: str) -> tuple[int, int]:
    i, slash, k = text.partition("/")
    if not (slash and i.isdecimal() and k.isdecimal()):
        raise click.UsageError(f"--part is I/K, such as 1/4; got {text!r}.")
    return int(i), int(k)


async def _run(recording: Recording, sampler: Sampler, output: Path) -> int:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("starting", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, description="questions", completed=done, total=total)

        async with sampler:
            return await record(recording, sampler, output, show)
