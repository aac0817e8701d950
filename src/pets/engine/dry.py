"""What a run would take, before anything is spent."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pets.engine.plan import Plan
from pets.engine.prices import price_of
from pets.engine.runs import prompt_room, settings_of
from pets.errors import InputError
from pets.questions import Problem
from pets.store import Store

__all__ = ["Estimate", "dry_run", "estimate"]

BYTES = 4  # of a prompt's token, about


@dataclass(frozen=True, slots=True)
class Estimate:
    """What to expect of a run. ``basis`` says where a trace's tokens and seconds come from.

    Before any trace was seen its tokens are the most there can be, and the time is not known.
    """

    questions: int
    traces: int
    tokens: int
    prompt_tokens: int
    cost: float | None
    seconds: float | None
    budget: int
    unit: str
    overshoot: int
    basis: str


def estimate(
    problems: Sequence[Problem], plan: Plan, model: str, tokens: float | None, seconds: float | None, basis: str
) -> Estimate:
    """The estimate from a trace's mean tokens and seconds, where they are known."""
    settings = settings_of(plan, problems, model=model)
    each = plan.sampling.max_tokens if tokens is None else tokens
    prompt = sum(map(prompt_room, problems)) / len(problems) / BYTES
    currency = settings.currency
    cost = currency.per_trace + currency.per_token * each + currency.per_prompt_token * prompt
    traces = int(settings.total / cost)
    if plan.max_per_question is not None:
        traces = min(traces, plan.max_per_question * len(problems))
    price = price_of(model, plan.price)
    whole, prompts = round(traces * each), round(traces * prompt)
    return Estimate(
        len(problems),
        traces,
        whole,
        prompts,
        None if price is None else price.dollars(prompt_tokens=prompts, tokens=whole),
        None if seconds is None else traces * seconds / min(plan.concurrency, max(1, traces)),
        settings.total,
        currency.unit,
        0 if currency.flat else int(plan.overshoot * settings.total),
        basis,
    )


def dry_run(
    problems: Sequence[Problem],
    plan: Plan,
    model: str,
    store: str | None,
    expect: str | None,
    say: Callable[[str], None],
) -> None:
    """Print the estimate as one line of JSON."""
    tokens, seconds, basis = _expected(expect) if expect else _seen(store, model)
    say(json.dumps(asdict(estimate(problems, plan, model, tokens, seconds, basis))))


def _expected(text: str) -> tuple[float | None, float | None, str]:
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        values = {name: float(value) for name, value in parts.items()}
    except ValueError:
        values = {"": 0.0}
    if set(values) - {"tokens", "seconds"} or min(values.values()) <= 0:
        raise InputError(f"--expect is tokens=N,seconds=S, each more than 0; got {text!r}.")
    return values.get("tokens"), values.get("seconds"), "as given with --expect"


def _seen(store: str | None, model: str) -> tuple[float | None, float | None, str]:
    """The means of the latest run of this model in the store."""
    nothing = "nothing seen yet: every trace counted at max_tokens, time not known"
    if store is None or not Path(store.removeprefix("sqlite:///")).exists():
        return None, None, nothing
    with Store.open(store, create=False) as opened:
        for summary in reversed(opened.runs()):
            if summary.settings.model == model and summary.answered:
                seconds = [trace.seconds for trace in opened.view(summary.id).traces() if trace.error is None]
                mean = sum(seconds) / len(seconds) if seconds else None
                return summary.tokens / summary.traces, mean, f"the traces of run {summary.id}"
    return None, None, nothing
