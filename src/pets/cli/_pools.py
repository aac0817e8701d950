"""How the verbs that work on recorded pools read them."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pets.cli._groups import option, option_group
from pets.cli._output import count
from pets.cli._terminal import say
from pets.errors import InputError
from pets.lab import LabelledPool, read_answers
from pets.pools import Metric, Pool, joined_seeds, mix_pools, pool_files, read_pool, split_mixture
from pets.pools.formats import NAMES
from pets.questions import parse_fields

FIELDS = option(
    "Where the pool holds what, if not under a usual name: answers=predictions, texts=replies, gold=final, ...; "
    "give it again for more.",
    (),
    flags=("--field",),
    metavar="NAME=COLUMN",
)


class MixedPools(NamedTuple):
    """The pools of a mixture, and their weights."""

    name: str
    pools: list[Pool]
    weights: list[float]


@option_group("Pools")
class PoolFieldOptions:
    """Where a pool holds what."""

    fields: tuple[str, ...] = FIELDS

    @property
    def columns(self) -> dict[str, str]:
        """The fields, parsed."""
        return parse_fields(self.fields, NAMES)


@option_group("Pools")
class PoolOptions:
    """How recorded answers are read."""

    answer: str | None = option(
        "Read the texts of traces, or what stands for their answers, by this answer type: choice, number, math, "
        "text, ...; raw takes them as recorded. If not given, as the manifest says, else as recorded."
    )
    fields: tuple[str, ...] = FIELDS
    skip_bad: bool = option("Pass over bad lines and say how many they were.", False)

    def read_mixtures(self, paths: Iterable[Path]) -> tuple[list[Pool], list[MixedPools]]:
        """The pool of every file, of every pool in a folder, and the mixture of every ``a.jsonl=2+b.jsonl``.

        Beside them, what the mixtures are made of; the questions that they leave out go to stderr.
        """
        pools: list[Pool] = []
        mixtures: list[MixedPools] = []
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
            mixtures.append(MixedPools(mixed.name, own, weights))
            left_out = max(len(pool.questions) for pool in own) - len(mixed.questions)
            if left_out:
                say(f"{mixed.name}: {count(left_out, 'question')} left out that not all of its pools have.")
        return pools, mixtures

    def read(self, path: Path, confidence: Metric = "tail") -> Pool:
        """The pool at ``path``; how many of its lines were skipped goes to stderr."""
        pool = read_pool(path, confidence=confidence, skip_bad=self.skip_bad, fields=parse_fields(self.fields, NAMES))
        if pool.skipped:
            say(f"{pool.name}: skipped {count(len(pool.skipped), 'bad line')}.")
        return pool

    def label(self, pool: Pool, min_traces: int = 1) -> LabelledPool:
        """The pool as votes, questions of fewer traces left out; what there is to say goes to stderr."""
        read = read_answers(pool, self.answer)
        short = [question for question in read.questions if len(question.labels) < min_traces]
        read = read.without(short, f"has fewer than {min_traces} traces")
        if read.note:
            say(f"{read.name}: {read.note}.")
        return read
