"""The commands that make a run again, or go on with it, from what its store says."""

import json
import shlex
from collections.abc import Iterator, Sequence

from pets.engine.budget import Amount, TokenPrice, total_of
from pets.engine.resume import spec_of_run
from pets.engine.spec import RunSpec
from pets.questions import named_sets
from pets.questions.sets import BENCHMARKS, starter
from pets.samplers import Sampling
from pets.store import RunRecord, RunView
from pets.store.database import DEFAULT_STORE

QUESTIONS = "QUESTIONS"  # stands for a file: a store knows its name, not its place
RUN_OPTIONS = ("system", "confidence", "max_traces", "hurry", "target_consistency")
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
    yield from _differing(RUN_OPTIONS, spec, RunSpec())
    sampling, usual = spec.sampling, Sampling()  # and how the traces of a named set are drawn by default
    if settings.name == "starter":
        usual = starter().sampling
    elif settings.name in BENCHMARKS:
        usual = Sampling(max_tokens=BENCHMARKS[settings.name].max_tokens)
    yield from _differing(SAMPLING_OPTIONS, spec, RunSpec(sampling=usual))
    for text in () if sampling.stop == usual.stop else sampling.stop:
        yield from ("--stop", text)
    if sampling.extra_body != usual.extra_body:
        yield from ("--extra-body", json.dumps(sampling.extra_body))
    yield from (flag for name, flag in SWITCHES.items() if spec.get(name))
    yield from (flag for name, flag in OFF_SWITCHES.items() if not spec.get(name))
    if spec.spending.price is not None:
        batch = f",batch={spec.spending.price.batch:g}" if spec.serving.batch_api else ""
        yield from ("--price", _price_text(spec.spending.price) + batch)
    for share in spec.serving.models:
        if share.price is not None:
            yield from ("--price", f"{share.name}={_price_text(share.price)}")
    yield from ("--seed", str(spec.serving.seed))


def _differing(names: Sequence[str], spec: RunSpec, usual: RunSpec) -> Iterator[str]:
    """The options whose values are not the usual ones."""
    for name in names:
        value = spec.get(name)
        if value is not None and value != usual.get(name):
            yield FLAGS.get(name, f"--{name.replace('_', '-')}")
            yield f"{value:g}" if isinstance(value, float) else str(value)


def _price_text(price: TokenPrice) -> str:
    cached = "" if price.cached is None else f",cached={price.cached:g}"
    return f"in={price.prompt:g},out={price.output:g}{cached}"
