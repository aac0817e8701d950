r"""Soft votes: where a trace tells what else it might have said, it is worth more than one vote.

At the token that decides a trace's answer a server reports the probabilities D(w) of the tokens w that might have stood
there. The traces of a question that said w tell which answers follow it, so its answers have the shares

    p(y) = sum_w D(w) n_{w,y} / n_w,        n_{w,y} of the n_w traces that said w answer y,

post-stratification by the deciding token (Cochran, *Sampling Techniques*, 5A.9). A token that no trace said stands for
the answer that it spells, as if one trace had said so. With U = 1 - |theta|^2 the squared error of a single vote for
the true shares theta, p and the plain shares e(y) of n traces have the errors

    E|p - theta|^2 = U (r + beta),   r = psi / n + sum_w phi_w D(w)^2 / n_w,        E|e - theta|^2 = U / n,

where psi is the part of U by which D differs from trace to trace, phi_w the part that is left among the traces that
said w, and beta the bias of p: a server may report other probabilities than it samples from. Their noise is shared,
E(p - theta)·(e - theta) = U r, so the mixture of least error and the number of plain votes that it is worth are

    q = lambda p + (1 - lambda) e,  lambda = (1/n - r) / (1/n - r + beta),  N = (1/n - r + beta) / ((r + beta)/n - r²).

**The worth is learned from the batch.** psi is the variance of D among a question's traces. phi has one value for
tokens that spell the answers of their traces, one for other tokens and one for tokens that no trace said: the
disagreement of two traces that said the same, over that of any two traces of the question. beta is the posterior mean
of what is left of the error of half a question's traces, held against the other half. Where every trace is sure of its
own answer when its token comes, psi is 1; where tokens tell nothing of the answers, phi is 1: then N is n. Where p is
biased, q goes to e as n grows. N is whole votes, by largest remainder, so that every policy and certificate takes them.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from pets.core.policy import Policy
from pets.core.record import Record, VoteCount
from pets.errors import InputError
from pets.types import SoftVote, Trace

MIN_QUESTIONS = 8  # with two votes or more, before a soft vote is worth more than a plain one
MAX_WORTH = 64.0  # votes of one trace, however well tokens and answers agree
SMALLEST_SHARE = 1e-4  # of a token that a trace said, whatever its probability
PRIOR_PAIRS = 2.0  # questions by which phi is shrunk to 1
WORTH_GROWTH = 1.1  # of the traces told, after which the worth of soft votes is learned again
PAST_QUESTIONS = 4096  # questions withdrawn that the worth is still learned from

Ballot = tuple[str, SoftVote]
"""A trace's answer, and what it might have said."""


@dataclass(frozen=True, slots=True)
class SoftWorth:
    """What soft votes are worth: phi of tokens that ``spell`` their answers, of ``other`` and ``unsaid`` ones, psi
    (``spread``) and beta (``bias``). By default nothing is known, and a soft vote is a plain one."""

    spell: float = 1.0
    other: float = 1.0
    unsaid: float = 1.0
    spread: float = 1.0
    bias: float = math.inf

    @property
    def is_learned(self) -> bool:
        """Whether a batch has told anything of it."""
        return math.isfinite(self.bias)

    def mixture(self, n: int, r: float) -> tuple[float, float]:
        """lambda and N of n traces.

        >>> SoftWorth().mixture(3, 0.1), SoftWorth(bias=0.0).mixture(4, 0.05)
        ((0.0, 3.0), (1.0, 20.0))
        """
        gain = 1.0 / n - r
        if gain <= 1e-12 or not self.is_learned:
            return 0.0, float(n)
        error = (r + self.bias) / n - r * r
        votes = (gain + self.bias) / error if error > 0.0 else math.inf
        return gain / (gain + self.bias), min(MAX_WORTH * n, max(float(n), votes))


class _Strata:
    """The traces of one question by the token that they said."""

    __slots__ = ("answers", "mass", "n")

    def __init__(self, ballots: Sequence[Ballot]) -> None:
        self.n = len(ballots)
        self.mass: dict[str, float] = {}  # D of each token, over the traces
        self.answers: dict[str, Counter[str]] = {}  # of the traces that said it
        for answer, soft in ballots:
            self.answers.setdefault(soft.token, Counter())[answer] += 1
            self.mass.setdefault(soft.token, SMALLEST_SHARE)
            for token, share in soft.shares:
                self.mass[token] = self.mass.get(token, 0.0) + share
        mass = {token: share for token, share in self.mass.items() if token or token in self.answers}
        total = math.fsum(mass.values())
        self.mass = {token: share / total for token, share in mass.items()}

    def shares(self) -> dict[str, float]:
        """p of the module's equations; tokens that spell nothing and that no trace said are left out."""
        shares: dict[str, float] = {}
        for token, mass in self.mass.items():
            answers = self.answers.get(token) or Counter({token: 1})
            for answer, count in answers.items():
                shares[answer] = shares.get(answer, 0.0) + mass * count / answers.total()
        return shares

    def error(self, worth: SoftWorth) -> float:
        """r of the module's equations."""
        total = worth.spread / self.n
        for token, mass in self.mass.items():
            answers = self.answers.get(token)
            phi = worth.unsaid if answers is None else worth.spell if _spells(token, answers) else worth.other
            total += phi * mass * mass / (1 if answers is None else answers.total())
        return total


@dataclass(frozen=True, slots=True)
class SoftTally:
    """The traces of one question whose votes are soft, in launch order; ``plain`` votes are of those that tell no more.

    >>> tally = SoftTally().add("william shakespeare", SoftVote("william", (("william", 0.8), ("sophocles", 0.2))))
    >>> tally.votes(SoftWorth(spell=0.1, other=0.1, unsaid=0.4, spread=0.0, bias=0.0), options=None)
    {'william shakespeare': 10, 'sophocles': 2}
    """

    ballots: tuple[Ballot, ...] = ()
    plain: Counter[str] = field(default_factory=Counter)

    def add(self, answer: str, soft: SoftVote | None) -> "SoftTally":
        """The tally when a trace with an answer came back."""
        if soft is None:
            return replace(self, plain=self.plain + Counter([answer]))
        return replace(self, ballots=(*self.ballots, (answer, soft)))

    def merge(self, answer: str, into: str) -> "SoftTally":
        """The tally with the votes of one answer given to another."""
        ballots = tuple((into if own == answer else own, soft) for own, soft in self.ballots)
        moved = self.plain[answer]
        return SoftTally(ballots, self.plain - Counter({answer: moved}) + Counter({into: moved}))

    def votes(self, worth: SoftWorth, options: int | None) -> dict[str, int]:
        """Whole votes that the traces count as, the largest share first; of equal ones the first launched. In an open
        set an answer that no trace gave may not lead: a token may be the beginning of something else."""
        counts = Counter(answer for answer, _ in self.ballots)
        if not counts:
            return dict(self.plain.most_common())
        strata = _Strata(self.ballots)
        weight, total = worth.mixture(strata.n, strata.error(worth))
        votes = {answer: total * (1.0 - weight) * count / strata.n for answer, count in counts.items()}
        for answer, share in strata.shares().items() if weight else ():
            votes[answer] = votes.get(answer, 0.0) + total * weight * share
        for answer, count in self.plain.items():
            votes[answer] = votes.get(answer, 0.0) + count
        if options is None:
            answers = counts.keys() | self.plain.keys()
            most = max(votes[answer] for answer in answers)
            votes = {answer: count if answer in answers else min(count, most) for answer, count in votes.items()}
        return _whole(votes, round(total) + self.plain.total())


class SoftRecord(Record):
    """A question whose traces tell what else they might have said; counted at what the batch says they are worth."""

    __slots__ = ("soft", "vote_count")

    def __init__(self, vote_count: "SoftVoteCount", *arguments: Any) -> None:
        super().__init__(*arguments)
        self.soft = SoftTally()
        self.vote_count = vote_count

    def count(self, trace: Trace) -> int:
        before = super().count(trace)
        if trace.answer is not None:
            self.soft = self.soft.add(trace.answer, trace.soft)
            self.recount()
        return before

    def merge(self, answer: str, into: str) -> None:
        self.soft = self.soft.merge(answer, into)
        super().merge(answer, into)

    def recount(self) -> None:
        """Count the votes at what they are worth now."""
        self.votes = self.soft.votes(self.vote_count.worth, self.options)


class SoftVoteCount(VoteCount):
    """Counts several votes for a trace that tells what else it might have said; learns their ``worth`` as they come."""

    alike = False  # hardly two questions have the same soft votes

    def __init__(self) -> None:
        self.worth = SoftWorth()
        """What soft votes are worth, as last learned."""
        self.learn_at = 0.0
        self._records: dict[str, SoftRecord] = {}
        self._past: deque[SoftTally] = deque(maxlen=PAST_QUESTIONS)

    @property
    def is_learned(self) -> bool:
        return self.worth.is_learned

    def check(self, policy: Policy) -> None:
        if policy.sees == "traces":
            raise InputError(f"{policy!r} weighs traces itself; soft votes need a policy of votes, such as okg.")

    def new_record(
        self, id: str, position: int, options: int | None, keep_traces: bool, hurry: float | None = None
    ) -> Record:
        record = self._records[id] = SoftRecord(self, id, position, options, keep_traces, hurry)
        return record

    def learn(self, told: int) -> Iterable[Record]:
        self.learn_at = WORTH_GROWTH * told
        records = self._records.values()
        self.worth = learn_worth([*self._past, *(record.soft for record in records)])
        for record in records:
            record.recount()
        return records

    def per_trace(self) -> float | None:
        records = self._records.values()
        if not any(record.soft.ballots for record in records):
            return None
        return sum(sum(record.votes.values()) for record in records) / sum(r.returned - r.nulls for r in records)

    def withdraw(self, record: Record) -> None:
        self._past.append(self._records.pop(record.id).soft)


def learn_worth(tallies: Iterable[SoftTally]) -> SoftWorth:
    """The worth of soft votes on the questions of a batch that have two votes or more.

    >>> sure = SoftVote("A", (("A", 1.0),))
    >>> learn_worth([SoftTally([("A", sure), ("A", sure)])] * 20).mixture(1, 0.0)
    (0.0, 1.0)
    """
    several = [tally.ballots for tally in tallies if len(tally.ballots) > 1]
    if len(several) < MIN_QUESTIONS:
        return SoftWorth()
    sums = np.full((3, 2), PRIOR_PAIRS)  # (spell, other, unsaid) x (disagreement among traces that said the same, U)
    for ballots in several:  # disagreement within tokens, each at its probability, beside that of any two traces
        strata, plain = _Strata(ballots), _disagreement(Counter(answer for answer, _ in ballots))
        for token, answers in strata.answers.items():
            mass, many = strata.mass[token], answers.total()
            if many > 1:
                row = 0 if _spells(token, answers) else 1
                sums[row] += mass * _disagreement(answers), mass * plain
                if token:  # |what it spells - what follows|^2
                    sums[2] += mass * (2.0 - 2.0 * answers[token] / many - _disagreement(answers)), mass * plain
    spell, other, unsaid = np.minimum(1.0, sums[:, 0] / sums[:, 1]).tolist()
    plain = math.fsum(_disagreement(Counter(answer for answer, _ in ballots)) for ballots in several)
    if plain <= 0.0:
        return SoftWorth()
    spread = math.fsum(_variance([soft for _, soft in ballots]) for ballots in several) / plain
    worth = SoftWorth(spell, other, unsaid, min(1.0, spread), 0.0)
    surplus = np.array([_surplus(ballots, worth) for ballots in several]) * len(several) / plain
    return replace(worth, bias=_positive_mean(float(surplus.mean()), float(surplus.std()) / math.sqrt(len(surplus))))


def _positive_mean(estimate: float, error: float) -> float:
    """The posterior mean of a number that is not negative, given an estimate of it with a normal error."""
    if error <= 0.0:
        return max(0.0, estimate)
    z = estimate / error
    return estimate + error * math.exp(-z * z / 2.0 - float(log_ndtr(z))) / math.sqrt(2.0 * math.pi)


def _variance(votes: Sequence[SoftVote]) -> float:
    """The variance of D among a question's traces, added up over tokens."""
    total: dict[str, float] = {}
    squares = 0.0
    for vote in votes:
        for token, share in vote.shares:
            total[token] = total.get(token, 0.0) + share
            squares += share * share
    return max(0.0, squares - math.fsum(mass * mass for mass in total.values()) / len(votes)) / (len(votes) - 1)


def _surplus(ballots: Sequence[Ballot], worth: SoftWorth) -> float:
    """The squared error of half the traces' p beyond U r; without bias for any theta."""
    plain = _disagreement(Counter(answer for answer, _ in ballots))
    halves = ballots[::2], ballots[1::2]
    surplus = 0.0
    for half, other in (halves, halves[::-1]):
        strata, votes = _Strata(half), Counter(answer for answer, _ in other)
        p = strata.shares()
        agreement = sum(share * votes[answer] for answer, share in p.items()) / len(other)
        surplus += sum(share * share for share in p.values()) - 2.0 * agreement + 1.0 - plain
        surplus -= plain * strata.error(worth)
    return surplus / 2.0


def _spells(token: str, answers: Counter[str]) -> bool:
    """Whether most traces that said the token answer what it spells."""
    return 2 * answers[token] > answers.total()


def _disagreement(counts: Counter[str]) -> float:
    """The chance that two different traces disagree: without bias, 1 - |theta|^2."""
    n = counts.total()
    return 1.0 - sum(count * (count - 1) for count in counts.values()) / (n * (n - 1))


def _whole(shares: Mapping[str, float], total: int) -> dict[str, int]:
    """``total`` whole votes in these shares, by largest remainder; answers without one are left out."""
    whole = math.fsum(shares.values())
    exact = {answer: total * share / whole for answer, share in shares.items()}
    votes = {answer: math.floor(value) for answer, value in exact.items()}
    by_remainder = sorted(exact, key=lambda answer: votes[answer] - exact[answer])
    for answer in by_remainder[: total - sum(votes.values())]:
        votes[answer] += 1
    return {answer: votes[answer] for answer in sorted(shares, key=lambda a: -shares[a]) if votes[answer]}
