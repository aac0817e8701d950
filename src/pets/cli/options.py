"""The option groups that several verbs share: questions, model, sampling, budget, run, output."""

import os
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import click

from pets.cli._groups import option, option_group
from pets.confidence import Kind
from pets.engine import RunSpec, TokenPrice
from pets.engine.models import (
    ModelShare,
    endpoints_by_model,
    keys_by_model,
    model_name,
    model_shares,
    values_by_model,
    with_prices,
)
from pets.engine.sources import make_samplers, mixed
from pets.engine.spec import SECTION_OF
from pets.errors import InputError
from pets.openai.fields import json_value
from pets.openai.headers import parse_headers
from pets.questions import QuestionSet, find_questions, parse_fields
from pets.samplers import Sampler, Sampling
from pets.store.database import DEFAULT_STORE

SERVER_CONCURRENCY, LOCAL_CONCURRENCY = 64, 16  # traces in flight
ZONE: Any = option(
    "The lead, as a share of all traces, that another answer needs to matter, such as 0.1; 0 settles every tie.",
    0.0,
    kind=click.FloatRange(0, 1, max_open=True),
)
KEY_ENV: Any = option(
    "The environment variable that holds the servers' key; give it again for one per --endpoint, in their order, or "
    "as MODEL=NAME for one of several models.",
    ("OPENAI_API_KEY",),
    metavar="NAME",
)
CODE: Any = option(
    "The code that reads the run's answers, named again; a store alone names none.", metavar="python:MODULE:FUNCTION"
)
CONCURRENCY: Any = option("How many traces are in flight; 64, or 16 of a local model.", at_least=1)
KEEP_GOING: Any = option("Go on also where most of the first traces were cut, refused or unreadable.", False)
NEW: Any = option("Start anew, also where the store holds a run of the same questions, model and settings.", False)
OUTPUT: Any = option(
    "The file to write, in the format of its suffix: .jsonl, .json, .csv or .parquet. Without one, stdout.",
    flags=("-o", "--output"),
)
STORE: Any = option(f"The file of runs, or its URL; {DEFAULT_STORE} if none is named.", metavar="FILE")
FIELDS: Any = option(
    "Where the file holds what, if not under a usual name: question=body, gold=final, ...; give it again for more.",
    (),
    flags=("--field",),
    metavar="NAME=COLUMN",
)
FIRST: Any = option("Take only this many questions, from the first on.", at_least=1)
HEADER: Any = option(
    "A header of every request; give it again for more. Its value is never kept or shown.", (), metavar="'NAME: VALUE'"
)


def read_keys(names: Sequence[str]) -> str | Sequence[str | None] | None:
    """The keys that the environment holds under ``names``: one for all servers, or one for each.

    Those of one of several models, MODEL=NAME, come as MODEL=KEY.
    """
    parts = [name.rpartition("=") for name in names]
    keys = [os.environ.get(variable) for _, _, variable in parts]
    if any(model for model, _, _ in parts):
        return [f"{model}{equals}{key}" for (model, equals, _), key in zip(parts, keys, strict=True) if key]
    return keys[0] if len(keys) == 1 else keys


@option_group("Questions")
class QuestionOptions:
    """Which questions of a file, and how they are put."""

    fields: tuple[str, ...] = FIELDS
    first: int | None = FIRST
    instruct: bool = option(
        "Ask questions that are a text alone with how to end the answer; `pets solve --dry-run` shows it.", True
    )

    def load(self, name: str) -> QuestionSet:
        """The questions of a file, a named set, a data set of the hub, or stdin."""
        questions = find_questions(name, parse_fields(self.fields))
        return replace(questions, problems=questions.problems[: self.first])


@option_group("Answers")
class AnswerOptions:
    """How questions are asked and answers are read, whatever the questions say."""

    answer: str | None = option(
        "How the answers of all questions are read: choice, number, math, text, yesno, json, regex:PATTERN, "
        "python:MODULE:FUNCTION or judge; without it, as the questions or the first traces say."
    )
    system: str | None = option("A system message for every question.")
    confidence: Kind | None = option("Ask for log-probabilities; votes may be weighed by this confidence.")


@option_group("Local model")
class LocalModelOptions:
    """How a model on this machine runs; what is not given is chosen from the machine."""

    slots: int | None = option("How many traces the local model decodes together.", at_least=1)
    context: int | None = option("How many tokens of prompt and trace the local model holds.", at_least=1)
    threads: int | None = option("How many threads the local model uses; one per core if not given.", at_least=1)


@option_group("Model")
class ServerOptions:
    """The servers of a run that goes on."""

    endpoint: tuple[str, ...] = option(
        "Another server than the run began with; give it again for more, and as MODEL=URL for one of several models.",
        (),
        metavar="URL",
    )
    key_env: tuple[str, ...] = KEY_ENV
    header: tuple[str, ...] = HEADER

    @property
    def keys(self) -> str | Sequence[str | None] | None:
        """The key of all servers, or of each."""
        return read_keys(self.key_env)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that go with every request."""
        return parse_headers(self.header)


@option_group("Model")
class ModelOptions(ServerOptions):
    """Which model is asked, and how patiently."""

    endpoint: tuple[str, ...] = option(
        "An OpenAI-compatible server, such as http://localhost:8000/v1; give it again for more, and as MODEL=URL for "
        "one of several models. Without one, that of OPENAI_BASE_URL if --model names no file, else a model on this "
        "machine.",
        (),
        metavar="URL",
    )
    model: tuple[str, ...] = option(
        "The servers' model, or a GGUF file; SmolLM2-135M-Instruct here if not given. Give it again for several that "
        "vote together, each with its weight: A=2.",
        (),
        metavar="NAME[=WEIGHT]",
    )
    rpm: int | None = option("How many requests per minute each server takes.", at_least=1)
    tpm: int | None = option("How many tokens per minute each server takes.", at_least=1)
    timeout: float = option("How many seconds a request may take.", 600.0, at_least=0.1)
    tries: int = option("How many times a trace is tried before it counts as failed.", 6, at_least=1)

    @property
    def name(self) -> str | None:
        """The model, or all of several with their weights."""
        return model_name(self.model)

    @property
    def shares(self) -> tuple[ModelShare, ...]:
        """The models with their weights where there are several; none where one is asked."""
        return model_shares(self.model)

    @property
    def names(self) -> list[str]:
        """The names of several models."""
        return [share.name for share in self.shares]

    @property
    def servers(self) -> tuple[str, ...]:
        """The endpoints; that of OPENAI_BASE_URL where none is named and the model is no file."""
        base = os.environ.get("OPENAI_BASE_URL")
        if not self.endpoint and base and self.model and not any(name.endswith(".gguf") for name in self.model):
            return (base,)
        name = None if self.shares else self.name
        return self.endpoint if name is None else tuple(endpoints_by_model([name], self.endpoint)[name])

    @property
    def in_flight(self) -> int:
        """How many traces are in flight where --concurrency is not given."""
        return SERVER_CONCURRENCY if self.servers else LOCAL_CONCURRENCY

    def priced(self, prices: Sequence[str]) -> tuple[TokenPrice | None, tuple[ModelShare, ...]]:
        """The price of one model, or several models with theirs, written MODEL=in=...,out=... or for all."""
        names = self.names or [self.name or ""]
        own = values_by_model("--price", names, prices)
        if several := [name for name in names if len(own[name]) > 1]:
            raise InputError(f"there are {len(own[several[0]])} prices for {several[0] or 'one model'}; give one.")
        parsed = {name: TokenPrice.parse(texts[0]) for name, texts in own.items() if texts}
        return (None, with_prices(self.shares, parsed)) if self.shares else (parsed.get(names[0]), ())

    def samplers(self, local: LocalModelOptions, spec: RunSpec) -> list[Sampler]:
        """A sampler per server, or that of the local model, for each of the configuration's models."""

        def of_model(servers: Sequence[str], name: str | None, key: str | Sequence[str | None] | None) -> list[Sampler]:
            return make_samplers(
                servers,
                name,
                key=key,
                headers=self.headers,
                stream=spec.confidence_kind is not None,
                timeout=self.timeout,
                batch_api=spec.serving.batch_api,
                **asdict(local),
            )

        if self.servers and not self.model:
            raise InputError("--endpoint needs --model NAME: which of the server's models to ask.")
        if not spec.serving.models:
            return of_model(self.servers, self.name, self.keys)
        urls, keys = endpoints_by_model(self.names, self.servers), keys_by_model(self.names, self.keys)
        for name in self.names:
            if not urls[name] and not name.endswith(".gguf"):
                raise InputError(
                    f"which server has {name}? Give --endpoint {name}=URL, or --endpoint URL for all models."
                )
        return mixed(spec, {name: of_model(urls[name], name, keys[name]) for name in self.names})


@option_group("Sampling")
class SamplingOptions:
    """How traces are drawn; what is not given is the question set's own choice."""

    temperature: float | None = option(
        "The temperature; 1, the model's own distribution, unless the question set says otherwise.", at_least=0.0
    )
    max_tokens: int | None = option(
        "After how many tokens a trace is cut, which then casts no vote; the server's own limit if not given, unless "
        "the question set says otherwise. Budgets in tokens and money hold as much for each trace, else the server's "
        "context.",
        at_least=1,
    )
    top_p: float | None = option(
        "Draw from the likeliest tokens that have this share together; 1, all of them, if not given.",
        kind=click.FloatRange(0, 1, min_open=True),
    )
    top_k: int | None = option("Draw from this many of the likeliest tokens; 0, all of them, if not given.", at_least=0)
    min_p: float | None = option(
        "Draw from tokens with at least this share of the likeliest one's chance; 0, all of them, if not given.",
        kind=click.FloatRange(0, 1),
    )
    reasoning_effort: str | None = option("How long a reasoning model thinks: low, medium, high, ...")
    extra_body: str | None = option(
        'More fields of every request, as JSON: \'{"chat_template_kwargs": {"enable_thinking": false}}\'.',
        metavar="JSON",
    )
    stop: tuple[str, ...] = option("A text that ends a trace; give it again for more.", ())
    confidence_window: int | None = option(
        "How many tokens a group of a trace's confidence has; 2048 if not given.", at_least=1
    )
    seed: int = option("The seed that the seeds of all traces follow from.", 0, at_least=0)

    def merge(self, own: Sampling) -> Sampling:
        """A question set's own sampling, with what the user named instead."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        values["window"] = values.pop("confidence_window")
        if self.extra_body is not None:
            values["extra_body"] = parse_json_option("--extra-body", self.extra_body, '{"top_a": 0.1}')
        del values["seed"]
        return replace(own, **{name: value for name, value in values.items() if value not in (None, (), "")})


def run_spec(
    model: ModelOptions,
    sampling: SamplingOptions,
    *groups: Any,
    drawn: Sampling,
    prices: Sequence[str] = (),
    **own: Any,
) -> RunSpec:
    """The spec of a run: every option that has the name of a field, those that take work, and the verb's ``own``.

    ``drawn`` is how the question set has its traces drawn.
    """
    price, models = model.priced(prices)
    named = {field.name: getattr(group, field.name) for group in (model, sampling, *groups) for field in fields(group)}
    values = {name: value for name, value in named.items() if SECTION_OF.get(name, "sampling") != "sampling"}
    values |= {"price": price, "models": models, "sampling": sampling.merge(drawn)}
    values["concurrency"] = values.get("concurrency") or model.in_flight
    return RunSpec.of(**values | own)


def parse_json_option(flag: str, text: str, example: str) -> dict[str, Any]:
    """The JSON object that an option is; anything else is refused with an example of one."""
    try:
        fields = json_value(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"{flag} is a JSON object, such as {example}; got {text[:60]}.")
    return fields


@option_group("Run")
class KeptRunOptions:
    """Where a run is kept, what of it, and when it stops by itself."""

    store: str | None = option(
        "The SQLite file or the URL of a PostgreSQL that keeps the run, so that it can go on; if none is named, "
        f"`pets solve` takes {DEFAULT_STORE}.",
        metavar="FILE",
    )
    keep_texts: bool = option(
        "Keep what traces say in the store, not only what they answer.", True, flags=("--texts/--no-texts",)
    )
    keep_going: bool = KEEP_GOING


@option_group("Time")
class PaceOptions:
    """How much is asked at once, and how long a run may take."""

    concurrency: int | None = CONCURRENCY
    waves: int | None = option(
        "In how many parallel batches the budget is spent at most; each is decided from all before it.",
        at_least=1,
        rare=True,
    )
    patience: float | None = option(
        "How long the run may take, as a multiple of all traces at once; more time spends the budget better. If "
        "neither this nor --waves is given: 2, or 4 waves where a batch is small.",
        kind=click.FloatRange(1),
        rare=True,
    )
