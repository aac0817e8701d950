"""What a run would take, before anything is spent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pets.engine.budget import TokenPrice
from pets.engine.resume import options_of, run_pace, run_record
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.errors import InputError
from pets.prompts import TEMPLATE_TOKENS
from pets.questions import Problem
from pets.store import Store

BYTES_PER_TOKEN = 4  # of a prompt, about
MOST_EXPECTED = 1e9  # tokens or seconds of a trace that a user may expect


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What to expect of a run; ``basis`` says where a trace's tokens and seconds come from.

    The budget is spent in at most ``waves`` (0: no limit), ``times_as_long`` as all traces at once would take, which
    gives up points of self-consistency against one trace at a time. Before any trace was seen, each has ``max_tokens``;
    ``None`` is not known.
    """

    questions: int
    traces: int
    max_tokens: int | None
    tokens: int | None
    prompt_tokens: int
    cost: float | None
    seconds: float | None
    waves: int
    times_as_long: float
    points_given_up: float
    budget: float
    unit: str
    overshoot: float
    basis: str


def estimate(
    problems: Sequence[Problem], spec: RunSpec, model: str, tokens: float | None, seconds: float | None, basis: str
) -> RunEstimate:
    """The estimate from a trace's mean tokens and seconds, where they are known."""
    record = run_record(spec, problems, Sources(model=model))
    output = spec.sampling.max_tokens if tokens is None else tokens
    sizes = sum(problem.prompt.max_tokens - TEMPLATE_TOKENS for problem in problems)
    prompt = sizes / len(problems) / BYTES_PER_TOKEN
    currency, price = record.currency, _mean_price(spec, model)
    mean = price.currency() if price is not None and currency.unit == "picodollars" else currency
    cost = mean.per_trace + mean.per_token * (output or 0) + mean.per_prompt_token * prompt
    pace = run_pace(spec, record, len(problems), traces=int(record.total / cost))
    traces = pace.traces
    # One request of a batch job holds all that a question gets in its wave, and its prompt once.
    prompts = min(traces, pace.waves * len(problems)) if spec.serving.batch_api and pace.waves else traces
    all_tokens, all_prompt_tokens = None if output is None else round(traces * output), round(prompts * prompt)
    return RunEstimate(
        questions=len(problems),
        traces=traces,
        max_tokens=spec.sampling.max_tokens,
        tokens=all_tokens,
        prompt_tokens=all_prompt_tokens,
        cost=None if price is None or all_tokens is None else price.dollars(all_prompt_tokens, all_tokens),
        seconds=None if seconds is None or spec.serving.batch_api else seconds * pace.trace_times,
        waves=pace.waves,
        times_as_long=round(pace.times_as_long, 2),
        points_given_up=round(pace.points_given_up(options_of(problems[0], spec)), 2),
        budget=currency.shown(record.total)[0],
        unit=currency.shown(0)[1],
        overshoot=0 if currency.counts_traces else currency.shown(int(spec.spending.overshoot * record.total))[0],
        basis=basis,
    )


def _mean_price(spec: RunSpec, model: str) -> TokenPrice | None:
    """What tokens cost on average, each model's at its share of the launches; ``None`` where a price is not known."""
    prices, weights = spec.prices(model), [share.weight for share in spec.serving.models] or [1]
    if not prices:
        return None
    return TokenPrice(
        fmean([price.prompt for price in prices], weights), fmean([price.output for price in prices], weights)
    )


def parse_expectation(text: str) -> tuple[float | None, float | None, str]:
    """Tokens and seconds of a trace, as ``tokens=N,seconds=S`` says."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        values = {name: float(value) for name, value in parts.items()}
    except ValueError:
        values = {"": 0.0}
    if set(values) - {"tokens", "seconds"} or not all(0 < value < MOST_EXPECTED for value in values.values()):
        raise InputError(
            f"--dry-run takes tokens=N,seconds=S, each more than 0 and less than a billion, or nothing; got {text!r}. "
            "Questions stand before it."
        )
    return values.get("tokens"), values.get("seconds"), "as given with --dry-run"


def seen_in_store(store: str | None, model: str) -> tuple[float | None, float | None, str]:
    """The means of the latest run of this model in the store."""
    if store is not None and Path(store.removeprefix("sqlite:///")).exists():
        with Store.open(store, create=False) as opened:
            for summary in reversed(opened.runs()):
                if summary.settings.model == model and summary.answered:
                    traces = opened.view(summary.id).traces(texts=False)
                    seconds = [trace.seconds for trace in traces if trace.error is None and trace.part is None]
                    whole = summary.traces + summary.cancelled_parts / 1000
                    basis = f"the traces of run {summary.id}"
                    return summary.tokens / whole, fmean(seconds) if seconds else None, basis
    return None, None, "nothing seen yet: every trace counted at max_tokens, where there is one; time not known"
