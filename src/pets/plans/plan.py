"""StreamPlan: difficulty grids, curves, budgets, prices and the prior; its file; and fitting it to a training pool.

The numbers are those of :mod:`pets.core.grid`, :mod:`pets.core.price` and :mod:`pets.core.prior`. The file is JSON that
a person can read:

{"format": "pets-plan", "version": 1, "mean_budget", "rounds", "cap", "zone", "rho",
 "grids": [{"pattern", "share", "a", "b", "voting", "low", "high"}, ...],
 "prices": [[log price, mean spend], ...] | null,
 "prior": {"strengths", "shares", "edges", "kind_shares"}, "provenance": {...}}
"""

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pets._version import __version__
from pets.arguments import check_fields
from pets.core.budget import Budget
from pets.core.greedy import Quotas
from pets.core.grid import Grid, fit_grid, plan_for
from pets.core.policy import Policy, Training
from pets.core.price import PriceTable
from pets.core.prior import FORMER_HEADS, KINDS, STRENGTHS, LearnedPrior
from pets.core.tally import K0, NAMES, PATTERNS, bin_of, count_votes
from pets.errors import InputError, StateError
from pets.lab.labelled import LabelledPool, all_tokens, read_answers
from pets.policies.price import PriceRule
from pets.pools import Pool
from pets.registry import policies
from pets.tabular import atomic_write

SLACK_DIVISOR = 50  # a window may leave 1 / 50 of its budget to the next
SHARE_TOLERANCE = 1e-6  # how far written shares may be from adding up to 1
MAX_TRACES = 64  # of a question, unless the user says otherwise

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The pool that a plan was fitted to, and how its answers were read; ``options`` is a closed answer set's size."""

    pool: str
    questions: int
    traces: int
    answer: str
    options: int | None
    digest: str
    pets: str
    seed: int

    def __post_init__(self) -> None:
        check_fields(self)
        if self.questions < 1 or self.traces < K0 * self.questions:
            raise InputError(f"{self.questions} training questions of {self.traces} traces; each has {K0} at least.")
        if self.options is not None and self.options < 2:
            raise InputError(f"a closed answer set has 2 options or more; got {self.options}.")


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A plan for a stream of questions at ``mean_budget`` traces each, in ``rounds`` batches after the warm-up.

    ``rounds`` = 0 is one trace at a time without a limit; ``cap`` is the most that a question may get. ``grid`` holds
    share, curve and voting chance of each warm-up pattern (easiest first), ``budgets`` what the greedy plan gives them,
    ``prices`` the mean spend at each log price (``None`` with one round), ``prior`` how strongly the model agrees with
    itself. ``zone`` is the lead, as a share of all traces, that a rival needs to matter; prices hold for it alone.
    """

    mean_budget: float
    rounds: int
    cap: int
    grid: Grid
    budgets: Quotas
    prices: PriceTable | None
    prior: LearnedPrior
    provenance: Provenance
    zone: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean_budget) and K0 <= self.mean_budget <= self.cap):
            raise InputError(f"a mean budget lies between {K0} and the cap of {self.cap}; got {self.mean_budget:g}.")
        if self.rounds < 0 or (self.prices is None) != (self.rounds == 1):
            raise InputError(f"rounds are 0 or more, and only a plan of 1 round has no prices; got {self.rounds}.")
        _check_grid(self.grid, self.budgets, self.cap)
        _check_prior(self.prior)
        self.policy()  # refuses a zone that is none, and one of a single round

    def policy(self, *, use_up: bool = False, leave: int = 0) -> PriceRule:
        """The policy; with ``use_up`` the last questions, or those of a window, get what is left but for ``leave``."""
        return PriceRule(
            self.rounds,
            use_up=use_up,
            leave=leave,
            zone=self.zone,
            table=self.prices,
            grids=self.grid.rows if self.prices is None else None,
            shares=self.prior.shares,
            edges=self.prior.edges,
            kind_shares=self.prior.kind_shares,
        )

    def budget_of(self, pattern: int) -> float:
        """The mean traces that the one-shot plan gives a question of this pattern."""
        j = bin_of(pattern, self.grid.K)
        low, high = self.budgets.low[j], self.budgets.high[j]
        return low + self.budgets.rho * (high - low)

    @property
    def expected(self) -> float:
        """The self-consistency that the one-shot plan expects of the stream."""
        grid, rho = self.grid, self.budgets.rho
        low, high = (grid.SC(ends).diagonal() for ends in (self.budgets.low, self.budgets.high))
        shares = zip(grid.shares, low.tolist(), high.tolist(), strict=True)
        return math.fsum(share * ((1 - rho) * a + rho * b) for share, a, b in shares)


def left_by_windows(budget: Budget) -> int:
    """``leave`` for a budget: 2 % of a window's, nothing where there are no windows.

    >>> left_by_windows(Budget.per_window(100, 1600)), left_by_windows(Budget(1600))
    (32, 0)
    """
    return 0 if budget.window is None else budget.window.amount // SLACK_DIVISOR


def _check_grid(grid: Grid, budgets: Quotas, cap: int) -> None:
    """Refuse shares that are no distribution and budgets that are none."""
    if len(PATTERNS) != grid.K or len(budgets.low) != grid.K or len(budgets.high) != grid.K:
        raise InputError(f"a plan has {len(PATTERNS)} grids, one for each warm-up pattern, each with its budget.")
    if not _distribution(grid.shares) or not all(0.0 <= chance <= 1.0 for chance in grid.voting):
        raise InputError(f"shares {grid.shares} add up to 1 and voting chances {grid.voting} lie in [0, 1].")
    ends = zip(budgets.low, budgets.high, strict=True)
    if not all(K0 <= low <= high <= cap for low, high in ends) or not 0.0 <= budgets.rho < 1.0:
        raise InputError(f"budgets lie between {K0} and {cap}, and rho in [0, 1); got {budgets}.")


def _check_prior(prior: LearnedPrior) -> None:
    """Refuse a prior that no batch can have taught."""
    edges = prior.edges
    rising = all(a < b for a, b in itertools.pairwise(edges)) and all(map(math.isfinite, edges))
    former = any(len(row) < KINDS for row in prior.kind_shares)
    kinds = len(STRENGTHS) + FORMER_HEADS if former else KINDS
    for rows, many in ((prior.shares, len(STRENGTHS)), (prior.kind_shares, kinds)):
        if not rising or len(rows) not in (1, len(edges) + 1):
            raise InputError("length classes of a prior are cut at rising edges, with a row of shares for each class.")
        if not all(len(row) == many and min(row) > 0.0 and _distribution(row) for row in rows):
            raise InputError(f"a row of the prior has {many} shares above 0 that add up to 1.")


def _distribution(shares: tuple[float, ...]) -> bool:
    return all(share >= 0.0 for share in shares) and abs(math.fsum(shares) - 1.0) <= SHARE_TOLERANCE


FORMAT = "pets-plan"
VERSION = 1
LINE_WIDTH = 160  # what fits on one line of the file stands on one


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


def is_plan_file(path: str | Path) -> bool:
    """Whether a file is a plan, of whatever version."""
    try:
        data = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("format") == FORMAT


def write_plan(plan: StreamPlan, path: str | Path) -> None:
    """Write the file, whole or not at all; the same plan gives the same bytes."""
    with atomic_write(Path(path)) as file:
        file.write(plan_text(plan).encode())


def plan_text(plan: StreamPlan) -> str:
    """The text of the file."""
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
        "zone": plan.zone,
        "rho": plan.budgets.rho,
        "grids": [
            {"pattern": name, "share": share, "a": a, "b": b, "voting": voting, "low": low, "high": high}
            for name, (share, a, b, voting), low, high in rows
        ],
        "prices": None if plan.prices is None else [list(row) for row in plan.prices],
        "prior": {
            "strengths": list(STRENGTHS),
            "shares": [list(row) for row in plan.prior.shares],
            "edges": list(plan.prior.edges),
            "kind_shares": [list(row) for row in plan.prior.kind_shares],
        },
        "provenance": asdict(plan.provenance),
    }


def from_plain(data: object) -> StreamPlan:
    """The plan that :func:`to_plain` described; ``StateError`` where it is another version, or damaged."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise StateError('this is not a plan: "format" is not "pets-plan". Make one with: pets fit')
    if (version := data.get("version")) != VERSION:
        raise StateError(f"it has version {version!r}, this pets reads {VERSION}. Update pets, or fit it again.")
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
    low, high = (tuple(_number(row[end], int) for row in grids) for end in ("low", "high"))
    table = None if prices is None else tuple((price, spend) for price, spend in _number_rows(prices))
    if table is not None and any(a <= b for (a, _), (b, _) in itertools.pairwise(table)):
        raise ValueError("its prices do not fall.")
    return StreamPlan(
        mean_budget=_number(data["mean_budget"]),
        rounds=_number(data["rounds"], int),
        cap=_number(data["cap"], int),
        grid=Grid.from_rows(rows),  # type: ignore[arg-type]
        budgets=Quotas(low, high, _number(data["rho"])),
        prices=table,
        prior=LearnedPrior(
            _number_rows(prior["shares"]),
            tuple(map(_number, _listed(prior["edges"]))),
            _number_rows(prior["kind_shares"]) if "kind_shares" in prior else LearnedPrior().kind_shares,
        ),
        provenance=Provenance(**{field.name: data["provenance"][field.name] for field in fields(Provenance)}),
        zone=_number(data.get("zone", 0.0)),
    )


def _number_rows(rows: object) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(_number, _listed(row))) for row in _listed(rows))


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(row, dict | list | int | float) for row in value):
        raise ValueError(f"there is {json.dumps(value)[:40]} where a list belongs.")
    return value


def _number(value: Any, kind: type[Number] = float) -> Number:  # type: ignore[assignment]
    if type(value) not in (int, kind) or not math.isfinite(value):
        raise ValueError(f"there is {json.dumps(value)[:40]} where a {'whole ' * (kind is int)}number belongs.")
    return kind(value)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _laid_out(value: object, depth: int) -> str:
    """JSON that is indented only where it does not fit on a line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + depth <= LINE_WIDTH or not isinstance(value, dict | list):
        return flat
    inner = depth + 2
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_laid_out(item, inner)}" for key, item in value.items()]
    else:
        parts = [_laid_out(item, inner) for item in value]
    pad = "\n" + " " * inner
    return flat[0] + pad + f",{pad}".join(parts) + "\n" + " " * depth + flat[-1]


def price_rule(policy: str | Policy) -> PriceRule:
    """The rule that a plan is fitted for; one that says more than rounds and zone, or another policy, is refused."""
    rule = policies().accept(policy)
    if not isinstance(rule, PriceRule) or rule != PriceRule(rule.rounds, zone=rule.zone):
        raise InputError(f"a plan is fitted for price:rounds=N,zone=X, of which either may be left out; got {policy}.")
    return rule


def fit_plan(
    pool: Pool | LabelledPool,
    mean_budget: float,
    rounds: int = 3,
    *,
    cap: int = MAX_TRACES,
    zone: float = 0.0,
    answer: str | None = None,
    seed: int = 0,
) -> StreamPlan:
    """The plan for a stream of questions like those of ``pool``; no gold is needed.

    ``answer`` is how the recorded answers are read: by default the pool's own kind, else as recorded. ``seed`` orders
    the recorded traces that are played for the price table.

    >>> from pets.pools import PooledQuestion
    >>> pool = Pool("toy", (PooledQuestion("q1", ("A",) * 16), PooledQuestion("q2", ("A", "B", "B", "C") * 4)))
    >>> plan = fit_plan(pool, mean_budget=10, rounds=1)
    >>> [round(share, 2) for share in plan.grid.shares], plan.budget_of(0) < plan.budget_of(3)
    ([0.52, 0.15, 0.1, 0.23, 0.0], True)
    """
    read = pool if isinstance(pool, LabelledPool) else read_answers(pool, answer)
    if rounds < 0 or seed < 0:
        raise InputError(f"rounds and seed are 0 or more; got {rounds} and {seed}.")
    if not K0 <= mean_budget <= cap:
        raise InputError(
            f"a mean budget of {mean_budget:g} traces cannot be planned: the warm-up takes {K0} of each question, and "
            f"the cap is {cap}. Choose one between them, or raise the cap."
        )
    if read.shortest < K0:
        raise InputError(
            f'pool "{read.name}" has a question of {read.shortest} traces; a plan needs {K0} or more of each. '
            "Sample more or drop it."
        )
    labels = [question.labels for question in read.questions]
    grid = fit_grid([count_votes(own) for own in labels], len(PATTERNS))
    training = Training(labels, all_tokens(read.questions), read.options, seed=seed)
    rule = PriceRule(rounds=rounds, zone=zone)
    rule = rule.with_prior(training) if rounds == 1 else rule.fit(training)  # certificates need one where no price does
    prices = None if rounds == 1 else rule.table
    budgets = plan_for(grid, mean_budget, K0, cap)
    content = json.dumps([[question.id, question.labels] for question in read.questions]).encode()
    digest, traces = "sha256:" + hashlib.sha256(content).hexdigest()[:16], sum(map(len, labels))
    provenance = Provenance(read.name, len(labels), traces, read.answer, read.options, digest, __version__, seed)
    return StreamPlan(float(mean_budget), rounds, cap, grid, budgets, prices, rule.belief, provenance, zone)
