"""The rows of a finished run: each question's answer and how far to trust it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pets.core.allocator import Allocator
from pets.core.tally import Tally
from pets.engine.accounts import Account, grouped
from pets.engine.outlook import Certifier, tallies_of
from pets.engine.plan import Plan
from pets.engine.prices import Price
from pets.engine.reading import Reader
from pets.questions import Problem
from pets.store import StoredTrace

__all__ = ["Answer", "accounts_of", "answers"]

NOTHING = Account()


@dataclass(frozen=True, slots=True)
class Answer:
    """One question's outcome.

    ``certificate`` is the probability that ``answer`` is the vote over infinitely many traces. ``votes`` are in the
    order of first launch. ``traces`` were paid for; of them ``no_answer`` cast no vote and ``failed`` never came.
    ``cost`` is in dollars, where a price is known. ``text`` is the surest trace that gave the answer.
    """

    id: str
    answer: str | None
    votes: dict[str, int]
    certificate: float
    traces: int
    no_answer: int
    failed: int
    tokens: int
    prompt_tokens: int
    cost: float | None
    text: str | None
    gold: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """A row of the results; gold where it is known."""
        row = asdict(self)
        if self.gold is None:
            del row["gold"]
        return row


def answers(
    problems: Sequence[Problem],
    allocator: Allocator,
    accounts: Iterable[tuple[str, Account]],
    plan: Plan,
    price: Price | None,
) -> Iterator[Answer]:
    """Every question's row, in their order; the accounts come in that order too, some may be missing."""
    reader = Reader(problems, plan.answer)
    certify = Certifier(tallies_of(allocator, [problem.id for problem in problems]))
    coming = iter(accounts)
    id, account = next(coming, ("", NOTHING))
    for number, problem in enumerate(problems):
        mine = account if id == problem.id else NOTHING
        if id == problem.id:
            id, account = next(coming, ("", NOTHING))
        yield _row(number, problem, mine, allocator, reader, certify, price)


def accounts_of(traces: Iterable[StoredTrace], plan: Plan) -> Iterator[tuple[str, Account]]:
    """Accounts of traces that come question by question."""
    for id, group in grouped(traces):
        account = Account()
        for trace in group:
            account.add(trace, plan.kind)
        yield id, account


def _row(
    number: int,
    problem: Problem,
    account: Account,
    allocator: Allocator,
    reader: Reader,
    certify: Certifier,
    price: Price | None,
) -> Answer:
    names = reader.names(number, account.in_order())
    verdict, tally = allocator.verdict(problem.id), allocator.tally(problem.id)
    votes: dict[str, int] = {}
    for label, count in verdict.votes:
        name = names.get(label, label)
        votes[name] = votes.get(name, 0) + int(count)
    answer = None if verdict.answer is None else names.get(verdict.answer, verdict.answer)
    counts = tuple(sorted(votes.values(), reverse=True))
    best = account.best(answer, names)
    return Answer(
        id=problem.id,
        answer=answer,
        votes=votes,
        certificate=round(certify(Tally(counts, tally.nulls, 0, tally.options, mean_tokens=tally.mean_tokens)), 6),
        traces=verdict.traces,
        no_answer=verdict.no_answer,
        failed=account.failed,
        tokens=account.tokens,
        prompt_tokens=account.prompt_tokens,
        cost=None
        if price is None
        else round(price.dollars(prompt_tokens=account.prompt_tokens, tokens=account.tokens), 9),
        text=None if best is None else best.text,
        gold=problem.gold,
    )
