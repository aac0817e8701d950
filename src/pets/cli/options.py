"""The options that say where traces come from and how they are drawn, shared by the verbs that sample."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click

from pets.cli._groups import option
from pets.engine.run import make_samplers
from pets.errors import InputError
from pets.questions import QuestionSet, named_sets, parse_fields, question_set, read_questions
from pets.samplers import Sampler, Sampling
from pets.samplers.local import LocalSampler

__all__ = [
    "DEFAULT_STORE",
    "FILE",
    "OutputOptions",
    "Source",
    "StoreOptions",
    "drawing_options",
    "field_option",
    "load_questions",
    "merge_sampling",
    "source_options",
]

DEFAULT_STORE = "runs.db"
FILE = click.Path(path_type=Path, dir_okay=False)
Verb = TypeVar("Verb", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Where the results go."""

    title: ClassVar[str] = "Output"

    output: Path | None = option("The file to write; without one, stdout.", flags=("-o", "--output"), kind=FILE)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Which file of runs."""

    title: ClassVar[str] = "Store"

    store: str | None = option(f"The file of runs, or its URL; {DEFAULT_STORE} if none is named.", metavar="FILE")


@dataclass(frozen=True, slots=True)
class Source:
    """Which model: a server, or a GGUF file on this machine."""

    endpoint: str | None
    model: str | None
    slots: int | None
    context: int | None
    threads: int | None

    def sampler(self) -> Sampler:
        """The sampler of this source; the key of a server comes from OPENAI_API_KEY."""
        if self.endpoint is None:
            return LocalSampler(self.model, slots=self.slots, context=self.context, threads=self.threads)
        return make_samplers([self.endpoint], self.model, key=os.environ.get("OPENAI_API_KEY"))[0]

    @property
    def name(self) -> str:
        """What to call it."""
        return self.model or "SmolLM2-135M-Instruct"


def source_options(verb: Verb) -> Verb:
    """--endpoint, --model and what the local model takes."""
    at_least_1 = click.IntRange(min=1)
    for decorate in (
        click.option("--threads", type=at_least_1, help="Of the local model; default: one a core."),
        click.option("--context", type=at_least_1, help="Tokens of prompt and trace that the local model holds."),
        click.option("--slots", type=at_least_1, help="Traces that the local model decodes together."),
        click.option("--model", help="The server's model, or a GGUF file; default: SmolLM2-135M-Instruct."),
        click.option(
            "--endpoint", metavar="URL", help="An OpenAI-compatible server, such as http://localhost:8000/v1."
        ),
    ):
        verb = decorate(verb)
    return verb


def drawing_options(verb: Verb) -> Verb:
    """How traces are drawn; what is not given is the question set's own choice."""
    for decorate in (
        click.option("--window", type=click.IntRange(min=1), help="Tokens in a group of trace confidence."),
        click.option("--stop", multiple=True, help="Text that ends a trace; give it again for more."),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Where a trace is cut; a cut one casts no vote."),
        click.option("--temperature", type=click.FloatRange(min=0.0), help="1 is the model's own distribution."),
    ):
        verb = decorate(verb)
    return verb


field_option = click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="NAME=COLUMN",
    help="Where the file holds what: question=problem, gold=answer, ...; give it again for more.",
)


def load_questions(name: str, fields: tuple[str, ...] = ()) -> QuestionSet:
    """A named set, or a file, its fields under the names that ``fields`` gives."""
    mapped = parse_fields(fields)
    path = Path(name)
    if name in named_sets() and not mapped:
        return question_set(name)
    if not path.exists():
        if name in named_sets():
            raise InputError(f'"{name}" is a named set, whose fields are known: leave out --field.')
        raise InputError(f'"{name}" is neither a file nor a question set. Sets: {", ".join(named_sets())}.')
    return read_questions(path, fields=mapped)


def merge_sampling(
    chosen: Sampling, temperature: float | None, max_tokens: int | None, stop: tuple[str, ...], window: int | None
) -> Sampling:
    """The set's own sampling, with what the user gave instead."""
    return replace(
        chosen,
        temperature=chosen.temperature if temperature is None else temperature,
        max_tokens=max_tokens or chosen.max_tokens,
        stop=stop or chosen.stop,
        window=window or chosen.window,
    )
