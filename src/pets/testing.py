"""The conformance suites that every policy, answer type, sampler and ledger passes, ours and yours.

>>> from pets.policies.okg import OKG
>>> check_policy(OKG())

Each law is one function; a suite runs all of its laws and raises ``AssertionError`` with the law that broke.
"""

import asyncio
import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np

from pets.answers.base import AnswerType
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import IndexPolicy, Policy, QuotaPolicy, View
from pets.core.race import with_leader_votes
from pets.core.tally import Tally
from pets.engine.fetch import TraceRequest
from pets.engine.ledger import Ledger
from pets.errors import BudgetError, SamplerError
from pets.prompts import Completion, Prompt, Sampling
from pets.samplers.base import Sampler
from pets.store import StoredTrace
from pets.store.records import CANCELLED
from pets.types import Launch, Question, Trace, Usage

QUESTIONS = tuple(Question(f"q{i}", options=4 if i % 2 else None) for i in range(12))
"""What the suite asks: half closed, half open. An oracle must know these ids."""

Relabel = Callable[[str], str]

MEAN_TRACES, MAX_TRACES = 9, 20


def check_policy(policy: Policy, *, seed: int = 0) -> None:
    """Pure, relabelling-invariant, deterministic, within budget and cap; its repr makes it again."""
    check_is_plain(policy)
    check_is_pure(policy)
    check_schedule(policy, seed)


def check_is_plain(policy: Policy | AnswerType) -> None:
    """Frozen, and ``eval(repr(policy)) == policy`` where its class is known."""
    module = importlib.import_module(type(policy).__module__)
    again = eval(repr(policy), dict(vars(module)))
    assert again == policy, f"repr does not round-trip: {policy!r} made {again!r}"
    for field in fields(policy):  # type: ignore[arg-type]
        try:
            setattr(policy, field.name, None)
        except FrozenInstanceError:
            continue
        raise AssertionError(f"{type(policy).__name__} is not frozen: {field.name} was set")


def check_is_pure(policy: Policy) -> None:
    """The same tally and view give the same value, whatever was asked in between; labels do not matter."""
    view = View(budget_left=90, questions_left=10, cap=MAX_TRACES, coin=0.4, stops=(4, 8, 4))
    paths = [[None if label == "-" else label for label in path] for path in ("AAAA", "AB-A", "CABBAA", "----", "BABA")]
    values = [_value(policy, path, view, str) for path in paths]
    assert values == [_value(policy, path, view, str) for path in reversed(paths)][::-1], "the policy is not pure"
    relabelled = [_value(policy, path, view, _mirror) for path in paths]
    assert values == relabelled, f"the policy depends on labels: {values} became {relabelled}"
    for path in paths:
        tally = Tally.of(path, [8.0] * len(path), options=4, question=QUESTIONS[0].id)
        m = policy.fewest(tally, view, price=-4.0)
        assert m >= 0, f"{m} votes cannot settle {tally}"
        after = replace(with_leader_votes(tally, m), rounds=1) if m else tally  # of a batch, where rounds are limited
        left = policy.fewest(after, view, price=-4.0)
        assert left == 0 or getattr(policy, "rounds", 0) > 1, f"{m} votes do not settle {tally}: {left} more would"


def check_schedule(policy: Policy, seed: int) -> None:
    """A run with traces in flight, late and failed: same seed, same launches, also under new labels."""
    launches = run(policy, seed)
    assert launches == run(policy, seed), "the same seed gave other launches"
    assert launches == run(policy, seed, relabel=_mirror), "new labels gave other launches"
    assert launches, "the policy asked for nothing"


def run(policy: Policy, seed: int, *, relabel: Relabel = str) -> list[Launch]:
    """Spend a small budget on synthetic questions, up to 5 traces in flight, returned in random order."""
    rng = np.random.default_rng(seed)
    theta = {question.id: rng.dirichlet([0.6] * 4) for question in QUESTIONS}
    allocator = Allocator(policy, Budget(MEAN_TRACES * len(QUESTIONS), cap=MAX_TRACES), QUESTIONS, seed=seed)
    launches: list[Launch] = []
    flying: list[Launch] = []
    while True:
        batch = allocator.ask(int(rng.integers(1, 6 - len(flying) if len(flying) < 5 else 2)))
        budget = allocator.budget
        assert budget.spent + budget.reserved <= budget.total, f"over budget: {budget}"
        most = max(allocator.tally(question.id).launched for question in QUESTIONS)
        assert most <= MAX_TRACES, f"{most} traces for a question, the cap is {MAX_TRACES}"
        launches += batch
        flying += batch
        if not flying:
            return launches
        launch = flying.pop(int(rng.integers(len(flying))))
        answer = None if rng.random() < 0.1 else relabel("ABCD"[rng.choice(4, p=theta[launch.question])])
        confidence = float(np.round(rng.gamma(40.0, 0.2), 3))
        allocator.tell(Trace(launch.question, launch.number, answer, confidence, tokens=100))


def _value(policy: Policy, path: list[str | None], view: View, relabel: Relabel) -> float:
    answers = [None if answer is None else relabel(answer) for answer in path]
    confidences = [8.0 + 0.25 * j for j in range(len(path))]
    tally = Tally.of(answers, confidences, options=4, question=QUESTIONS[0].id)
    if isinstance(policy, QuotaPolicy):
        return policy.quota(tally, view)
    assert isinstance(policy, IndexPolicy), f"{policy!r} is neither an index nor a quota policy"
    return policy.index(tally, view)


def _mirror(label: str) -> str:
    """A bijection of labels that reverses their order."""
    return "DCBA"["ABCD".index(label)]


def check_answer_type(answer_type: AnswerType, samples: Sequence[str], *, seed: int = 0) -> None:
    """Canonical forms are final and never empty; classes are an equivalence; its repr makes it again.

    Its instruction is one line. ``samples`` are answers to one question, as a model or a pool would write them; some
    should be equal.

    >>> from pets.answers.number import Number
    >>> check_answer_type(Number(), ["1/2", "0.5", "no idea", "3"])
    """
    check_is_plain(answer_type)
    assert len(answer_type.instruction.splitlines()) <= 1, f"the instruction has lines: {answer_type.instruction!r}"
    forms = []
    for sample in samples:
        for form in (answer_type.canonical(sample), answer_type.extract(sample)):
            assert form != "", f"{sample!r} gave an empty answer; None is what does not parse"
            if form is not None:
                again = answer_type.canonical(form)
                assert again == form, f"canonical is not idempotent: {sample!r} gave {form!r}, which gave {again!r}"
                forms.append(form)
    check_equivalence(answer_type, forms, seed)


def check_equivalence(answer_type: AnswerType, forms: Sequence[str], seed: int) -> None:
    """Reflexive, symmetric, the same classes in any order, named by the first seen, one by one or at once."""
    for first in forms:
        assert answer_type.same(first, first), f"{first!r} is not itself"
        for second in forms:
            pair, same = f"{first!r} and {second!r}", answer_type.same(first, second)
            assert same == answer_type.same(second, first), f"same is not symmetric: {pair}"
            assert answer_type.same_at_once(first, second) in (None, same), f"same_at_once differs: {pair}"
            assert not same or len(set(answer_type.merge([first, second]).values())) == 1, f"merge differs: {pair}"
    rng = np.random.default_rng(seed)
    expected = _partition(answer_type.merge(forms))
    for _ in range(4):
        order = [forms[i] for i in rng.permutation(len(forms))]
        merged = answer_type.merge(order)
        assert _partition(merged) == expected, f"the classes depend on the order: {order}"
        for form, name in merged.items():
            first = next(seen for seen in order if merged[seen] == name)
            assert name == first, f"{form!r} is named {name!r}, but {first!r} was seen first"
        # What a live run knows: the names that it was told, moved by each merge that it was told of.
        classes, names = answer_type.classes(), dict[str, str]()
        for form in order:
            names.setdefault(form, form)
            for absorbed, into in classes.add(form):
                names = {member: into if name == absorbed else name for member, name in names.items()}
        assert names == merged, f"classes fed one by one differ from merge: {order}"


def _partition(merged: dict[str, str]) -> set[frozenset[str]]:
    return {frozenset(form for form in merged if merged[form] == name) for name in merged.values()}


def check_sampler(
    sampler: Sampler,
    prompt: Prompt = Prompt("2 + 2 ="),  # noqa: B008 (frozen)
    sampling: Sampling = Sampling(max_tokens=16),  # noqa: B008 (frozen)
    *,
    seeded: bool = True,
    refused: Prompt | None = None,
) -> None:
    """The law of :meth:`Sampler.sample <pets.samplers.base.Sampler>`, on a few traces of ``prompt``.

    One to n traces come, in the order of their seeds; calls overlap and may be cancelled; a failure is a
    ``SamplerError``; closing twice does no harm. ``seeded=False`` is for a model that gives other traces for the same
    seed, ``refused`` a prompt that it cannot answer, such as one that is too long. Opens the sampler and closes it.

    >>> from pets.samplers.function import FunctionSampler
    >>> check_sampler(FunctionSampler(lambda question: f"{question} 4"))
    """

    async def check() -> None:
        async with sampler:
            single = [(await _draw(sampler, prompt, 1, seed, sampling))[0] for seed in range(7, 11)]
            expected = [trace.text for trace in single] if seeded else None
            texts = [trace.text for trace in await _draw(sampler, prompt, 4, 7, sampling)]
            if expected is not None:
                assert texts == expected[: len(texts)], "trace i of a request is not the trace of seed + i"
            await check_overlap(sampler, prompt, sampling, expected)
            if refused is not None:
                await check_refusal(sampler, refused, sampling)
            await sampler.close()
        await sampler.close()

    asyncio.run(check())


async def check_overlap(sampler: Sampler, prompt: Prompt, sampling: Sampling, expected: Sequence[str] | None) -> None:
    """Calls at the same time give what they give one by one, also beside one that is cancelled."""
    calls = [asyncio.ensure_future(_draw(sampler, prompt, 1, seed, sampling)) for seed in range(7, 11)]
    cancelled = asyncio.ensure_future(sampler.sample(prompt, 4, 11, sampling))
    await asyncio.sleep(0)
    cancelled.cancel()
    texts = [trace.text for [trace] in await asyncio.gather(*calls)]
    await asyncio.wait([cancelled])
    assert expected in (None, texts), "calls that overlap gave other traces than the same calls one by one"


async def check_refusal(sampler: Sampler, prompt: Prompt, sampling: Sampling) -> None:
    """What cannot be sampled is a ``SamplerError``, and the sampler goes on."""
    try:
        traces = await sampler.sample(prompt, 2, 7, sampling)
    except SamplerError:
        return
    except Exception as error:
        raise AssertionError(f"a failure is a SamplerError; got {type(error).__name__}: {error}") from error
    raise AssertionError(f"a prompt that cannot be answered gave {len(traces)} traces; it should raise a SamplerError")


async def _draw(sampler: Sampler, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
    traces = await sampler.sample(prompt, n, seed, sampling)
    assert 1 <= len(traces) <= n, f"{n} traces were asked for, {len(traces)} came; give 1 to {n}, or raise"
    for trace in traces:
        assert isinstance(trace, Completion), f"a trace is a Completion; got {trace!r}"
        assert trace.tokens is None or trace.tokens >= 0, f"a trace of {trace.tokens} tokens"
    return traces


OpenLedger = Callable[[], AbstractAsyncContextManager[Ledger]]


def ledger_request(first: int, size: int, context: object = None) -> TraceRequest:
    """A request for launches ``first``, ``first + 1``, ... of the question ``q``, at one trace each."""
    return TraceRequest("q", first, size, Prompt("?"), 0, Sampling(), (1,) * size, context=context)


def check_ledger(
    open_ledger: OpenLedger,
    charged: Callable[[], int],
    *,
    context: Callable[[], object] = lambda: None,
    total: int | None = None,
    survives: bool = True,
) -> None:
    """The laws of :class:`~pets.engine.ledger.Ledger`, on launches of the question ``q`` at one trace each.

    ``open_ledger()`` opens the ledger of one store, as often as it is called; ``charged()`` is what that store has
    spent and holds, in traces, as another process would read it. ``context`` makes what the ledger knows of who pays.
    ``total`` is its own limit, 40 traces or more, where it has one; ``survives=False``: it ends with its process.
    """

    async def check() -> None:
        async with open_ledger() as ledger:
            expected = await check_ends(ledger, charged, context)
        assert charged() == expected, f"attempts that cost {expected} traces are charged {charged()}"
        if total is not None:
            async with open_ledger() as ledger:
                await check_limit(ledger, charged, context, total)
            assert charged() == expected, "attempts that were not sampled are charged"
        if survives:
            async with open_ledger() as ledger:
                await ledger.opened(ledger_request(90, 2, context()))  # and nobody says what became of it
            for _ in range(2):
                assert charged() == expected + 2, "what is open when a process dies is charged, at what was held, once"
                async with open_ledger():
                    pass

    asyncio.run(check())


async def check_ends(ledger: Ledger, charged: Callable[[], int], context: Callable[[], object]) -> int:
    """Each launch ends in one way, and may be opened again where it was lost or released; what that costs in traces."""

    async def opened(first: int, size: int) -> TraceRequest:
        request = ledger_request(first, size, context())
        await ledger.opened(request)
        return request

    before = charged()
    request = await opened(0, 2)
    assert charged() == before + 2, "opened() returns when what is held is in the store"
    await ledger.delivered(request, _stored(0, 2))
    assert charged() == before + 2, "traces that came cost what was held for them"
    retried = await opened(2, 2)
    ledger.lost(retried, Usage())
    await ledger.opened(retried)
    ledger.released(retried)
    await ledger.opened(retried)
    await ledger.delivered(retried, _stored(2, 2, wasted=1))  # 4: two tries of each
    failed = await opened(4, 2)
    ledger.released(failed)
    ledger.released(failed)  # the second says nothing new
    await ledger.opened(failed)
    ledger.lost(failed, Usage())
    await ledger.given_up(_stored(4, 2, error="broken"))  # 2
    partial = await opened(6, 3)
    ledger.released(partial.part(1, 2))
    await ledger.delivered(partial, _stored(6, 1))  # 1
    for first, came in ((9, 0), (11, 2)):  # 2 each
        ledger.abandoned(await opened(first, 2), _stored(first, came))
    settled, raced = await opened(15, 1), await opened(16, 3)
    ledger.cancelled(raced, _stored(16, 3, part=300))
    await ledger.delivered(settled, _stored(15, 1))  # 1, and 1 for three parts of less than a third
    gone = ledger_request(13, 2, context())
    opening = asyncio.ensure_future(ledger.opened(gone))
    await asyncio.sleep(0)
    opening.cancel()  # nothing was sent
    await asyncio.wait([opening])
    if not opening.cancelled():
        ledger.released(gone)
    many = await asyncio.gather(*(opened(first, 1) for first in range(20, 30)))
    await asyncio.gather(*(ledger.delivered(request, _stored(request.first, 1)) for request in many))
    return before + 2 + 4 + 2 + 1 + 2 + 2 + 2 + len(many)


async def check_limit(ledger: Ledger, charged: Callable[[], int], context: Callable[[], object], total: int) -> None:
    """What the budget does not pay for is refused, and holds nothing."""
    requests = [ledger_request(first, 1, context()) for first in range(30, 30 + total)]
    free = total - charged()
    outcomes = await asyncio.gather(*(ledger.opened(request) for request in requests), return_exceptions=True)
    paid = [request for request, outcome in zip(requests, outcomes, strict=True) if outcome is None]
    assert all(isinstance(outcome, BudgetError) for outcome in outcomes if outcome is not None), (
        f"an attempt that cannot be paid for is a BudgetError; got {outcomes}"
    )
    assert len(paid) == free and charged() == total, f"{len(paid)} attempts were opened where {free} could be paid for"
    for request in paid:
        ledger.released(request)


def _stored(
    first: int, size: int, *, wasted: int = 0, error: str | None = None, part: int | None = None
) -> list[StoredTrace]:
    answer, finish = "A" if error is None and part is None else None, "" if part is None else CANCELLED
    return [
        StoredTrace("q", number, answer, finish=finish, wasted=wasted, error=error, part=part)
        for number in range(first, first + size)
    ]
