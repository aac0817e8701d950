"""The report of a replay: policies side by side on each pool, from the rows that `pets replay -o` wrote."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from pets.errors import InputError
from pets.lab import Row
from pets.report.charts import CURVES_LEGEND, Series, accuracy_bounds, curve_panel
from pets.report.page import Cell, Page, Tile
from pets.report.style import line_styles
from pets.report.tables import COLUMNS, metric_text, metrics_of
from pets.tabular import read_rows as read_records

OURS, EQUAL = "okg", "uniform"
WORDS = (
    "Traces and tokens are per question, for that share of self-consistency; ± is one standard deviation over draws. "
    "* At the spend where okg first reaches 100 %."
)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that `pets replay -o` wrote."""
    hints, rows = get_type_hints(Row), []
    for record in read_records(path, noun="rows"):
        values = record.value if isinstance(record.value, Mapping) else {}
        if record.problem or not {"pool", "policy", "metric", "mean"} <= set(values):
            raise InputError(
                f'"{path}" has no rows of a replay ({record.place}); make some: pets replay POOL -o rows.jsonl. '
                "A run has its page by its number: pets report last."
            )
        try:
            rows.append(Row(**{name: _value(name, values.get(name), hint) for name, hint in hints.items()}))
        except InputError as error:
            raise InputError(f'"{path}" {record.place}: {error} Repair it, or make the file again.') from None
    if not rows:
        raise InputError(f'"{path}" is empty; make it with: pets replay POOL -o {path}')
    return rows


def _value(name: str, value: Any, hint: Any) -> Any:
    """Convert a cell to the type of its field: CSV holds texts alone. A number that is not finite counts as missing."""
    if hint in (str, str | None):
        if not isinstance(value, str | None):
            raise InputError(f'"{name}" is {str(value)[:40]!r}; it is a text.')
        return value or ("" if hint is str else None)
    try:
        number = math.nan if value in (None, "") else float(value)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f'"{name}" is {str(value)[:40]!r}; it is a number.') from None
    if not math.isfinite(number):
        return 0 if hint is int else None
    return int(number) if hint is int else number


def replay_page(rows: Sequence[Row]) -> str:
    """The report as one page of HTML."""
    pools = list(dict.fromkeys(row.pool for row in rows if row.pool))
    policies = list(dict.fromkeys(row.policy for row in rows if row.policy))
    names = pools[0] if len(pools) == 1 else f"{len(pools)} pools"
    page = Page(
        f"Policies on {names}",
        f"{len(policies)} policies on recorded answers, all on the same draws. Self-consistency is the share of "
        "questions whose vote is that of all traces.",
    )
    if tiles := _tiles(rows, pools):
        page.tiles(tiles)
    for pool in pools:
        _pool_section(page, pool, [row for row in rows if row.pool == pool])
    page.section("How to make it again")
    options = [word for policy in policies for word in ("--policy", policy)]
    if draws := max((row.repetitions for row in rows), default=0):
        options += ["--repetitions", str(draws)]
    if seed := max((row.seed for row in rows), default=0):
        options += ["--seed", str(seed)]
    files = next((row.files.splitlines() for row in rows if row.files), pools)
    page.code(f"{shlex.join(['pets', 'replay', *files, *options, '-o', 'rows.jsonl'])}\npets report rows.jsonl")
    return page.html()


def _tiles(rows: Sequence[Row], pools: Sequence[str]) -> list[Tile]:
    """A tile per pool with the share of uniform's traces that okg needs, where both ran in the same setting.

    Beside an online policy uniform is replayed once more, on fewer questions and at fixed budgets: okg is not.
    """
    level = [row for row in rows if row.metric == "traces_at_mean_0.95" and row.option is None]
    equals = {(row.pool, row.setting): row.mean for row in level if row.policy == EQUAL}
    compared = {row.pool: (row.mean, equals.get((row.pool, row.setting))) for row in level if row.policy == OURS}
    tiles = []
    for pool in pools:
        ours, equal = compared.get(pool, (None, None))
        if ours is not None and equal:
            note = f"{ours:.1f} per question with {OURS}, {equal:.1f} with {EQUAL}: 95 % self-consistency"
            name = f"{pool}: the same votes for" if len(pools) > 1 else "the same votes for"
            tiles.append(Tile(name, f"{ours / equal:.0%} of the traces", note, headline=ours < equal))
    return tiles


def _pool_section(page: Page, pool: str, rows: Sequence[Row]) -> None:
    questions = max(row.questions for row in rows)
    repetitions = max(row.repetitions for row in rows)
    counts = f"{questions} questions, {repetitions} draws. " if questions else ""
    page.section(pool, counts + " ".join(CURVES_LEGEND))
    parts = {
        "All questions at once": [row for row in rows if row.setting != "online"],
        "Questions one by one, after training on others": [row for row in rows if row.setting == "online"],
    }
    styles = line_styles(dict.fromkeys(row.policy for row in rows if row.policy))
    means = {row.metric: row.mean for row in rows if not row.policy}
    bounds = accuracy_bounds(means.get("vote_accuracy"), means.get("pass_at_1"))
    for name, part in parts.items():
        panels = []
        for metric, title in (("consistency", "self-consistency"), ("accuracy", "accuracy")):
            if lines := _lines(part, metric):
                size = max(float(line.traces.max()) for line in lines)
                own = {line.label: styles[line.label] for line in lines}
                panels.append(curve_panel(lines, own, title, size, bounds if metric == "accuracy" else []))
        if panels:
            page.subsection(name)
            page.charts(panels, f"{name}: self-consistency and accuracy against traces per question.")
    metrics, by_policy = metrics_of(rows)
    page.notes([WORDS])
    table = []
    for key, cells in by_policy.items():
        numbers = [math.nan if row is None or row.mean is None else row.mean for row in cells]
        table.append([*map(Cell, key), *map(Cell, map(metric_text, cells), numbers)])
    page.table(["policy", "setting", *(COLUMNS[metric][1] for metric in metrics)], table)


def _lines(rows: Sequence[Row], metric: str) -> list[Series]:
    """A line for each policy with points of this metric; one whose traces or mean are missing is left out."""
    lines = []
    for policy in dict.fromkeys(row.policy for row in rows if row.policy):
        mine = [row for row in rows if row.policy == policy and row.option is not None]
        spent = {row.value: row.mean for row in mine if row.metric == "traces"}
        points = [
            (traces, row.mean, row.sd or 0.0)
            for row in mine
            if row.metric == metric and row.mean is not None
            if (traces := spent.get(row.value, row.value)) is not None and traces > 0
        ]
        if points:
            columns = np.array(sorted(points), dtype=float).T
            lines.append(Series.about(policy, bool(spent), *columns))
    return lines
