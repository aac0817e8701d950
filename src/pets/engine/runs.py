"""A run in the store and the run in memory: what is written down when it begins, what is taken up again."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from pets.core.allocator import Allocator
from pets.core.budget import Budget, Currency
from pets.engine.accounts import grouped
from pets.engine.answers import accounts_of, answers
from pets.engine.budgets import Amount, currency_of, total_of
from pets.engine.plan import Plan
from pets.engine.prices import price_of
from pets.engine.reading import Reader, options_of
from pets.errors import BudgetError, StateError
from pets.questions import Problem
from pets.store import LostLaunch, RunSettings, RunView, StoredTrace
from pets.types import Question, Trace

__all__ = ["LOST", "allocator_for", "lost_traces", "plan_of", "restored", "results", "settings_of"]

LOST = "in flight when the run was broken off: what became of it is not known"
TEMPLATE = 64  # tokens that a chat template may add to a prompt


def settings_of(
    plan: Plan, problems: Sequence[Problem], *, model: str, endpoints: Sequence[str] = (), name: str = ""
) -> RunSettings:
    """What the store keeps of a run, its budget worked out; refused where the budget cannot be kept."""
    amount = Amount.parse(plan.budget)
    total = total_of(amount, len(problems))
    price = price_of(model, plan.price)
    prompt = 0 if amount.coin == "traces" else max(map(prompt_room, problems)) + TEMPLATE + _bytes(plan.system or "")
    currency = currency_of(amount, price, prompt_tokens=prompt, max_tokens=plan.sampling.max_tokens)
    _check_total(total, currency, len(problems))
    return RunSettings(
        plan.policy,
        total,
        currency,
        plan.budget,
        plan.max_per_question,
        plan.seed,
        model,
        tuple(endpoints),
        plan.kind,
        plan.concurrency,
        name,
        version("pets"),
        {"plan": plan.to_plain(), "worst": currency.hold},
    )


def prompt_room(problem: Problem) -> int:
    """The most tokens that a prompt can have: its bytes."""
    content = problem.prompt.content
    return _bytes(content) if isinstance(content, str) else sum(_bytes(one.content) + 8 for one in content)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _check_total(total: int, currency: Currency, questions: int) -> None:
    if currency.flat and total < questions:
        raise BudgetError(
            f"a budget of {total} traces leaves some of {questions} questions without one. Give at least {questions} "
            "(1x), or ask fewer questions."
        )
    if not currency.flat and total < questions * max(1, currency.per_token):
        raise BudgetError(
            f"a budget of {total} {currency.unit} is less than one token for each of {questions} questions. Raise it, "
            "or ask fewer questions."
        )


def plan_of(settings: RunSettings) -> Plan:
    """The plan that a stored run was begun with."""
    try:
        return Plan.from_plain(settings.more["plan"])
    except (KeyError, TypeError) as error:
        raise StateError(f"this run was not made by `pets solve`, or by a newer pets ({error!r}).") from None


def allocator_for(plan: Plan, settings: RunSettings, problems: Sequence[Problem]) -> Allocator:
    """A new allocator with the run's whole budget."""
    asked = [Question(one.id, options=options_of(one, plan.answer or one.answer)) for one in problems]
    budget = Budget(settings.total, settings.cap, settings.currency)
    return Allocator(plan.make_policy(), budget, asked, horizon=len(asked), seed=settings.seed)


def restored(view: RunView) -> Allocator:
    """The allocator of a stored run, everything paid for adopted: traces, and launches that never came back."""
    plan, problems = plan_of(view.settings), list(view.problems())
    allocator = allocator_for(plan, view.settings, problems)
    allocator.adopt(adoptable(view, problems, plan, Reader(problems, plan.answer)))
    return allocator


def results(view: RunView, allocator: Allocator) -> Iterator[dict[str, Any]]:
    """The rows that ``pets solve`` prints, from the store."""
    plan = plan_of(view.settings)
    price = price_of(view.settings.model, plan.price)
    rows = answers(list(view.problems()), allocator, accounts_of(view.traces(), plan), plan, price)
    return (row.to_plain() for row in rows)


def adoptable(view: RunView, problems: Sequence[Problem], plan: Plan, reader: Reader) -> Iterator[Trace]:
    """What a run has paid for, question by question in launch order, votes under the names of their classes."""
    place = {problem.id: number for number, problem in enumerate(problems)}
    for id, group in grouped(_with_lost(view)):
        names = reader.know(place[id], [trace.answer for trace in group if trace.answer is not None])
        for trace in group:
            told = trace.trace(plan.kind)
            yield told if told.answer is None else replace(told, answer=names[told.answer])


def lost_traces(lost: Iterable[LostLaunch], currency: Currency) -> list[StoredTrace]:
    """Launches that never came back, as traces without a vote at the price of what was held for them."""
    each = max(1, currency.per_token)
    return [
        StoredTrace(one.question, one.number, tokens=0 if currency.flat else one.held // each, error=LOST)
        for one in lost
    ]


def _with_lost(view: RunView) -> Iterator[StoredTrace]:
    """Traces and lost launches together, question by question in launch order."""
    waiting: dict[str, list[StoredTrace]] = {}
    for trace in lost_traces(view.lost(), view.settings.currency):
        waiting.setdefault(trace.question, []).append(trace)
    if not waiting:
        yield from view.traces(texts=False)
        return
    for id, group in grouped(view.traces(texts=False)):
        yield from sorted([*group, *waiting.pop(id, ())], key=lambda trace: trace.number)
    for group in waiting.values():
        yield from sorted(group, key=lambda trace: trace.number)
