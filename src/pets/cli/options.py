"""The options that several verbs share beside those of a run's spec: questions, model, store, output."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pets.cli._groups import SpecOptions, option, option_group
from pets.engine import RunSpec
from pets.engine.budget import model_name, model_shares
from pets.engine.sources import Servers, endpoints_by_model, sources_of, values_by_model
from pets.errors import InputError
from pets.openai.fields import json_value
from pets.openai.headers import parse_headers
from pets.questions import QuestionSet, find_questions, parse_fields
from pets.registry import typed_policy
from pets.samplers import Sampler, Sampling
from pets.store.database import DEFAULT_STORE

SERVER_CONCURRENCY, LOCAL_CONCURRENCY = 64, 16  # traces in flight
KEY_ENV: Any = option(
    "The environment variable that holds the servers' key; give it again for one per --endpoint, in their order, or "
    "as MODEL=NAME for one of several models.",
    ("OPENAI_API_KEY",),
    metavar="NAME",
    rare=True,
)
CODE: Any = option(
    "The code that reads the run's answers, named again; a store alone names none.", metavar="python:MODULE:FUNCTION"
)
NEW: Any = option("Pay anew, also where the store holds a run of the same questions or traces of them.", False)
OUTPUT: Any = option(
    "The file to write, in the format of its suffix: .jsonl, .json, .csv or .parquet. Without one, stdout.",
    flags=("-o", "--output"),
)
STORE: Any = option(f"The file of runs, or its URL; {DEFAULT_STORE} if none is named.", metavar="FILE")
KEEP: Any = option(
    "The SQLite file or the URL of a PostgreSQL that keeps the run, so that it can go on; `pets solve` takes "
    f"{DEFAULT_STORE} if none is named, and keeps nothing with --store none.",
    metavar="FILE",
)
FIELDS: Any = option(
    "Where the file holds what, if not under a usual name: question=body, gold=final, ...; give it again for more.",
    (),
    flags=("--field",),
    metavar="NAME=COLUMN",
)
FIRST: Any = option("Take only this many questions, from the first on.", at_least=1)
HEADER: Any = option(
    "A header of every request; give it again for more. Its value is never kept or shown.",
    (),
    metavar="'NAME: VALUE'",
    rare=True,
)
LOCAL: Any = option(
    "How a model on this machine runs: slots=N traces decoded together, context=N tokens of prompt and trace, "
    "threads=N; what is not said is chosen from the machine.",
    (),
    metavar="NAME=N,...",
    rare=True,
)


@option_group("Questions")
class QuestionOptions:
    fields: tuple[str, ...] = FIELDS
    first: int | None = FIRST

    def load(self, name: str) -> QuestionSet:
        """The questions of a file, a named set, a data set of the hub, or stdin."""
        questions = find_questions(name, parse_fields(self.fields))
        return replace(questions, problems=questions.problems[: self.first])


def local_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Parse slots, context and threads of a model on this machine.

    >>> local_settings(["slots=4,context=2048"])
    {'slots': 4, 'context': 2048, 'threads': None}
    """
    settings: dict[str, Any] = {"slots": None, "context": None, "threads": None}
    for part in ",".join(texts).split(",") if texts else ():
        name, _, number = part.partition("=")
        if name not in settings or not number.isdecimal() or not int(number):
            raise InputError(f"--local is slots=N, context=N and threads=N, joined by commas; got {part!r}.")
        settings[name] = int(number)
    return settings


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
        """The key of all servers, or of each, from the environment; one model's of several comes as MODEL=KEY."""
        keys, of_models = list[str | None](), False
        for name in self.key_env:
            model, _, variable = name.rpartition("=")
            key, of_models = os.environ.get(variable), of_models or bool(model)
            keys.append(f"{model}={key}" if model and key else key)
        if of_models:
            return [key for key in keys if key]
        return keys[0] if len(keys) == 1 else keys

    @property
    def headers(self) -> dict[str, str]:
        return parse_headers(self.header)


@option_group("Model")
class ModelOptions(ServerOptions):
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
    local: tuple[str, ...] = LOCAL

    @property
    def name(self) -> str | None:
        """The model, or all of several with their weights."""
        return model_name(self.model)

    @property
    def names(self) -> list[str]:
        """The names of several models; none where one is asked."""
        return [share.name for share in model_shares(self.model)]

    @property
    def servers(self) -> tuple[str, ...]:
        """The endpoints; that of OPENAI_BASE_URL where none is named and the model is no file."""
        base = os.environ.get("OPENAI_BASE_URL")
        if not self.endpoint and base and self.model and not any(name.endswith(".gguf") for name in self.model):
            return (base,)
        if len(self.model) != 1 or self.name is None:
            return self.endpoint
        return tuple(endpoints_by_model([self.name], self.endpoint)[self.name])

    def price(self, prices: Sequence[str]) -> str | Mapping[str, str] | None:
        """The price of one model, or each of several its own, written MODEL=in=...,out=... or for all."""
        own: dict[str, str] = {}
        for name, texts in values_by_model("--price", self.names or [self.name or ""], prices).items():
            if len(texts) > 1:
                raise InputError(f"there are {len(texts)} prices for {name or 'one model'}; give one.")
            if texts:
                own[name] = texts[0]
        return own if self.names else own.get(self.name or "")

    def samplers(self, spec: RunSpec) -> Sequence[Sampler]:
        """A sampler per server, or that of the local model, for each of the configuration's models."""
        if self.servers and not self.model:
            raise InputError("--endpoint needs --model NAME: which of the server's models to ask.")
        if spec.serving.models:
            for name, urls in endpoints_by_model(self.names, self.servers).items():
                if not urls and not name.endswith(".gguf"):
                    remedy = f"Give --endpoint {name}=URL, or --endpoint URL for all models."
                    raise InputError(f"which server has {name}? {remedy}")
        servers = Servers(self.servers, self.model, self.keys, self.headers)
        return sources_of(servers, spec, **local_settings(self.local)).samplers


def run_spec(said: SpecOptions, model: ModelOptions, drawn: Sampling, **own: Any) -> RunSpec:
    """Build the spec of a run: the question set's sampling, what the user said, and the verb's ``own`` options."""
    values = dict(said)
    if "price" in values:
        values["price"] = model.price(values["price"])
    if "policy" in values:
        values["policy"] = typed_policy(values["policy"])
    if "extra_body" in values:
        values["extra_body"] = parse_json_option("--extra-body", values["extra_body"], '{"top_a": 0.1}')
    in_flight = SERVER_CONCURRENCY if model.servers else LOCAL_CONCURRENCY  # where --concurrency is not given
    values = {"concurrency": in_flight, "models": model_shares(model.model), **values, **own}
    return RunSpec(sampling=drawn).with_options(**values)


def parse_json_option(flag: str, text: str, example: str) -> dict[str, Any]:
    """Parse an option that is a JSON object; refuse anything else with an ``example``."""
    try:
        fields = json_value(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"{flag} is a JSON object, such as {example}; got {text[:60]}.")
    return fields
