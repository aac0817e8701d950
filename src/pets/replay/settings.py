"""What each kind of policy is run as: one spec -> the runs of one repetition.

- *offline*: an index policy (and uniform) spends all traces of all questions; a point after every trace.
- *stopping*: a rule that looks at one question alone, a point for each value of its sweep.
- *ranked*: a swept rule that looks at past stops (dsc), questions from the hardest to the easiest.
- *online*: a policy that is given a mean budget; some questions train it, the others arrive one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from pets.core.policy import IndexPolicy, Policy, QuotaPolicy
from pets.errors import InputError
from pets.policies.uniform import Uniform
from pets.registry import make_policy
from pets.replay.draws import Draw
from pets.replay.lines import Line, line_of_order, line_of_sizes
from pets.replay.protocol import Protocol
from pets.replay.runs import batch_order, uniform_order, uniform_sizes
from pets.replay.stopping import States, stop_sizes
from pets.replay.streams import Prefixes, walked_sizes
from pets.replay.training import Split, fitted

__all__ = ["Contender", "Setting", "contenders"]

Setting = Literal["offline", "stopping", "ranked", "online"]

RANKING_TRACES = 32


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy as it was asked for, the setting that it runs in, and the option swept (``None``: every trace)."""

    spec: str
    policy: Policy
    setting: Setting
    option: str | None = None
    values: tuple[float, ...] = ()

    def at(self, protocol: Protocol, size: int) -> tuple[float, ...]:
        """The values to run in a pool with ``size`` traces a question."""
        if self.setting != "online":
            return self.values
        fewest = max(1, self.policy.warmup)
        within = tuple(budget for budget in protocol.budgets if fewest <= budget <= size)
        if not within:
            raise InputError(f"{self.spec}: no budget between its warm-up of {fewest} and {size} traces a question.")
        return within

    def run(self, drawn: Draw, protocol: Protocol, states: States, parts: Split | None) -> Line:
        """The line of one repetition."""
        seed = int(np.random.SeedSequence(protocol.seeds(drawn.pool.name, drawn.repetition)).generate_state(1)[0])
        if self.setting == "offline":
            unseeing = isinstance(self.policy, Uniform)
            return line_of_order(uniform_order(drawn) if unseeing else batch_order(self.policy, drawn, seed), drawn)
        if self.setting == "online":
            assert parts is not None
            return _online(self, drawn, protocol, states, parts, seed)
        rules = [self.rule(value, drawn.size) for value in self.values or (None,)]
        if self.setting == "stopping":
            return line_of_sizes(np.array([stop_sizes(rule, drawn, states) for rule in rules]), drawn)
        ranking, prefixes = hardest_first(drawn), Prefixes(drawn, states)
        sizes = np.array([walked_sizes(rule, prefixes, ranking, drawn.paths.size, seed) for rule in rules])
        return line_of_sizes(sizes, drawn, np.array(ranking))

    def rule(self, value: float | None, size: int) -> QuotaPolicy:
        """The policy at one value of its sweep, capped at the traces there are."""
        assert isinstance(self.policy, QuotaPolicy)
        changes: dict[str, float] = {} if value is None or self.option is None else {self.option: value}
        if any(field.name == "cap" for field in fields(self.policy)):  # type: ignore[arg-type]
            changes["cap"] = size
        return replace(self.policy, **changes)  # type: ignore[type-var]


def contenders(specs: Sequence[str]) -> list[Contender]:
    """What to run for these specs. An option that a spec sets is not swept; uniform also runs online among others."""
    chosen = [_contender(spec, make_policy(spec)) for spec in dict.fromkeys(specs)]
    if not chosen:
        raise InputError("a replay needs at least one policy.")
    if any(contender.setting == "online" for contender in chosen):
        floors = [Contender(c.spec, c.policy, "online", "budget") for c in chosen if isinstance(c.policy, Uniform)]
        chosen += floors
    return chosen


def _contender(spec: str, policy: Policy) -> Contender:
    if isinstance(policy, IndexPolicy | Uniform):
        return Contender(spec, policy, "offline")
    if policy.sweep is None and not policy.solitary:
        return Contender(spec, policy, "online", "budget")
    setting: Setting = "stopping" if policy.solitary else "ranked"
    if policy.sweep is None:
        return Contender(spec, policy, setting)
    option, values = policy.sweep
    if any(part.startswith(f"{option}=") for part in spec.partition(":")[2].split(",")):
        values = (getattr(policy, option),)
    return Contender(spec, policy, setting, option, values)


def _online(contender: Contender, drawn: Draw, protocol: Protocol, states: States, parts: Split, seed: int) -> Line:
    policy = fitted(contender.policy, parts)
    arrivals = parts.arrivals
    totals = [int(budget * len(arrivals)) for budget in contender.at(protocol, drawn.size)]
    if isinstance(policy, Uniform):
        sizes = [uniform_sizes(policy, len(arrivals), total, drawn.size) for total in totals]
    else:
        prefixes = Prefixes(drawn, states)
        sizes = [walked_sizes(policy, prefixes, arrivals, total, seed) for total in totals]
    return line_of_sizes(np.array(sizes), drawn, np.array(arrivals))


def hardest_first(drawn: Draw) -> list[int]:
    """Rows by the leader's share of the votes, lowest first, no vote at all before any.

    The votes are those of up to 32 traces that are neither drawn nor part of the target, as a ranking made beforehand
    would have it; where nothing else was recorded, those of the traces drawn (which flatters the policy).
    """
    shares = []
    for row, question in enumerate(drawn.pool.questions):
        looked_at = drawn.spare[row][:RANKING_TRACES].tolist() or drawn.paths[row][:RANKING_TRACES].tolist()
        labels = [label for j in looked_at if (label := question.labels[j]) is not None]
        shares.append(max(map(labels.count, set(labels)), default=0) / max(1, len(labels)))
    ranking: list[int] = np.argsort(shares, kind="stable").tolist()
    return ranking
