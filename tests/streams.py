"""Streams of a budget that a test looks at."""

from typing import NamedTuple

from pets.core.budget import Budget
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.engine.stream import Stream


class StreamSettings(NamedTuple):
    spec: RunSpec
    budget: Budget


def stream_settings(policy, budget, spec=None, horizon=None, open_questions=8, options=None):
    spec = (spec or RunSpec()).with_options(
        policy=policy,
        max_traces=budget.cap,
        horizon=horizon,
        budget_window=None if budget.window is None else budget.window.questions,
        open_questions=open_questions,
        answer_sizes=options or {},
    )
    return StreamSettings(spec, budget)


def make_stream(settings, samplers, on_answer, **more):
    return Stream(settings.spec, Sources(samplers), on_answer, budget=settings.budget, **more)
