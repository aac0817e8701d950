"""Contenders of a replay: a policy in its setting, which makes the curve of one repetition.

- *offline*: an index policy (and uniform) spends all traces of all questions; a point after every trace.
- *waves*: an index policy with waves spends each mean budget anew: what a wave takes depends on the budget.
- *stopping*: a rule that looks at one question alone, a point for each value of its sweep.
- *ranked*: a swept rule that looks at past stops (dsc), questions from the hardest to the easiest.
- *online*: a policy that is given a mean budget; by the paper's split some questions train it, and the others arrive
  one by one.
- *clock*: a stopping rule, a price rule on questions that arrive, or an index policy over a batch, whose traces race
  (:mod:`pets.lab.clock`).

Below them are the drivers of recorded traces: the allocator of live runs, and the fast path of quota policies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import IndexPolicy, Policy, QuotaPolicy, Training
from pets.core.queues.walk import Walk
from pets.core.tally import Tally
from pets.errors import InputError
from pets.lab.clock import HURRIES, MEAN_BUDGET, Finish, RacePace, paced, race_alone, race_arrivals, race_batch
from pets.lab.config import ReplayConfig
from pets.lab.curves import Curve, curve_of_order, curve_of_races, curve_of_sizes
from pets.lab.draws import NO_VOTE, Draw, Outcomes
from pets.lab.labelled import LabelledPool, all_tokens
from pets.registry import as_policy, spec_of

Setting = Literal["offline", "waves", "stopping", "ranked", "online", "clock"]
Sizes = NDArray[np.int64]

RANKING_TRACES = 32


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of the training questions, and of the others in the order of their arrival."""

    pool: LabelledPool
    train: tuple[int, ...]
    arrivals: tuple[int, ...]
    seeds: tuple[int, ...]

    def training(self) -> Training:
        """The whole recorded pools of the training questions; the same for every policy of the repetition."""
        training = [self.pool.questions[row] for row in self.train]
        arriving = (self.pool.questions[row] for row in self.arrivals)
        return Training(
            paths=[question.labels for question in training],
            tokens=all_tokens(training),
            options=self.pool.options,
            arriving={question.id: question.labels for question in arriving},
            seed=(*self.seeds, 2),
        )


def split(pool: LabelledPool, config: ReplayConfig, repetition: int) -> Split:
    """The split of one repetition; the same for every policy."""
    seeds = config.seeds(pool.name, repetition)
    train = config.train_of(len(pool.questions))
    order = np.random.default_rng([*seeds, 1]).permutation(len(pool.questions)).tolist()
    return Split(pool, tuple(order[:train]), tuple(order[train:]), tuple(seeds))


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy and its name, the setting that it runs in, and the option swept (``None``: every trace).

    ``capped``: its cap was set, and counts; else the traces there are take the place of its default. ``pace``: how its
    traces race on the clock; over HURRIES where it has none of its own.
    """

    name: str
    policy: Policy
    setting: Setting
    option: str | None = None
    values: tuple[float, ...] = ()
    capped: bool = False
    pace: RacePace | None = None

    @property
    def trains(self) -> bool:
        """Whether some questions train it, and the others arrive one by one."""
        return self.setting == "online" or (self.setting == "clock" and not self.policy.solitary and not self.shares)

    @property
    def shares(self) -> bool:
        """Whether its questions are all there and share one budget."""
        return isinstance(self.policy, IndexPolicy) or self.policy.blind

    def at(self, config: ReplayConfig, size: int) -> tuple[float, ...]:
        """The values to run in a pool with ``size`` traces per question."""
        if self.option != "budget":
            return self.values
        fewest = max(1, self.policy.warmup)
        within = tuple(budget for budget in config.budgets if fewest <= budget <= size)
        if not within:
            raise InputError(f"{self.name}: no budget between its warm-up of {fewest} and {size} traces per question.")
        return within

    def run(self, draw: Draw, config: ReplayConfig, walk: Walk, parts: Split | None) -> Curve:
        """The curve of one repetition."""
        seed = int(np.random.SeedSequence(config.seeds(draw.pool.name, draw.repetition)).generate_state(1)[0])
        rows: Sequence[int]
        match self.setting:
            case "offline":
                order, learned = batch_order(self.policy, draw, seed)
                return curve_of_order(order, draw, own_outcomes(learned, draw))
            case "waves":
                rows = range(len(draw.paths))
                runs = [wave_sizes(self.policy, draw, rows, total, seed) for total in self._totals(config, draw, rows)]
                outcomes = own_outcomes(runs[-1][1], draw)
                return curve_of_sizes(np.array([sizes for sizes, _ in runs]), draw, outcomes=outcomes)
            case "online":
                assert parts is not None
                policy, rows = self.policy.fit(parts.training()), parts.arrivals
                assert isinstance(policy, QuotaPolicy)
                totals = self._totals(config, draw, rows)
                sizes = [online_sizes(policy, draw, walk, rows, total, seed) for total in totals]
                return curve_of_sizes(np.array(sizes), draw, np.array(rows))
            case "stopping":
                sizes = [walk.stops(rule) for rule in self._rules(draw)]
                return curve_of_sizes(np.array(sizes), draw, outcomes=own_outcomes(self.policy, draw))
            case "ranked":
                rows = hardest_first(draw)
                sizes = [online_sizes(rule, draw, walk, rows, draw.paths.size, seed) for rule in self._rules(draw)]
                return curve_of_sizes(np.array(sizes), draw, np.array(rows))
            case "clock":
                return self._on_the_clock(draw, config, walk, parts, seed)

    def _on_the_clock(self, draw: Draw, config: ReplayConfig, walk: Walk, parts: Split | None, seed: int) -> Curve:
        """The races of every question, at each point of the sweep."""
        values, swept = self.at(config, draw.size), self.option == "hurry"
        paces = [RacePace(hurry=value) if self.pace is None else self.pace for value in values]
        runs: list[list[Finish]] = []
        if self.shares:
            for value, pace in zip(values, paces, strict=True):
                total = int((MEAN_BUDGET if swept else value) * len(draw.paths))
                runs.append(race_batch(self.policy, draw, pace, total, seed))
            return curve_of_races(runs, draw, batch=True)
        if not self.trains:
            for value, pace in zip(values, paces, strict=True):
                runs.append(race_alone(self.rule(None if swept else value, draw.size), draw, pace, walk.states))
            return curve_of_races(runs, draw)
        assert parts is not None
        policy, rows = self.policy.fit(parts.training()), parts.arrivals
        assert isinstance(policy, QuotaPolicy)
        for value, pace in zip(values, paces, strict=True):
            total = int((MEAN_BUDGET if swept else value) * len(rows))
            runs.append(race_arrivals(policy, draw, pace, walk.states, rows, total, seed))
        return curve_of_races(runs, draw, rows)

    def _totals(self, config: ReplayConfig, draw: Draw, rows: Sequence[int]) -> list[int]:
        return [int(budget * len(rows)) for budget in self.at(config, draw.size)]

    def _rules(self, draw: Draw) -> list[QuotaPolicy]:
        return [self.rule(value, draw.size) for value in self.values or (None,)]

    def rule(self, value: float | None, size: int) -> QuotaPolicy:
        """The policy at one value of its sweep, capped as it was set, else at the traces there are."""
        assert isinstance(self.policy, QuotaPolicy)
        names = {field.name for field in fields(self.policy)}  # type: ignore[arg-type]
        changes = {self.option: value} if self.option in names and value is not None else {}
        if not self.capped and "cap" in names:
            changes["cap"] = size
        return replace(self.policy, **changes)  # type: ignore[type-var]


def own_outcomes(policy: Policy, draw: Draw) -> Outcomes | None:
    """What the verdicts of a policy with one of its own are worth after each trace; ``None``: the vote is its verdict.

    What is served is what is scored. The verdict on given traces must not depend on the option that is swept.
    """
    kind = type(policy)
    if policy.sees != "traces" or (kind.answer is Policy.answer and kind.weights is Policy.weights):
        return None
    rows = []
    for path, ranks in zip(draw.traces.values(), draw.judge.ranks, strict=True):
        answers, confidences = [trace.answer for trace in path], [trace.confidence for trace in path]
        verdicts = (policy.answer(Tally.of(answers[:n], confidences[:n])) for n in range(len(path) + 1))
        rows.append([NO_VOTE if verdict is None else ranks[verdict] for verdict in verdicts])
    return draw.judge.score(np.array(rows, dtype=np.int32))


def contenders(policies: Sequence[str | Policy], *, clock: bool = False) -> list[Contender]:
    """What to run for these policies, each given as an object or a spec; ``clock``: their traces race.

    An option that was set is not swept. Uniform also runs online, if another does.
    """
    by_name: dict[str, Contender] = {}
    for policy in policies:
        contender = _racing(policy) if clock else _contender(policy)
        if by_name.setdefault(contender.name, contender).policy != contender.policy:
            raise InputError(f"two policies that differ are both called {contender.name}; give them options that tell.")
    if not by_name:
        raise InputError("a replay needs at least one policy.")
    online = any(contender.setting == "online" for contender in by_name.values())
    floors = [Contender(c.name, c.policy, "online", "budget") for c in by_name.values() if online and c.policy.blind]
    return [*by_name.values(), *floors]


def name_of(policy: str | Policy) -> str:
    """What results call a policy: its spec, or where no spec makes it, its class and its plain options.

    >>> from pets.policies.okg import OKG
    >>> name_of("okg:prior=1"), name_of(OKG(lengths=False)), name_of(OKG(edges=(100.0,), shares=((1.0,), (1.0,))))
    ('okg:prior=1', 'okg:lengths=false', 'OKG(...)')
    """
    if isinstance(policy, str):
        return policy
    if (spec := spec_of(policy)) is not None:
        return spec
    options = _told(policy)
    plain = [f"{key}={value}" for key, value in options.items() if isinstance(value, int | float | str)]
    return f"{type(policy).__name__}({', '.join(plain if len(plain) == len(options) else [*plain, '...'])})"


def _told(policy: Policy) -> Mapping[str, object]:
    """The options of an object that are not their defaults."""
    if not is_dataclass(policy):
        return {}
    return {
        field.name: getattr(policy, field.name)
        for field in fields(policy)
        if getattr(policy, field.name) != field.default
    }


def _contender(choice: str | Policy) -> Contender:
    policy, name = as_policy(choice), name_of(choice)
    if policy.waves:
        return Contender(name, policy, "waves", "budget")
    if isinstance(policy, IndexPolicy) or policy.blind:
        return Contender(name, policy, "offline")
    if policy.sweep is None and not policy.solitary:
        return Contender(name, policy, "online", "budget")
    setting: Setting = "stopping" if policy.solitary else "ranked"
    if isinstance(choice, str):
        options = {part.partition("=")[0] for part in choice.partition(":")[2].split(",")}
    else:
        options = set(_told(policy))
    option, values = policy.sweep or ("rule", (1.0,))  # one point where nothing is swept
    if option in options:
        values = (getattr(policy, option),)
    return Contender(name, policy, setting, option, values, "cap" in options)


def _racing(choice: str | Policy) -> Contender:
    """A contender on the clock: over HURRIES, or at its own pace (a price rule then over mean budgets)."""
    base, pace = paced(choice) if isinstance(choice, str) else (choice, None)
    contender, name = _contender(base), choice if isinstance(choice, str) else name_of(choice)
    policy = contender.policy
    if contender.setting == "ranked":
        raise InputError(
            f"{name} looks at the questions before; on the clock they race beside each other. Take a stopping rule "
            "(asc, lead, boinf), price, okg, or a rival: all:32, its_beta, short_m:8/16."
        )
    if contender.shares:
        if pace is not None and pace.batch:
            raise InputError(f"{name}: questions that share a budget have no batch= of their own; say waves=.")
        contender = replace(contender, option="budget")
    elif isinstance(policy, QuotaPolicy) and policy.rounds:
        pace = RacePace(batch=1.0) if pace is None else replace(pace, batch=pace.batch or 1.0)
    contender = replace(contender, name=name, setting="clock", pace=pace)
    if pace is None:
        return replace(contender, option="hurry", values=HURRIES)
    option = contender.option or ""
    return replace(contender, values=(getattr(policy, option),)) if hasattr(policy, option) else contender


def hardest_first(draw: Draw) -> list[int]:
    """Rows by the leader's share of the votes, lowest first, no vote at all before any.

    The votes are those of up to 32 traces that are neither drawn nor part of the target, as a ranking made beforehand
    would have it; where nothing else was recorded, those of the traces drawn (which flatters the policy).
    """
    shares = []
    for row, question in enumerate(draw.pool.questions):
        looked_at = draw.spare[row][:RANKING_TRACES].tolist() or draw.paths[row][:RANKING_TRACES].tolist()
        labels = [label for j in looked_at if (label := question.labels[j]) is not None]
        shares.append(max(map(labels.count, set(labels)), default=0) / max(1, len(labels)))
    ranking: list[int] = np.argsort(shares, kind="stable").tolist()
    return ranking


def batch_order(policy: Policy, draw: Draw, seed: int) -> tuple[Sizes, Policy]:
    """The question of each trace when the policy may spend everything and all questions are there at once.

    With it comes the policy as it has learned in the end.

    Since an index policy's next step does not depend on the budget, every prefix is the run of a smaller one (with
    waves it does: :func:`wave_sizes`). A blind policy is asked for everything at once.
    """
    allocator = Allocator(policy, Budget(draw.paths.size, draw.size), draw.questions(), seed=seed)
    ask, tell, traces = allocator.ask, allocator.tell, draw.traces
    served: list[str] = []
    note = served.append
    width = draw.paths.size if policy.blind else 1
    while launches := ask(width):
        for id, number in launches:
            tell(traces[id][number])
            note(id)
    rows = {question.id: row for row, question in enumerate(draw.pool.questions)}
    return np.fromiter(map(rows.__getitem__, served), dtype=np.int64, count=len(served)), allocator.policy


def wave_sizes(policy: Policy, draw: Draw, rows: Sequence[int], total: int, seed: int) -> tuple[Sizes, Policy]:
    """Traces of each question in ``rows`` when the policy spends ``total`` in waves, each after the last is back.

    With them comes the policy as it has learned in the end.
    """
    allocator = Allocator(policy, Budget(total, draw.size), draw.questions(rows), seed=seed)
    while launches := allocator.ask(total):
        for id, number in launches:
            allocator.tell(draw.traces[id][number])
    return np.array([verdict.traces for verdict in allocator.verdicts()], dtype=np.int64), allocator.policy


def stream_sizes(policy: Policy, draw: Draw, arrivals: Sequence[int], total: int, seed: int) -> Sizes:
    """Traces of each question when they arrive one by one, each after the last has stopped; as ``arrivals`` lists."""
    size = draw.size
    allocator = Allocator(policy, Budget(total, size), horizon=len(arrivals), seed=seed)
    ask, tell = allocator.ask, allocator.tell
    sizes = []
    for question in draw.questions(arrivals):
        allocator.add(question)
        path = draw.traces[question.id]
        size_so_far = 0
        while launches := ask(size):
            for launch in launches:
                tell(path[launch.number])
            size_so_far += len(launches)
        sizes.append(size_so_far)
    return np.array(sizes, dtype=np.int64)


def online_sizes(policy: QuotaPolicy, draw: Draw, walk: Walk, arrivals: Sequence[int], total: int, seed: int) -> Sizes:
    """What :func:`stream_sizes` finds, by the fast path over ``walk``.

    A policy that learns on its way or sees whole traces is left to the allocator, and so is a budget that it refuses.
    """
    if policy.learns or policy.sees == "traces" or policy.warmup * len(arrivals) > total:
        return stream_sizes(policy, draw, arrivals, total, seed)
    return walk.arrivals(policy, arrivals, total, seed)
