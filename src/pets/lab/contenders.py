"""Contenders of a replay: a policy in its setting, which makes the result of one repetition.

- *offline*: an index policy (and uniform) spends all traces of all questions; a point after every trace.
- *waves*: an index policy with waves spends each mean budget anew: what a wave takes depends on the budget.
- *stopping*: a rule that looks at one question alone, a point for each value of its sweep.
- *ranked*: a swept rule that looks at past stops (dsc), questions from the hardest to the easiest.
- *online*: a policy that is given a mean budget; some questions train it, and the others arrive one by one.
- *clock*: a stopping rule, a price rule on questions that arrive, or an index policy over a batch, whose traces race
  (:mod:`pets.lab.clock`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import IndexPolicy, Policy, QuotaPolicy, Training
from pets.core.queues.walk import States, Walk
from pets.core.tally import Tally
from pets.errors import InputError
from pets.lab.clock import HURRIES, MEAN_BUDGET, Finish, RacePace, paced, race_alone, race_arrivals, race_batch
from pets.lab.config import ReplayConfig
from pets.lab.draws import NO_VOTE, Draw, Indices, Outcomes
from pets.lab.labelled import LabelledPool, all_tokens, leader_share
from pets.lab.results import Allocation, Result, Setting, changed_options, name_of, smallest
from pets.registry import policies

RANKING_TRACES = 32


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of the training questions, and of the others in the order of their arrival; ``training`` shows both."""

    train: list[int]
    arrivals: list[int]
    training: Training


def split(pool: LabelledPool, config: ReplayConfig, repetition: int) -> Split:
    """The split of one repetition, and the whole recorded pools of its questions; the same for every policy."""
    seeds = config.seeds(pool.name, repetition)
    count = config.train_of(len(pool.questions))
    order: list[int] = np.random.default_rng([*seeds, 1]).permutation(len(pool.questions)).tolist()
    train, arriving = [pool.questions[row] for row in order[:count]], [pool.questions[row] for row in order[count:]]
    training = Training(
        paths=[question.labels for question in train],
        tokens=all_tokens(train),
        options=pool.options,
        arriving={question.id: question.labels for question in arriving},
        seed=(*seeds, 2),
    )
    return Split(order[:count], order[count:], training)


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
        if within := tuple(budget for budget in config.budgets if fewest <= budget <= size):
            return within
        raise InputError(f"{self.name}: no budget between its warm-up of {fewest} and {size} traces per question.")

    def run(self, draw: Draw, config: ReplayConfig, walk: Walk, parts: Split | None) -> Result:
        """The result of one repetition."""
        values = self.at(config, draw.size)
        allocation = self._allocate(draw, config, values, walk, parts)
        rows, outcomes, timing, sizes = allocation.rows, allocation.outcomes, allocation.timing, allocation.sizes
        tokens = None if draw.tokens is None else allocation.totals(draw.tokens)
        return Result(
            pool=draw.pool.name,
            policy=self.name,
            setting=self.setting,
            option=self.option,
            values=values,
            questions=len(rows),
            size=draw.size,
            spent=None if sizes is None else smallest(sizes[:, rows].sum(axis=1)),
            agree=allocation.totals(outcomes.agree),
            good=allocation.totals(outcomes.good),
            correct=allocation.totals(outcomes.correct),
            tokens=tokens if timing is None else smallest(timing.spent),
            judged=np.array([float(draw.judged[rows].sum())]),
            ceiling=allocation.vote[0][rows].mean(keepdims=True),
            good_ceiling=allocation.vote[1][rows].mean(keepdims=True),
            relative=config.reference == "disjoint",
            allocations=(allocation,),
        )

    def _allocate(
        self, draw: Draw, config: ReplayConfig, values: Sequence[float], walk: Walk, parts: Split | None
    ) -> Allocation:
        seed = int(np.random.SeedSequence(config.seeds(draw.pool.name, draw.repetition)).generate_state(1)[0])
        policy, rows = self.policy, list(range(len(draw.paths)))
        if self.trains:
            assert parts is not None
            policy, rows = policy.fit(parts.training), parts.arrivals
        totals = [int((MEAN_BUDGET if self.option == "hurry" else value) * len(rows)) for value in values]
        match self.setting:
            case "offline":
                order, policy = batch_order(policy, draw, seed)
                return Allocation.of_order(order, draw, verdict_outcomes(policy, draw))
            case "clock":
                points = zip(values, totals, strict=True)
                runs = [self._race(value, draw, policy, rows, total, walk.states, seed) for value, total in points]
                return Allocation.of_races(runs, draw, rows, batch=self.shares)
            case "waves":
                orders, learned = zip(*(batch_order(policy, draw, seed, total) for total in totals), strict=True)
                sizes = [np.bincount(order, minlength=len(rows)) for order in orders]
                policy = learned[-1]
            case "online":
                assert isinstance(policy, QuotaPolicy)
                sizes = [online_sizes(policy, draw, walk, rows, total, seed) for total in totals]
            case "stopping":
                sizes = [walk.stops(self.rule(value, draw.size)) for value in values]
            case "ranked":
                rows, everything = hardest_first(draw), draw.paths.size
                rules = [self.rule(value, draw.size) for value in values]
                sizes = [online_sizes(rule, draw, walk, rows, everything, seed) for rule in rules]
        return Allocation.of_sizes(sizes, draw, rows, verdict_outcomes(policy, draw))

    def _race(
        self, value: float, draw: Draw, policy: Policy, rows: Sequence[int], total: int, states: States, seed: int
    ) -> list[Finish]:
        pace = RacePace(hurry=value) if self.pace is None else self.pace
        if self.shares:
            return race_batch(policy, draw, pace, total, seed)
        if self.trains:
            assert isinstance(policy, QuotaPolicy)
            return race_arrivals(policy, draw, pace, states, rows, total, seed)
        return race_alone(self.rule(None if self.option == "hurry" else value, draw.size), draw, pace, states)

    def rule(self, value: float | None, size: int) -> QuotaPolicy:
        """The policy at one value of its sweep, capped as it was set, else at the traces there are."""
        assert isinstance(self.policy, QuotaPolicy)
        names = {field.name for field in fields(self.policy)}  # type: ignore[arg-type]
        changes = {self.option: value} if self.option in names and value is not None else {}
        if not self.capped and "cap" in names:
            changes["cap"] = size
        return replace(self.policy, **changes)  # type: ignore[type-var]


def verdict_outcomes(policy: Policy, draw: Draw) -> Outcomes:
    """What the verdicts of a policy are worth after each trace: those of the vote, unless it has verdicts of its own,
    which must not depend on the option that is swept."""
    kind = type(policy)
    if policy.sees != "traces" or (kind.answer is Policy.answer and kind.weights is Policy.weights):
        return draw.outcomes
    rows = []
    for path, ranks in zip(draw.traces.values(), draw.judge.ranks, strict=True):
        answers, confidences = [trace.answer for trace in path], [trace.confidence for trace in path]
        verdicts = (policy.answer(Tally.of(answers[:n], confidences[:n])) for n in range(len(path) + 1))
        rows.append([NO_VOTE if verdict is None else ranks[verdict] for verdict in verdicts])
    return draw.judge.score(np.array(rows, dtype=np.int32))


def contenders(policies: Sequence[str | Policy], *, clock: bool = False) -> list[Contender]:
    """What to run for these policies, each an object or a spec: an option that was set is not swept, and uniform also
    runs online, if another does. ``clock``: their traces race."""
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


def _contender(choice: str | Policy) -> Contender:
    policy, name = policies().accept(choice), name_of(choice)
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
        options = set(changed_options(policy))
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
    """Rows by the leader's share of the votes, lowest first.

    The votes are those of up to 32 traces that are neither drawn nor part of the target, as a ranking made beforehand
    would have it; where nothing else was recorded, those of the traces drawn (which flatters the policy).
    """
    shares = []
    for question, spare, path in zip(draw.pool.questions, draw.spare, draw.paths, strict=True):
        traces = (spare if spare.size else path)[:RANKING_TRACES].tolist()
        shares.append(leader_share(question.labels[j] for j in traces))
    ranking: list[int] = np.argsort(shares, kind="stable").tolist()
    return ranking


def batch_order(policy: Policy, draw: Draw, seed: int, total: int | None = None) -> tuple[Indices, Policy]:
    """The question of each trace when all are there at once, and ``total`` (by default all) may be spent; and the
    policy as it has learned in the end.

    An index policy's next step does not depend on the budget: every prefix is the run of a smaller one. With waves it
    does, and each wave comes after the last is back. A blind policy is asked for everything at once.
    """
    total = draw.paths.size if total is None else total
    allocator = Allocator(policy, Budget(total, draw.size), draw.questions(), seed=seed)
    rows = {question.id: row for row, question in enumerate(draw.pool.questions)}
    served: list[int] = []
    width = total if policy.blind or policy.waves else 1
    while launches := allocator.ask(width):
        for id, number in launches:
            allocator.tell(draw.traces[id][number])
            served.append(rows[id])
    return np.array(served, dtype=np.int64), allocator.policy


def stream_sizes(policy: Policy, draw: Draw, arrivals: Sequence[int], total: int, seed: int) -> Indices:
    """Traces of each question when they arrive one by one, each after the last has stopped; as ``arrivals`` lists."""
    size = draw.size
    allocator = Allocator(policy, Budget(total, size), horizon=len(arrivals), seed=seed)
    sizes = np.zeros(len(arrivals), dtype=np.int64)
    for position, question in enumerate(draw.questions(arrivals)):
        allocator.add(question)
        while launches := allocator.ask(size):
            for id, number in launches:
                allocator.tell(draw.traces[id][number])
            sizes[position] += len(launches)
    return sizes


def online_sizes(
    policy: QuotaPolicy, draw: Draw, walk: Walk, arrivals: Sequence[int], total: int, seed: int
) -> Indices:
    """What :func:`stream_sizes` finds, by the fast path over ``walk`` where the policy learns nothing on its way."""
    if policy.learns or policy.sees == "traces" or policy.warmup * len(arrivals) > total:
        return stream_sizes(policy, draw, arrivals, total, seed)
    return walk.arrivals(policy, arrivals, total, seed)
