"""The commands that make a run again, or go on with it, from what its store says."""

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from pets.engine.budget import Amount, TokenPrice, total_of
from pets.engine.config import RunConfig
from pets.engine.resume import config_of
from pets.questions import named_sets
from pets.questions.sets import BENCHMARKS, starter
from pets.samplers import Sampling
from pets.store import RunSettings, RunView
from pets.store.database import DEFAULT_STORE

QUESTIONS = "QUESTIONS"  # stands for a file: a store knows its name, not its place
CONFIG_OPTIONS = ("system", "confidence", "max_traces", "waves", "patience", "target_consistency", "overshoot")
SAMPLING_OPTIONS = ("temperature", "max_tokens", "top_p", "top_k", "min_p", "reasoning_effort", "window")
FLAGS = {"window": "--confidence-window"}  # of fields that the command line calls otherwise
SWITCHES = {"soft": "--soft", "batch_api": "--batch-api", "keep_going": "--keep-going"}
OFF_SWITCHES = {"instruct": "--no-instruct", "keep_texts": "--no-texts"}


def commands_of(view: RunView, questions: int) -> str:
    """The command lines that sample the run anew, go on with it, and write its report.

    A stream has the last two: the store does not know the file of its plan.
    """
    store = [] if view.location == DEFAULT_STORE else ["--store", view.location]
    on = ["pets", "resume", str(view.id), *store]
    report = shlex.join(["pets", "report", str(view.id), *store])
    if is_stream(view.settings):
        return "\n".join((f"{shlex.join(on)} < {QUESTIONS}", report))
    config = config_of(view.settings)
    ray = ["--ray"] if _is_on_ray(view.settings, config) else []
    words = ["pets", "solve", *_options(view.settings, config, questions), *ray, "--new", *store]
    return "\n".join((shlex.join(words), shlex.join([*on, *ray]), report))


def is_stream(settings: RunSettings) -> bool:
    """Whether `pets stream` made the run."""
    return "stream" in settings.more


def _is_on_ray(settings: RunSettings, config: RunConfig) -> bool:
    """Whether a Ray cluster hosts the model: one that is neither a server's nor a file for llama.cpp."""
    return bool(settings.model) and not (settings.endpoints or config.models or settings.model.endswith(".gguf"))


def _options(settings: RunSettings, config: RunConfig, questions: int) -> Iterator[str]:
    if settings.name in named_sets():
        yield from (settings.name, "--first", str(questions))
    else:
        yield QUESTIONS
    yield from ("--budget", _budget(settings, questions), "--policy", settings.policy)
    for endpoint in settings.endpoints:
        yield from ("--endpoint", endpoint)
    models = [f"{share.name}={share.weight:g}" for share in config.models] or [settings.model]
    for model in filter(None, models):
        yield from ("--model", model)
    if config.answer is not None:
        yield from ("--answer", str(config.answer).removeprefix("recorded:"))
    yield from _differing(CONFIG_OPTIONS, config, RunConfig())
    sampling, usual = config.sampling, _own_sampling(settings.name)
    yield from _differing(SAMPLING_OPTIONS, sampling, usual)
    for text in () if sampling.stop == usual.stop else sampling.stop:
        yield from ("--stop", text)
    if sampling.extra_body != usual.extra_body:
        yield from ("--extra-body", json.dumps(sampling.extra_body))
    yield from (flag for name, flag in SWITCHES.items() if getattr(config, name))
    yield from (flag for name, flag in OFF_SWITCHES.items() if not getattr(config, name))
    if config.price is not None:
        batch = f",batch={config.price.batch:g}" if config.batch_api else ""
        yield from ("--price", _price_text(config.price) + batch)
    for share in config.models:
        if share.price is not None:
            yield from ("--price", f"{share.name}={_price_text(share.price)}")
    yield from ("--seed", str(settings.seed))


def _budget(settings: RunSettings, questions: int) -> str:
    """The budget as the user wrote it; where some was added, all of it."""
    if settings.total == total_of(Amount.parse(settings.budget), questions):
        return settings.budget
    total, unit = settings.currency.shown(settings.total)
    return f"{total:.9f}usd" if unit == "usd" else f"{total}{'tok' if unit == 'tokens' else ''}"


def _differing(names: Sequence[str], values: object, usual: object) -> Iterator[str]:
    """The options whose values are not the usual ones."""
    for name in names:
        value: Any = getattr(values, name)
        if value is not None and value != getattr(usual, name):
            yield FLAGS.get(name, f"--{name.replace('_', '-')}")
            yield f"{value:g}" if isinstance(value, float) else str(value)


def _own_sampling(name: str) -> Sampling:
    """How the traces of a named set are drawn by default."""
    if name == "starter":
        return starter().sampling
    return Sampling(max_tokens=BENCHMARKS[name].max_tokens) if name in BENCHMARKS else Sampling()


def _price_text(price: TokenPrice) -> str:
    cached = "" if price.cached is None else f",cached={price.cached:g}"
    return f"in={price.prompt:g},out={price.output:g}{cached}"
