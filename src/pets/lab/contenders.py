"""Which policies run, and as what: one policy -> the runs of one repetition.

- *offline*: an index policy (and uniform) spends all traces of all questions; a point after every trace.
- *waves*: an index policy with waves spends each mean budget anew: what a wave takes depends on the budget.
- *stopping*: a rule that looks at one question alone, a point for each value of its sweep.
- *ranked*: a swept rule that looks at past stops (dsc), questions from the hardest to the easiest.
- *online*: a policy that is given a mean budget; by the paper's split some questions train it, and the others arrive
  one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Literal

import numpy as np

from pets.core.policy import IndexPolicy, Policy, QuotaPolicy, Training
from pets.core.queues.walk import Walk
from pets.core.tally import Tally
from pets.errors import InputError
from pets.lab.config import ReplayConfig
from pets.lab.curves import Curve, curve_of_order, curve_of_sizes
from pets.lab.draws import NOBODY, Draw, Outcomes
from pets.lab.drivers import batch_order, online_sizes, wave_sizes
from pets.lab.labelled import LabelledPool
from pets.registry import as_policy, spec_of

__all__ = ["Contender", "Setting", "Split", "contenders", "name_of", "split"]

Setting = Literal["offline", "waves", "stopping", "ranked", "online"]

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
        tokens = [question.tokens for question in training if question.tokens is not None]
        arriving = (self.pool.questions[row] for row in self.arrivals)
        return Training(
            paths=[question.labels for question in training],
            tokens=tokens if len(tokens) == len(training) else None,
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

    ``capped``: its cap was set, and counts; else the traces there are take the place of its default.
    """

    name: str
    policy: Policy
    setting: Setting
    option: str | None = None
    values: tuple[float, ...] = ()
    capped: bool = False

    def at(self, config: ReplayConfig, size: int) -> tuple[float, ...]:
        """The values to run in a pool with ``size`` traces per question."""
        if self.setting not in ("online", "waves"):
            return self.values
        fewest = max(1, self.policy.warmup)
        within = tuple(budget for budget in config.budgets if fewest <= budget <= size)
        if not within:
            raise InputError(f"{self.name}: no budget between its warm-up of {fewest} and {size} traces per question.")
        return within

    def run(self, draw: Draw, config: ReplayConfig, walk: Walk, parts: Split | None) -> Curve:
        """The curve of one repetition."""
        seed = int(np.random.SeedSequence(config.seeds(draw.pool.name, draw.repetition)).generate_state(1)[0])
        if self.setting == "offline":
            order, learned = batch_order(self.policy, draw, seed)
            return curve_of_order(order, draw, own_outcomes(learned, draw))
        if self.setting == "waves":
            everyone = range(len(draw.paths))
            totals = [int(budget * len(everyone)) for budget in self.at(config, draw.size)]
            runs = [wave_sizes(self.policy, draw, everyone, total, seed) for total in totals]
            learned = runs[-1][1]
            return curve_of_sizes(np.array([sizes for sizes, _ in runs]), draw, outcomes=own_outcomes(learned, draw))
        if self.setting == "online":
            assert parts is not None
            return _online(self, draw, config, walk, parts, seed)
        rules = [self.rule(value, draw.size) for value in self.values or (None,)]
        if self.setting == "stopping":
            sizes = np.array([walk.stops(rule) for rule in rules])
            return curve_of_sizes(sizes, draw, outcomes=own_outcomes(self.policy, draw))
        ranking = hardest_first(draw)
        sizes = np.array([online_sizes(rule, draw, walk, ranking, draw.paths.size, seed) for rule in rules])
        return curve_of_sizes(sizes, draw, np.array(ranking))

    def rule(self, value: float | None, size: int) -> QuotaPolicy:
        """The policy at one value of its sweep, capped as it was set, else at the traces there are."""
        assert isinstance(self.policy, QuotaPolicy)
        changes: dict[str, float] = {} if value is None or self.option is None else {self.option: value}
        if not self.capped and any(field.name == "cap" for field in fields(self.policy)):  # type: ignore[arg-type]
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
        rows.append([NOBODY if verdict is None else ranks[verdict] for verdict in verdicts])
    return draw.judge.score(np.array(rows, dtype=np.int32))


def contenders(policies: Sequence[str | Policy]) -> list[Contender]:
    """What to run for these policies, each given as an object or a spec.

    An option that was set is not swept. Uniform also runs online, if another does.
    """
    by_name: dict[str, Contender] = {}
    for policy in policies:
        contender = _contender(policy)
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
    spec = spec_of(policy)
    if spec is not None:
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
    options = _options_set(choice, policy)
    capped = "cap" in options
    if policy.sweep is None:
        return Contender(name, policy, setting, capped=capped)
    option, values = policy.sweep
    return Contender(name, policy, setting, option, (getattr(policy, option),) if option in options else values, capped)


def _options_set(choice: str | Policy, policy: Policy) -> set[str]:
    """The options that a spec names, or those of an object that are not their defaults."""
    if isinstance(choice, str):
        return {part.partition("=")[0] for part in choice.partition(":")[2].split(",")}
    return set(_told(policy))


def _online(contender: Contender, draw: Draw, config: ReplayConfig, walk: Walk, parts: Split, seed: int) -> Curve:
    policy = contender.policy.fit(parts.training())
    assert isinstance(policy, QuotaPolicy)
    arrivals = parts.arrivals
    totals = [int(budget * len(arrivals)) for budget in contender.at(config, draw.size)]
    sizes = [online_sizes(policy, draw, walk, arrivals, total, seed) for total in totals]
    return curve_of_sizes(np.array(sizes), draw, np.array(arrivals))


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
