"""``pets fit``: a plan for a stream from a recorded pool, and a look at one."""

import math
import sys
from pathlib import Path

import click
import numpy as np

from pets.cli._chart import draw_chart
from pets.cli._groups import named_options, option, refuse_named, verb
from pets.cli._output import check_output, print_table, table_console
from pets.cli._terminal import echo, echo_drawing, say
from pets.cli.pools import PoolOptions
from pets.core.price import log_price_at
from pets.core.prior import STRENGTHS
from pets.core.tally import K0, NAMES
from pets.engine.budget import Amount
from pets.errors import InputError
from pets.plans import StreamPlan, fit_plan, plan_text, read_plan, write_plan
from pets.plans.plan import is_plan_file, price_rule
from pets.report.tables import make_table

PIPE_WIDTH = 100  # columns where stdout is no terminal
BAR_WIDTH = 20  # characters of a full bar
PRICED_MEAN_BUDGETS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@verb()
@click.argument("pool", required=False, type=click.Path(path_type=Path))
def fit(
    pool: Path | None,
    reading: PoolOptions,
    budget: str = option("How many traces per question the stream may spend on average.", "16x", metavar="Nx"),
    max_traces: int = option("How many traces a question gets at most.", 64, at_least=4),
    policy: str = option(
        "The rule that buys traces, and what lead another answer needs to matter, as a share of all traces: "
        "price:zone=0.1; price:rounds=1 is the paper's plan, which buys once after the warm-up.",
        "price",
    ),
    seed: int = option("What the orders of traces are drawn from.", 0, at_least=0),
    output: Path | None = option("The plan's file; without one, stdout.", flags=("-o", "--output")),
    show: Path | None = option(
        "Fit nothing: draw this plan, its grids, their shares, curves and budgets, the prices and the prior.",
        metavar="PLAN",
    ),
) -> None:
    """Fit a plan to POOL, a file of recorded answers, or "starter". No gold is needed, and
    --answer reads the texts of a pool that holds no answers yet.

    \b
    pets fit mine.jsonl --budget 16x --policy price:rounds=3 -o plan.json
    pets fit --show plan.json
    pets stream --plan plan.json --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B < questions.jsonl

    Every question of a stream gets four traces; what they show and what is left of the budget decide how many more, in
    as many batches of parallel traces as its policy allows. The plan is readable JSON.
    """
    if show is not None:
        refuse_named("--show draws a plan as it is", *(named_options().keys() - {"show"}))
        if pool is not None:
            raise InputError(f'--show fits nothing: leave "{pool}" out.')
        _draw_plan(read_plan(show))
        return
    if pool is None:
        raise InputError('which pool? Give a file of recorded answers, or "starter"; --show PLAN draws a plan.')
    check_output(output, pool)
    if output is not None and output.is_file() and output.stat().st_size and not is_plan_file(output):
        raise InputError(f'"{output}" is there already and is no plan: it stays as it is. Choose another file for -o.')
    labelled = reading.label(reading.read(pool), min_traces=K0)
    rule, mean_budget = price_rule(policy), Amount.parse_mean(budget)
    plan = fit_plan(labelled, mean_budget, rule.rounds, cap=max_traces, zone=rule.zone, seed=seed)
    if output is None:
        echo(*plan_text(plan).rstrip("\n").split("\n"))
        return
    write_plan(plan, output)
    source = plan.provenance
    say(
        f"{output}: a plan for {mean_budget:g} traces per question, from {source.questions:,} questions "
        f"with {source.traces:,} traces."
    )


def _draw_plan(fitted: StreamPlan) -> None:
    console, source = table_console(PIPE_WIDTH), fitted.provenance
    rounds = f"{fitted.rounds} rounds" if fitted.rounds else "one trace at a time"
    answers = source.answer if source.options is None else f"{source.answer}, {source.options} options"
    zone = f", zone {fitted.zone:g}" if fitted.zone else ""
    console.print(
        f"{fitted.mean_budget:g} traces per question on average, {fitted.cap} at most, {rounds}{zone}\n"
        f'from pool "{source.pool}": {source.questions:,} questions, {source.traces:,} traces ({answers}), '
        f"{source.digest}, pets {source.pets}, seed {source.seed}\n"
        f"one shot after the warm-up would reach self-consistency {fitted.expected:.3f}",
        soft_wrap=True,
    )
    rows = []
    for j, name in enumerate(NAMES):
        share, a, b, voting = fitted.grid.rows[j]
        budget = fitted.budget_of(j)
        reached = voting * float(fitted.grid.curves[j].curve(budget))
        bar = f"{'█' * round(BAR_WIDTH * share):<{BAR_WIDTH}} {share:6.1%}"
        rows.append((name, bar, f"{a:.3f}", f"{b:.3f}", f"{voting:.2f}", f"{budget:.1f}", f"{reached:.3f}"))
    numbers = ("a", "b", "voting", "budget", "self-consistency")
    title = "grids: what four warm-up traces show"
    print_table(make_table(("votes", "share of the stream"), numbers, rows, title=title), console)
    traces = np.arange(K0, fitted.cap + 1).tolist()
    curves = {name: (traces, curve.tolist()) for name, curve in zip(NAMES, fitted.grid.SC(traces), strict=True)}
    title = "self-consistency against traces, by the votes of the first four"
    echo_drawing(draw_chart(title, curves, console.width, colour=sys.stdout.isatty()))
    if fitted.prices is not None:
        within_cap = {float(budget) for budget in PRICED_MEAN_BUDGETS if budget <= fitted.cap}
        budgets = sorted(within_cap | {fitted.mean_budget})
        prices = [(f"{budget:g}", f"{math.exp(log_price_at(fitted.prices, budget)):.2e}") for budget in budgets]
        title = "prices: a question stops when its gain per trace is under the price"
        print_table(make_table((), ("mean traces left per question", "price"), prices, title=title), console)
    edges, strengths = [0.0, *fitted.prior.edges, math.inf], []
    for shares, low, high in zip(fitted.prior.shares, edges, edges[1:], strict=False):
        name = f"over {low:,.0f}" if high == math.inf else f"to {high:,.0f}"
        name = "any" if len(fitted.prior.shares) == 1 else name
        strengths.append((name, *(f"{share:.2f}" for share in shares)))
    title = "prior: shares of the strengths at which the model's answers scatter"
    columns = [f"{strength:g}" for strength in STRENGTHS]
    print_table(make_table(("mean tokens of a trace",), columns, strengths, title=title), console)
