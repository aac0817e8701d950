"""``pets sample``: record traces of every question as a pool."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from pets.cli._groups import SpecOptions, option, verb
from pets.cli._output import count, interval_words, progress_bar
from pets.cli._terminal import say
from pets.cli.main import INTERRUPTED
from pets.cli.options import ModelOptions, QuestionOptions, run_spec
from pets.engine.progress import wilson
from pets.engine.record import Recording, record, summarize_recording
from pets.engine.sources import Sources
from pets.engine.spec import TOP_LOGPROBS
from pets.samplers import Sampler
from pets.samplers.local import LocalSampler


@verb()
@click.argument("questions", metavar="QUESTIONS")
def sample(
    questions: str,
    run: SpecOptions,
    selection: QuestionOptions,
    model: ModelOptions,
    output: Path = option("The .jsonl file to record to.", flags=("-o", "--output"), required=True),
    traces: int = option("How many traces per question are recorded.", 64, at_least=1),
    shard: str = option(
        "Record every K-th question from the I-th on, so that K machines share the work.", "1/1", metavar="I/K"
    ),
) -> None:
    """Record traces of every question of QUESTIONS (a file, a named set, hf:org/name, - for stdin) as a pool.

    \b
    pets sample starter -o starter.jsonl --traces 16 --first 10
    pets sample mine.jsonl -o mine.pool.jsonl --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B

    A question is written when its last trace is back. Broken off, the same command goes on where it stopped; how it
    was recorded stands in a file beside it (.recording), so that no other model, sampling or seed goes on with it, nor
    a question whose text has changed. The texts of traces are kept, and `pets pools convert --answer TYPE` reads their
    answers anew.
    """
    if output.suffix != ".jsonl":
        raise click.UsageError(f'"{output}" must end in .jsonl: it grows by lines. `pets pools convert` knows others.')
    question_set = selection.load(questions)
    problems = question_set.problems
    if (answer := run.get("answer")) is not None:
        problems = tuple(replace(problem, answer_type=answer) for problem in problems)
    i, slash, k = shard.partition("/")
    if not (slash and i.isdecimal() and k.isdecimal()):
        raise click.UsageError(f"--shard is I/K, such as 1/4; got {shard!r}.")
    drawn = replace(question_set.sampling, top_logprobs=TOP_LOGPROBS)  # all kinds of confidence come from them
    spec = run_spec(run, model, drawn, concurrency=None, answer=None)
    samplers = model.samplers(spec)
    name = next((sampler.weights.name for sampler in samplers if isinstance(sampler, LocalSampler)), model.name or "")
    recording = Recording(tuple(map(spec.asked, problems)), traces, spec, (int(i), int(k)), model=name)
    try:
        sampled = asyncio.run(_record(recording, samplers, output))
    except KeyboardInterrupt:
        say(f'Stopped. What "{output}" holds is kept; the same command goes on from there.')
        sys.exit(INTERRUPTED)
    say(f"{output}: {count(sampled, 'question')} sampled, {len(recording.own_problems)} in all.")
    summary = summarize_recording(output, recording.problems)
    if summary.judged:
        accuracy = interval_words(summary.vote_accuracy, *wilson(summary.vote_accuracy, summary.judged))
        say(
            f"Accuracy of {count(summary.judged, 'question')} with gold: pass@1 {summary.pass_at_1:.3f}, "
            f"vote of {count(traces, 'trace')} {accuracy}."
        )
    if summary.cut:
        cut = f"{summary.cut:,} traces were" if summary.cut > 1 else "1 trace was"
        say(f"{cut} cut at their token limit and cast no vote: --max-tokens N lets them be longer.")
    if summary.unanswered:
        texts = spec.keeping.keep_texts and not summary.cut
        anew = " `pets pools convert --answer TYPE` reads their texts anew." if texts else ""
        say(f"No trace answers {count(summary.unanswered, 'question')}.{anew}")


async def _record(recording: Recording, samplers: Sequence[Sampler], output: Path) -> int:
    with progress_bar("questions", "starting") as show:
        async with Sources(samplers).opened():
            return await record(recording, samplers, output, show)
