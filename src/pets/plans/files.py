"""Plans as files: JSON that a person can read, with a version that a later pets can tell.

{"format": "pets-plan", "version": 1, "mean_budget", "rounds", "cap", "rho",
 "grids": [{"pattern", "share", "a", "b", "voting", "low", "high"}, ...],
 "prices": [[log price, mean spend], ...] | null,
 "prior": {"strengths", "shares", "edges"}, "provenance": {...}}
"""

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pets.core.greedy import Plan
from pets.core.grid import Grid
from pets.core.patterns import NAMES
from pets.core.price import PriceTable
from pets.core.prior import STRENGTHS, LearnedPrior
from pets.errors import InputError, StateError
from pets.plans.plan import Provenance, StreamPlan

__all__ = ["FORMAT", "VERSION", "from_plain", "plan_text", "read_plan", "to_plain", "write_plan"]

FORMAT = "pets-plan"
VERSION = 1
WIDTH = 160  # what fits on one line of the file stands on one


def read_plan(path: str | Path) -> StreamPlan:
    """The plan in a file; whatever is wrong with it is one line that names the file."""
    path = Path(path)
    try:
        data = json.loads(path.read_bytes(), parse_constant=_no_number)
    except OSError as error:
        raise InputError(f'plan "{path}" cannot be read ({error.strerror or error}). Make one with: pets fit') from None
    except (ValueError, RecursionError) as error:
        raise StateError(f'plan "{path.name}" is not JSON ({error}). Fit it again.') from None
    try:
        return from_plain(data)
    except StateError as error:
        raise StateError(f'plan "{path.name}": {error}') from None


def write_plan(plan: StreamPlan, path: str | Path) -> None:
    """Write the file; the same plan gives the same bytes."""
    path = Path(path)
    try:
        path.write_text(plan_text(plan), encoding="utf-8")
    except OSError as error:
        raise InputError(f'plan "{path}" cannot be written ({error.strerror or error}). Choose another path.') from None


def plan_text(plan: StreamPlan) -> str:
    """The file's content."""
    return _laid_out(to_plain(plan), 0) + "\n"


def to_plain(plan: StreamPlan) -> dict[str, Any]:
    """The plan as plain data."""
    rows = zip(NAMES, plan.grid.rows, plan.budgets.low, plan.budgets.high, strict=True)
    return {
        "format": FORMAT,
        "version": VERSION,
        "mean_budget": plan.mean_budget,
        "rounds": plan.rounds,
        "cap": plan.cap,
        "rho": plan.budgets.rho,
        "grids": [
            {"pattern": name, "share": share, "a": a, "b": b, "voting": voting, "low": low, "high": high}
            for name, (share, a, b, voting), low, high in rows
        ],
        "prices": None if plan.prices is None else [list(row) for row in _rows(plan.prices)],
        "prior": {
            "strengths": list(STRENGTHS),
            "shares": [list(row) for row in plan.prior.shares],
            "edges": list(plan.prior.edges),
        },
        "provenance": asdict(plan.provenance),
    }


def from_plain(data: object) -> StreamPlan:
    """The plan that :func:`to_plain` described; ``StateError`` where it is another version, or damaged."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise StateError('this is not a plan: "format" is not "pets-plan". Make one with: pets fit')
    found = data.get("version")
    if type(found) is int and found > VERSION:
        raise StateError(f"it has version {found}, this pets reads {VERSION}. Update pets, or fit it again.")
    if found != VERSION:
        raise StateError(f"its version is {found!r}; this pets reads {VERSION}. Fit it again.")
    try:
        return _plan(data)
    except KeyError as error:
        raise StateError(f"it is damaged: {error} is missing. Fit it again.") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise StateError(f"it is damaged: {error} Fit it again.") from None


def _plan(data: Mapping[str, Any]) -> StreamPlan:
    grids, prior, prices = _listed(data["grids"]), data["prior"], data["prices"]
    if [row["pattern"] for row in grids] != list(NAMES):
        raise ValueError(f"its grids are not the warm-up patterns {', '.join(NAMES)}.")
    if [_number(strength) for strength in _listed(prior["strengths"])] != list(STRENGTHS):
        raise ValueError("its prior is over other strengths than this pets has.")
    rows = [tuple(_number(row[key]) for key in ("share", "a", "b", "voting")) for row in grids]
    low, high = (tuple(_whole(row[end]) for row in grids) for end in ("low", "high"))
    return StreamPlan(
        mean_budget=_number(data["mean_budget"]),
        rounds=_whole(data["rounds"]),
        cap=_whole(data["cap"]),
        grid=Grid.from_rows(rows),  # type: ignore[arg-type]
        budgets=Plan(low, high, _number(data["rho"])),
        prices=None if prices is None else _table(prices),
        prior=LearnedPrior(
            tuple(tuple(map(_number, _listed(row))) for row in _listed(prior["shares"])),
            tuple(map(_number, _listed(prior["edges"]))),
        ),
        provenance=_provenance(data["provenance"]),
    )


def _table(prices: object) -> PriceTable:
    log_prices, spends = zip(*([_number(one) for one in _listed(row)] for row in _listed(prices)), strict=True)
    if any(a <= b for a, b in itertools.pairwise(log_prices)):
        raise ValueError("its prices do not fall.")
    return PriceTable(log_prices, spends)


def _provenance(data: Mapping[str, Any]) -> Provenance:
    for field in fields(Provenance):
        value = data[field.name]
        kind: type = int if field.name in ("questions", "traces", "options", "seed") else str
        if type(value) is not kind and not (field.name == "options" and value is None):
            raise ValueError(f'"{field.name}" of its provenance is {value!r}.')
    return Provenance(**{field.name: data[field.name] for field in fields(Provenance)})


def _rows(table: PriceTable) -> list[tuple[float, float]]:
    return list(zip(table.log_prices, table.spends, strict=True))


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(row, dict | list | int | float) for row in value):
        raise ValueError(f"there is {json.dumps(value)[:40]} where a list belongs.")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"there is {json.dumps(value)[:40]} where a number belongs.")
    return float(value)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"there is {json.dumps(value)[:40]} where a whole number belongs.")
    return value


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _laid_out(value: object, depth: int) -> str:
    """JSON that is indented only where it does not fit on a line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + depth <= WIDTH or not isinstance(value, dict | list):
        return flat
    inner = depth + 2
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_laid_out(one, inner)}" for key, one in value.items()]
        left, right = "{", "}"
    else:
        parts, (left, right) = [_laid_out(one, inner) for one in value], "[]"
    pad = "\n" + " " * inner
    return left + pad + ("," + pad).join(parts) + "\n" + " " * depth + right
