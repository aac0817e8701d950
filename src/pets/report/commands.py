"""The commands that make a run again, or go on with it, from what its store says."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any

from pets.engine.budget import Amount, TokenPrice, total_of
from pets.engine.resume import spec_of_run
from pets.engine.spec import SECTIONS, RunSpec, is_honoured
from pets.questions import named_sets
from pets.questions.sets import BENCHMARKS, starter
from pets.samplers import Sampling
from pets.store import RunRecord, RunView
from pets.store.database import DEFAULT_STORE

QUESTIONS = "QUESTIONS"  # stands for a file: a store knows its name, not its place
TOLD_APART = {"budget", "policy", "answer", "price", "reuse", "seed"}  # always, in their own words, or never


def commands_of(view: RunView, questions: int) -> str:
    """The command lines that sample the run anew, go on with it, and write its report.

    A stream has the last two: the store does not know the file of its plan.
    """
    store = [] if view.location == DEFAULT_STORE else ["--store", view.location]
    on = ["pets", "resume", str(view.id), *store]
    report = shlex.join(["pets", "report", str(view.id), *store])
    if is_stream(view.settings):
        return "\n".join((f"{shlex.join(on)} < {QUESTIONS}", report))
    spec = spec_of_run(view.settings)
    # A Ray cluster hosts a model that is neither a server's nor a file for llama.cpp.
    elsewhere = view.settings.endpoints or spec.serving.models or view.settings.model.endswith(".gguf")
    ray = ["--ray"] if view.settings.model and not elsewhere else []
    words = ["pets", "solve", *_options(view.settings, spec, questions), *ray, "--new", *store]
    return "\n".join((shlex.join(words), shlex.join([*on, *ray]), report))


def judge_command(view: RunView, questions: int) -> str:
    """The command line that votes over the traces of a run again, a model saying which answers are the same."""
    spec = spec_of_run(view.settings).with_options(answer="judge")
    return shlex.join(["pets", "solve", *_options(view.settings, spec, questions), "--store", view.location])


def is_stream(settings: RunRecord) -> bool:
    """Whether `pets stream` made the run."""
    return settings.verb == "stream"


def _options(settings: RunRecord, spec: RunSpec, questions: int) -> Iterator[str]:
    if settings.name in named_sets():
        yield from (settings.name, "--first", str(questions))
    else:
        yield QUESTIONS
    total, unit = settings.currency.shown(settings.total)
    budget = f"{total:.9f}usd" if unit == "usd" else f"{total}{'tok' if unit == 'tokens' else ''}"
    if settings.total == total_of(Amount.parse(settings.budget), questions):  # nothing was added to what was written
        budget = settings.budget
    yield from ("--budget", budget, "--policy", settings.policy)
    for endpoint in settings.endpoints:
        yield from ("--endpoint", endpoint)
    models = [f"{share.name}={share.weight:g}" for share in spec.serving.models] or [settings.model]
    for model in filter(None, models):
        yield from ("--model", model)
    if spec.reading.answer is not None:
        yield from ("--answer", str(spec.reading.answer).removeprefix("recorded:"))
    usual = RunSpec(sampling=_usual_sampling(settings.name))
    for option in (option for section in SECTIONS.values() for option in fields(section)):
        value = spec.get(option.name)
        if option.name not in TOLD_APART and value is not None and value != usual.get(option.name):
            yield from _option_words(option, value)
    if spec.spending.price is not None:
        batch = f",batch={spec.spending.price.batch:g}" if spec.serving.batch_api else ""
        yield from ("--price", _price_text(spec.spending.price) + batch)
    for share in spec.serving.models:
        if share.price is not None:
            yield from ("--price", f"{share.name}={_price_text(share.price)}")
    yield from ("--seed", str(spec.serving.seed))


def _usual_sampling(name: str) -> Sampling:
    """The default sampling of a set of questions."""
    if name == "starter":
        return starter().sampling
    return Sampling(max_tokens=BENCHMARKS[name].max_tokens) if name in BENCHMARKS else Sampling()


def _option_words(option: Field[Any], value: Any) -> Iterator[str]:
    """Yield the words that set an option of `pets solve`; none where it has no such option."""
    if "help" not in option.metadata or not is_honoured(option, "solve"):
        return
    word = option.name.replace("_", "-")
    (flag, *_) = option.metadata.get("flags") or (f"--{word}/--no-{word}",)
    on, _, off = flag.partition("/")
    if isinstance(value, bool):
        yield on if value else off
        return
    for part in value if isinstance(value, tuple) else (value,):
        text = json.dumps(part) if isinstance(part, Mapping) else str(part)
        yield from (on, f"{part:g}" if isinstance(part, float) else text)


def _price_text(price: TokenPrice) -> str:
    cached = "" if price.cached is None else f",cached={price.cached:g}"
    return f"in={price.prompt:g},out={price.output:g}{cached}"
