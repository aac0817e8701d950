"""``pets forecast``: what budget for which self-consistency, from a run or a pool."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from pets.arguments import Interval
from pets.cli._chart import draw_chart
from pets.cli._groups import option, verb
from pets.cli._output import FORMAT, Format, SafeConsole, count, is_for_people, print_rows, progress_bar
from pets.cli._terminal import echo, echo_drawing, say
from pets.core.allocator import Allocator
from pets.engine.budget import Amount
from pets.engine.forecast import Forecast
from pets.engine.forecast import forecast as play_on
from pets.engine.progress import PRIOR_QUESTIONS, sampled
from pets.engine.resume import restored
from pets.errors import InputError
from pets.lab import replay
from pets.pools import read_pool
from pets.pools.reading import SHIPPED
from pets.registry import make_policy, typed_policy
from pets.store import RunSummary, RunView, Store
from pets.store.database import DEFAULT_STORE

REPETITIONS = 8  # of a pool that is replayed
MORE_TRACES, MORE_BUDGET = 4, 4  # of a question where its cap is in the way, and times what a trace of each costs


@verb()
@click.argument("run", metavar="RUN|POOL", default="last")
def forecast(
    run: str,
    store: str | None = option(f"The file that holds the run; {DEFAULT_STORE} if none is named.", metavar="FILE"),
    targets: tuple[float, ...] = option(
        "A self-consistency whose budget is wanted; give it again for more.",
        (0.95, 0.99),
        flags=("--target-consistency",),
        within=Interval(0, 1, open="()"),
    ),
    policy: str = option("An index policy that sees counts.", "okg"),
    max_budget: str | None = option(
        "The largest budget to look at; by default as many traces as a question may get.", metavar="Nx"
    ),
    form: Format | None = FORMAT,
) -> None:
    """Say which mean budget reaches which self-consistency, with the curve.

    \b
    pets forecast last --target-consistency 0.99    a run of runs.db, finished or not
    pets forecast gpqa.jsonl                        a recorded pool, by replaying it

    A run is played on under the prior that its own traces teach, and self-consistency is what the run itself prints:
    the share of answers that are the vote over infinitely many traces. No question gets more than the run's
    --max-traces. A pool is replayed, and its vote is that of the traces drawn, 64 of a question at most. Each budget
    comes with the command that takes the run there. The curve is drawn on stderr; its points are one line of JSON on
    stdout where that is no terminal, or as --format says.
    """
    up_to = None if max_budget is None else Amount.parse_mean(max_budget)
    if up_to is not None and up_to < 1:
        raise InputError(f"--max-budget is at least 1x, a trace of every question; got {max_budget!r}.")
    if store is None and not run.isdecimal() and run != "last":
        source = _replayed(Path(run), policy, up_to)
    else:
        path = store or DEFAULT_STORE
        with Store.open(path, create=False) as opened:
            view = opened.view(run)
            source = played_on(view, restored(view), path, policy=policy, targets=targets, up_to=up_to)
    curve, console = source.curve, SafeConsole(stderr=True)
    curves = {policy: (curve.mean_budget.tolist(), curve.consistency.tolist())}
    title = "expected self-consistency against mean traces per question"
    echo_drawing(draw_chart(title, curves, console.width, colour=console.is_terminal), err=True)
    budgets, lines = source.budgets(targets, up_to)
    if not is_for_people(form):
        say(*lines)
    points = [
        [round(float(x), 3), round(float(y), 4)] for x, y in zip(curve.mean_budget, curve.consistency, strict=True)
    ]
    row = {"questions": source.questions, "mean_budget_for": budgets, "curve": points}
    print_rows([row], form, lambda: echo(*lines))


@dataclass(frozen=True, slots=True)
class ForecastSource:
    """A curve over mean budgets, its number of questions, and the run that it is of, if any.

    ``vote`` is what answers are compared with. No question got more than ``cap`` traces.
    """

    curve: Forecast
    questions: int
    vote: str
    cap: int | None
    run: RunSummary | None = None
    store: str = DEFAULT_STORE

    def budgets(
        self, targets: Sequence[float], up_to: float | None = None
    ) -> tuple[dict[str, float | None], list[str]]:
        """Print what self-consistency means; return the mean budget of each target, and a line about each."""
        say(f"Self-consistency is the share of answers that are {self.vote}; now {self.curve.consistency[0]:.3f}.")
        budgets, lines = {f"{target:g}": self.curve.budget_for(target) for target in targets}, []
        end = float(self.curve.mean_budget[-1])
        for target, mean in budgets.items():
            words = f"more than {end if up_to is None else up_to:g}x"
            if mean is not None:
                words = f"{mean:.1f}x ({round(mean * self.questions):,} traces in all){self.resume_command(mean)}"
            elif self.cap is not None and end >= self.cap:
                most = f"{self.curve.consistency[-1]:.3f} is the most"
                words = f"not reached with at most {self.cap} per question: {most}"
                raised = f"--max-traces {MORE_TRACES * self.cap} --budget +{MORE_BUDGET}x"
                words += "" if self.run is None else f"; a question may get more with: {self.resume(raised)}"
            lines.append(f"self-consistency {target}: {words}")
        return budgets, lines

    def resume(self, options: str) -> str:
        """The command that goes on with the run."""
        place = "" if self.store == DEFAULT_STORE else f" --store {shlex.quote(self.store)}"
        return f"pets resume {'' if self.run is None else self.run.id} {options}{place}"

    def resume_command(self, mean: float) -> str:
        """The command that takes the run to a mean budget, in its own unit; nothing for a pool."""
        if self.run is None or not self.run.traces:
            return ""
        spent, currency = self.run.spent, self.run.settings.currency
        total = round(mean * self.questions * spent / self.run.traces)
        if total <= spent:
            return "; the run is there already"
        number, unit = currency.shown(total)
        amount = {"traces": f"{total}", "tokens": f"{total}tok"}.get(unit, f"{number:.6g}usd")
        return f": {self.resume(f'--budget ={amount}')}"


def played_on(
    view: RunView,
    allocator: Allocator,
    path: str,
    *,
    targets: Sequence[float],
    policy: str = "okg",
    up_to: float | None = None,
) -> ForecastSource:
    """Play a run of the store at ``path`` on, under the prior learned from its own traces."""
    ids, cap = [problem.id for problem in view.problems()], allocator.budget.cap
    tallies = [allocator.tally(id) for id in sampled(ids, PRIOR_QUESTIONS)]
    say(f"{count(len(ids), 'question')} played on: up to a minute.")
    with progress_bar("playing on") as progress:
        curve = play_on(tallies, make_policy(policy), up_to=up_to, max_traces=cap, targets=targets, progress=progress)
    return ForecastSource(curve, len(ids), "the vote over infinitely many traces", cap, view.summary(), path)


def _replayed(path: Path, policy: str, up_to: float | None) -> ForecastSource:
    if not path.exists() and str(path) not in SHIPPED:
        raise InputError(f'there is no pool "{path}"; a run is a number or "last".')
    pool = read_pool(path)
    with progress_bar() as progress:
        (replayed,) = replay([pool], [typed_policy(policy)], repetitions=REPETITIONS, progress=progress)
    (result,) = replayed.results
    if result.option is not None:
        raise InputError(f"{policy} has no curve over budgets; choose an index policy such as okg.")
    traces, values = result.traces[0], result.consistency
    drawn = round(traces[-1])
    grid = np.linspace(1.0, min(up_to or drawn, drawn), 96)
    curves = np.array([np.interp(grid, traces, row) for row in values])
    vote = f"the vote of the {drawn} traces of a question that each replay draws"
    return ForecastSource(Forecast(grid, curves.mean(axis=0)), len(pool.questions), vote, drawn)
