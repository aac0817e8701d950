"""Tables for a terminal: the results of a replay for each pool, its certificates, and mixtures of models."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from pets.lab import PoolResult, Row
from pets.lab.limit import Frontier
from pets.lab.mixture import ChosenModels, MixtureLab
from pets.lab.rows import LIMIT_LEVELS

COLUMNS = {
    "own_traces": ("traces", "traces of the rule as set"),
    "own_consistency": ("consistency", "its self-consistency"),
    "traces_first_1": ("first 1", "traces for 100 %, first"),
    "traces_settled_1": ("settled 1", "for 100 %, to stay"),
    "traces_at_mean_0.95": ("mean 0.95", "traces for 95 %"),
    "traces_at_mean_0.99": ("mean 0.99", "traces for 99 %"),
    "zone_traces_at_mean_0.95": ("zone 0.95", "near-ties aside: 95 %"),
    "zone_traces_at_mean_0.99": ("zone 0.99", "near-ties aside: 99 %"),
    "limit_ratio_0.95": ("limit 0.95", "times the limit at 95 %"),
    "limit_ratio_0.99": ("limit 0.99", "times the limit at 99 %"),
    "tokens_first_1": ("tokens first 1", "tokens for 100 %"),
    "consistency_matched": ("consistency*", "self-consistency*"),
    "accuracy_matched": ("accuracy*", "accuracy*"),
    "area": ("area", "area under the curve"),
}
"""The metrics of a policy on a pool, by their names in rows: how a terminal calls them, and how a page does."""
SCORES = {
    "certificates": "certificate_count",
    "mean": "certificate_mean",
    "right": "certificate_right",
    "calibration error": "certificate_error",
    "null": "certificate_null",
    "null, by question": "certificate_null_questions",
    "Brier": "certificate_brier",
    "a constant's": "certificate_brier_constant",
    "the leader's share's": "certificate_brier_share",
}


def metrics_of(rows: Iterable[Row]) -> tuple[list[str], dict[tuple[str, str], list[Row | None]]]:
    """The metrics of :data:`COLUMNS` that one pool's rows have, and those rows by policy and setting."""
    cells = {(row.policy, row.setting, row.metric): row for row in rows if row.option is None and row.policy}
    metrics = [metric for metric in COLUMNS if any(own == metric for _, _, own in cells)]
    keys = dict.fromkeys((policy, setting) for policy, setting, _ in cells)
    return metrics, {key: [cells.get((*key, metric)) for metric in metrics] for key in keys}


def pool_table(pool: PoolResult, rows: Sequence[Row]) -> Table:
    """One row per policy: traces per question at self-consistency 1 and on the mean curve, and a matched budget."""
    metrics, lines = metrics_of(row for row in rows if row.pool == pool.pool)
    of = "of the ceiling " if pool.config.reference == "disjoint" else ""
    good = "At zone 0.95 and 0.99 that many verdicts are good: no answer has a share of the target's votes more"
    sentences = [
        f"Traces per question at self-consistency 1 {of}(first, settled); at 0.95 and 0.99 {of}on the mean curve.",
        f"{good} than {pool.config.tolerance:g} above theirs." if pool.config.tolerance else "",
        "* at the spend where okg first reaches 1.",
        f"Tied targets: {pool.tied.mean():.1f}; agreement of all traces with the target: {pool.ceiling.mean():.4f}.",
    ]
    if pool.limit is None:
        sentences.append(f"No attainable limit is given: {pool.no_limit}.")
    else:
        zones = f" (zone: {_limits(pool.zone_limit)})" if pool.zone_limit else ""
        limits = f"{_limits(pool.limit)} traces{zones}"
        sentences.append(f"Attainable limit at 0.95 and 0.99: {limits}; beside it each policy's multiple of them.")
    names = [COLUMNS[metric][0] for metric in metrics]
    cells = [[*key, *map(metric_text, line)] for key, line in lines.items()]
    caption = "\n".join(filter(None, sentences))
    return make_table(["policy", "setting"], names, cells, title=_title(pool), caption=caption)


def _limits(frontier: Frontier) -> str:
    return " and ".join(f"{frontier.traces_at(level):.1f}" for level in LIMIT_LEVELS)


CLOCK_COLUMNS = ("tokens", "time", "p95 time", "consistency", "accuracy", "cancelled")


def clock_rows(pool: PoolResult) -> list[list[str]]:
    """A row for each policy and hurry, or threshold or budget: what a race takes, and what its votes are worth."""
    table = []
    for result in pool.results:
        clock = result.on_clock
        tables = (clock["trace_tokens"], clock["time"], clock["p95_time"], result.consistency, result.accuracy)
        columns = [values.mean(axis=0).tolist() for values in (*tables, clock["cancelled"])]
        for point, value in enumerate(result.values):
            swept = f"{result.option} {value:g}" if len(result.values) > 1 else ""
            cells = [f"{column[point]:.{digits}f}" for column, digits in zip(columns, (2, 2, 2, 4, 4, 1), strict=True)]
            table.append([result.policy, swept, *("-" if cell == "nan" else cell for cell in cells)])
    return table


def clock_table(pool: PoolResult) -> Table:
    """:func:`clock_rows` for a terminal."""
    caption = (
        "Tokens and time in the question's own mean trace, from its first launch to its settled vote; traces cancelled "
        "when it was,\nwhose tokens so far count. Finishing first is not random: consistency has what that costs."
    )
    return make_table(["policy", "at"], CLOCK_COLUMNS, clock_rows(pool), title=_title(pool), caption=caption)


def certificate_table(rows: Sequence[Row]) -> Table | None:
    """One row for each pool and policy; ``None`` if no certificates were made."""
    cells = {
        (row.pool, row.policy, row.metric): row.mean for row in rows if row.metric.endswith(tuple(SCORES.values()))
    }
    caption = (
        "The chance that the leader is the target, or with a zone that no answer leads it by more; pooled over mean "
        "budgets and repetitions.\nA calibrated forecaster's error is under the null's 95 times in 100: with a coin "
        "per certificate, and with a coin per question."
    )
    table = []
    kinds = dict.fromkeys((pool, policy, metric.startswith("zone_")) for pool, policy, metric in cells)
    for pool, policy, zone in kinds:
        scores = [cells[pool, policy, ("zone_" if zone else "") + metric] or 0.0 for metric in SCORES.values()]
        name = f"{policy}, zone" if zone else policy
        table.append([pool or "all pools", name, f"{scores[0]:,.0f}", *(f"{score:.4f}" for score in scores[1:])])
    return make_table(["pool", "policy"], SCORES, table, title="certificates", caption=caption) if cells else None


def mixture_table(lab: MixtureLab, shown: int) -> Table:
    """The accuracy of the vote after each number of traces, and its tokens: the first candidates, a row each."""
    caption = "accuracy of the vote after each number of traces per question, and their tokens where they are recorded"
    title = f"{lab.name}: {lab.questions} questions with gold"
    table = []
    for candidate in lab.candidates[:shown]:
        accuracies = candidate.correct.mean(axis=0).tolist()
        tokens = [None] * len(accuracies) if candidate.tokens is None else candidate.tokens.mean(axis=0).tolist()
        table.append([candidate.name, *map(_vote_cell, accuracies, tokens)])
    return make_table(["models"], map(str, lab.sizes), table, title=title, caption=caption)


def choice_table(lab: MixtureLab, choices: Sequence[ChosenModels]) -> Table:
    """What models and weights score on one half of the questions when they were chosen on the other."""
    caption = (
        "Models and weights chosen on one half of the questions and scored on the other: the best single model, the\n"
        "best mixture, the better of both; the mixture less the single model, with its 95 % interval over questions."
    )
    title = f"{lab.name}: chosen among {len(lab.candidates)} on one half, scored on the other"
    numbers = ["traces", "single", "mixture", "either", "mixture less single"]
    table = [
        [
            str(choice.size),
            _vote_cell(choice.single, choice.single_tokens),
            _vote_cell(choice.mixture, choice.mixture_tokens),
            f"{choice.either:.3f}",
            f"{choice.difference:+.3f} ({choice.low:+.3f} to {choice.high:+.3f})",
            f"{choice.favourite} ({choice.share:.0%})",
        ]
        for choice in choices
    ]
    return make_table((), numbers, table, last=["chosen most often"], title=title, caption=caption)


def make_table(
    names: Iterable[str],
    numbers: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    last: Iterable[str] = (),
    title: str | None = None,
    caption: str | None = None,
) -> Table:
    """A table of these rows; names, the ``last`` columns too, may fold anywhere, numbers stand on the right."""
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right")
    for name in last:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _vote_cell(accuracy: float, tokens: float | None) -> str:
    return f"{accuracy:.3f}" if tokens is None else f"{accuracy:.3f} ({tokens:,.0f})"


def _title(pool: PoolResult) -> str:
    bounds = [("pass@1", pool.pass_at_1), ("vote of all", pool.vote_accuracy)]
    bound_texts = [f"{name} {value:.3f}" for name, value in bounds if value is not None]
    facts = [f"{pool.questions} questions x {pool.size} traces", f"{pool.config.repetitions} repetitions", *bound_texts]
    return f"{pool.pool}: {', '.join(facts)}"


def metric_text(row: Row | None) -> str:
    """A metric with its deviation, and how many draws have it where not all do."""
    if row is None or row.mean is None:
        return "-"
    if row.metric.startswith("tokens"):
        return f"{row.mean:,.0f}"
    if row.metric.startswith("limit"):
        return f"{row.mean:.2f} x"
    digits = 1 if "traces" in row.metric else 3
    deviation = "" if row.sd is None else f" ± {row.sd:.{digits}f}"
    missed = "" if row.reached == row.repetitions else f" ({row.reached}/{row.repetitions})"
    return f"{row.mean:.{digits}f}{deviation}{missed}"
