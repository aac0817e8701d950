"""``pets pools``: look at recorded pools, check them, change their format; print questions."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from pets.cli._groups import named_options, option, option_group, refuse_named, verb_group
from pets.cli._output import FORMAT, Format, count, print_rows, print_table, write_output
from pets.cli._terminal import echo, say
from pets.cli.options import FIELDS, FIRST
from pets.errors import InputError
from pets.lab import LabelledPool, read_answers, relabelled
from pets.pools import (
    Metric,
    Pool,
    Summary,
    check_pool,
    joined_seeds,
    mix_pools,
    pool_files,
    read_pool,
    split_mixture,
    summarize,
    write_pool,
)  # fmt: skip
from pets.pools.formats import NAMES
from pets.questions import find_questions, named_sets, parse_fields, question_set
from pets.questions.files import question_record
from pets.questions.sets import BENCHMARKS
from pets.report.tables import make_table

PATHS = click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
EXISTING = click.Path(path_type=Path, exists=True)
CONFIDENCE: Any = option("Which trace confidence to take where a pool has several.", "tail")


POOL_FIELDS: Any = option(
    "Where the pool holds what, if not under a usual name: answers=predictions, texts=replies, gold=final, ...; "
    "give it again for more.",
    (),
    flags=("--field",),
    metavar="NAME=COLUMN",
)


@option_group("Pools")
class PoolOptions:
    answer: str | None = option(
        "Read the texts of traces, or what stands for their answers, by this answer type: choice, number, math, "
        "text, ...; raw takes them as recorded. If not given, as the manifest says, else as recorded."
    )
    fields: tuple[str, ...] = POOL_FIELDS
    skip_bad: bool = option("Pass over bad lines and say how many they were.", False)

    def read_mixtures(self, paths: Iterable[Path]) -> tuple[list[Pool], list[tuple[list[Pool], list[float]]]]:
        """Read the pool of every file, every pool of a folder, and the mixture of every ``a.jsonl=2+b.jsonl``.

        Beside them, the pools of each mixture and their weights; the questions that it leaves out go to stderr.
        """
        pools, mixtures = list[Pool](), []
        for path in joined_seeds(paths):
            files = split_mixture(str(path))
            if len(files) < 2:
                pools += [self.read(file) for file in pool_files([path])]
                continue
            own = [self.read(file) for name, _ in files for file in pool_files([name])]
            if len(own) != len(files):
                raise InputError(f'"{path}": a mixture is of files, not of folders.')
            weights = [weight for _, weight in files]
            pools.append(mixed := mix_pools(own, weights))
            mixtures.append((own, weights))
            left_out = max(len(pool.questions) for pool in own) - len(mixed.questions)
            if left_out:
                say(f"{mixed.name}: {count(left_out, 'question')} left out that not all of its pools have.")
        return pools, mixtures

    def read(self, path: Path, confidence: Metric = "tail") -> Pool:
        """Read the pool at ``path``; print on stderr how many of its lines were skipped."""
        pool = read_pool(path, confidence=confidence, skip_bad=self.skip_bad, fields=parse_fields(self.fields, NAMES))
        if pool.skipped:
            say(f"{pool.name}: skipped {count(len(pool.skipped), 'bad line')}.")
        return pool

    def label(self, pool: Pool, min_traces: int = 1) -> LabelledPool:
        """Read the pool's answers as votes, without questions of fewer traces; print what was left out on stderr."""
        read = read_answers(pool, self.answer)
        short = [question for question in read.questions if len(question.labels) < min_traces]
        read = read.without(short, f"has fewer than {min_traces} traces")
        if read.note:
            say(f"{read.name}: {read.note}.")
        return read


@verb_group()
def pools() -> None:
    """Recorded answers: what is in them, what is wrong with them, and other formats.

    A pool is a .jsonl, .jsonl.gz, .json or .parquet file with one question per line, entry or row. Also understood: one
    trace per row (CSV, Parquet), lm-eval's samples_*.jsonl, inspect_ai's logs (.eval, .json), and the records of the
    paper's own code. docs/pools.md has them all.
    """


@pools.verb()
@PATHS
def show(
    paths: tuple[Path, ...], reading: PoolOptions, confidence: Metric = CONFIDENCE, form: Format | None = FORMAT
) -> None:
    """Summarize pools, one row each; a folder stands for every pool in it.

    Answers are read as `pets replay` reads them, "kind" being how. "pass@1" is the mean share of traces that equal
    gold, "vote" the share of questions whose vote over all traces does, "leader" the mean share of the winning answer
    among the votes cast.
    """
    pools = [reading.read(path, confidence) for path in pool_files(paths)]
    summaries = [summarize(relabelled(pool, reading.label(pool))) for pool in pools]
    print_rows(map(asdict, summaries), form, lambda: _print_table(summaries))


@pools.verb()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
def convert(
    source: Path,
    target: Path,
    reading: PoolOptions,
    confidence: Metric = CONFIDENCE,
    texts: bool = option("Keep what traces said, so that their answers can be read anew.", True),
) -> None:
    """Write the pool IN as OUT, in the format of OUT's suffix. An OUT that exists is replaced.

    \b
    pets pools convert mine.csv mine.jsonl                     one trace per row
    pets pools convert samples_gsm8k.jsonl gsm8k.jsonl --answer number
    pets pools convert logs/2026-01-01_gsm8k.eval gsm8k.jsonl --answer number --no-texts

    With --answer the answers are read from the texts, anew where there were any.
    """
    pool = reading.read(source, confidence)
    if reading.answer is not None:
        pool = relabelled(pool, reading.label(pool))
    if not texts:
        pool = replace(pool, questions=tuple(replace(question, texts=None, cut=None) for question in pool.questions))
    write_pool(pool, target)
    say(f"{target}: {count(len(pool.questions), 'question')} written.")


@pools.verb()
@PATHS
@click.pass_context
def check(context: click.Context, paths: tuple[Path, ...], fields: tuple[str, ...] = POOL_FIELDS) -> None:
    """Print what is wrong with pools, a line for each kind of problem with its first places; exit 2 if there is any."""
    files, problems = pool_files(paths), 0
    for path in files:
        for problem in check_pool(path, fields=parse_fields(fields, NAMES)):
            echo(problem)
            problems += 1
    say(f"Checked {count(len(files), 'pool')}: {count(problems, 'problem')}.")
    context.exit(2 if problems else 0)


@pools.verb()
@click.argument("name", metavar="[QUESTIONS]", required=False)
def questions(
    name: str | None,
    fields: tuple[str, ...] = FIELDS,
    first: int | None = FIRST,
    source: Path | None = option(
        "A copy of the named set on this machine, file or folder; without one it comes from the Hugging Face hub.",
        flags=("--from",),
        kind=EXISTING,
    ),
    seed: int = option("What the order of gpqa's options is drawn from.", 0, at_least=0),
) -> None:
    """Print QUESTIONS as JSONL, as `pets solve` and `pets sample` read them; without any, list the named sets.

    \b
    pets pools questions gpqa > gpqa.jsonl                from the hub: pip install "pets-llm[datasets]"
    pets pools questions gpqa --from gpqa_diamond.csv --seed 1
    pets pools questions hf:openai/gsm8k/main:test --first 10
    pets pools questions exam.csv --field question=body   what your own file is read as

    Prompts, how answers are read, and the right answers are included.
    """
    if name is None:
        refuse_named("the list of named sets is all there is to print", *named_options())
        for known in named_sets():
            if (published := BENCHMARKS.get(known)) is not None:
                echo(f"{known}\t{published.about} ({published.hub})")
            else:
                echo(f"{known}\t{len(question_set(known).problems)} questions, made for small models")
        return
    if name in named_sets() and not fields:
        problems = question_set(name, source, seed=seed).problems
    elif source is not None:
        raise InputError(f'--from is a copy of a named set, and "{name}" is none. Name the file instead of it.')
    else:
        problems = find_questions(name, parse_fields(fields)).problems
    write_output(map(question_record, problems[:first]), None)


def _print_table(summaries: Sequence[Summary]) -> None:
    numbers = ["questions", "traces", "answers", "pass@1", "vote", "unanimous", "leader", "no answer"]
    tokens = any(summary.tokens_mean is not None for summary in summaries)
    confidence = any(summary.confidence_missing is not None for summary in summaries)
    if tokens:
        numbers.append("tokens: mean, p95")
    if confidence:
        numbers.append("confidence (missing)")
    rows = []
    for own in summaries:
        low, high = own.traces_min, own.traces_max
        shares = (own.pass_at_1, own.vote_accuracy, own.unanimous, own.leader_share, own.no_answer)
        row = [own.pool, own.kind or "-", str(own.questions), str(low) if low == high else f"{low}-{high}"]
        row += [f"{own.answers_mean:.1f}", *("-" if share is None else f"{share:.3f}" for share in shares)]
        if tokens:
            row.append("-" if own.tokens_mean is None else f"{own.tokens_mean:,.0f}, {own.tokens_p95:,.0f}")
        if confidence and own.confidence_mean is None:
            row.append("-")
        elif confidence:
            row.append(f"{own.confidence_mean:.2f} ± {own.confidence_sd:.2f} ({own.confidence_missing:.1%})")
        rows.append(row)
    print_table(make_table(("pool", "kind"), numbers, rows))
