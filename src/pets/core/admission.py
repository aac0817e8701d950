"""What the allocator lets in: questions that are new, budgets that keep their promises, traces that can be."""

import math
from collections.abc import Container, Sequence

from pets.core.budget import Budget
from pets.core.policy import IndexPolicy, Policy, QuotaPolicy
from pets.core.quotas import QuotaQueue
from pets.core.ranks import RankQueue
from pets.core.states import StateQueue
from pets.errors import BudgetError, InputError
from pets.types import Question, Trace

__all__ = ["check_questions", "check_trace", "check_warmup", "queue_for"]


def check_questions(questions: Sequence[Question], known: Container[str]) -> None:
    """Refuse an id that is there already, and a closed set of fewer than two answers."""
    seen: set[str] = set()
    for question in questions:
        if question.id in known or question.id in seen:
            raise InputError(f"question {question.id!r} is there already; every question needs an id of its own.")
        if question.options is not None and question.options < 2:
            raise InputError(f"question {question.id!r} has {question.options} options; give 2 or more, or None.")
        seen.add(question.id)


def check_warmup(policy: Policy, questions: int, traces: int) -> None:
    """Refuse to promise so many questions a warm-up that so many traces cannot pay for."""
    need = policy.warmup * questions
    if need > traces:
        raise BudgetError(
            f"a warm-up of {policy.warmup} traces for {questions} questions needs {need} traces, there are "
            f"{traces}. Raise the budget, ask fewer questions, declare the horizon of a stream, or take a policy "
            "without warm-up (okg, uniform)."
        )


def check_trace(trace: Trace) -> None:
    """Refuse what no model can have returned."""
    if trace.answer == "":
        found = f"trace {trace.number} of {trace.question!r} answers ''"
        raise InputError(f"{found}; a trace without an answer has answer=None.")
    confidence = trace.confidence
    if confidence is not None and not 0.0 <= confidence < math.inf:
        found = f"trace {trace.number} of {trace.question!r} has confidence {confidence}"
        raise InputError(f"{found}; it is finite and not negative, or None.")
    if trace.tokens < 0 or trace.prompt_tokens < 0:
        raise InputError(f"trace {trace.number} of {trace.question!r} has a negative number of tokens.")


def queue_for(policy: Policy, budget: Budget, horizon: int | None, seed: int) -> StateQueue | RankQueue | QuotaQueue:
    """The queue that serves this kind of policy."""
    if isinstance(policy, QuotaPolicy):
        return QuotaQueue(policy, budget, horizon, seed)
    if isinstance(policy, IndexPolicy):
        return (RankQueue if policy.sees == "traces" else StateQueue)(policy, budget.cap)
    raise InputError(f"{policy!r} is neither an index nor a quota policy; derive it from IndexPolicy or QuotaPolicy.")
