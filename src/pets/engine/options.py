"""Options as callers give them: what replaces what."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from pets.engine.budgets import Amount, total_of
from pets.engine.plan import Plan
from pets.engine.prices import Price
from pets.engine.sources import samplers_of
from pets.errors import InputError
from pets.samplers import Sampler, Sampling
from pets.store import RunSettings

__all__ = ["plan_with", "samplers_for", "topped_up"]

DRAWING = {field.name for field in fields(Sampling)}


def plan_with(plan: Plan, options: dict[str, Any]) -> Plan:
    """The plan with some of its options, or of its sampling's, replaced."""
    known = {field.name for field in fields(Plan)} - {"sampling"}
    if unknown := set(options) - known - DRAWING:
        raise InputError(f"there is no option {sorted(unknown)[0]!r}. Options: {', '.join(sorted(known | DRAWING))}.")
    options = {**options, "budget": str(options.get("budget", plan.budget))}
    if isinstance(options.get("price"), str):
        options["price"] = Price.parse(options["price"])
    sampling = replace(plan.sampling, **{name: value for name, value in options.items() if name in DRAWING})
    return replace(plan, sampling=sampling, **{name: value for name, value in options.items() if name in known})


def topped_up(settings: RunSettings, text: str, questions: int) -> RunSettings:
    """The settings with more budget, in the currency that the run has."""
    amount = Amount.parse(text)
    if amount.coin != settings.currency.unit:
        raise InputError(f"this run counts {settings.currency.unit}; a top-up of {text} is in {amount.coin}.")
    return replace(settings, total=settings.total + total_of(amount, questions))


def samplers_for(
    given: Sampler | Sequence[Sampler] | None, endpoints: Sequence[str], model: str | None, key: str | None, plan: Plan
) -> list[Sampler]:
    """The samplers that were given, else those of the endpoints."""
    if given is None:
        return samplers_of(endpoints, model, key=key, stream=plan.kind is not None, concurrency=plan.concurrency)
    return [given] if isinstance(given, Sampler) else list(given)
