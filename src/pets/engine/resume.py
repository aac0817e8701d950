"""A run in the store and the run in memory: what is written down when it begins, what is taken up again."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from pets._version import __version__
from pets.answers.recorded import Recorded
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.money import Currency, amount_words
from pets.core.record import VoteCount
from pets.core.soft import SoftVoteCount
from pets.engine.batch import NO_JUDGE
from pets.engine.budget import Amount, bounded, currency_of, total_of
from pets.engine.config import OPERATIONAL, RunConfig
from pets.engine.driver import Driver
from pets.engine.judging import judge_of, judge_tokens
from pets.engine.pacing import Pace, pace_of
from pets.engine.progress import PRIOR_QUESTIONS, Certifier, decisions_of, sampled
from pets.engine.question import Answer, OpenQuestion, QuestionTotals, answer_type_of, group_by_question, prompt_of
from pets.errors import BudgetError, InputError, PetsError, StateError
from pets.questions import Problem
from pets.registry import as_answer_type
from pets.samplers import Sampler
from pets.store import LostLaunch, Run, RunSettings, RunSummary, RunView, Store, StoredTrace
from pets.store.records import LOST, question_row, reader_of
from pets.types import Launch, Question, Trace

Labels = Callable[[str, list[str]], dict[str, str]]


def run_settings(
    config: RunConfig,
    problems: Sequence[Problem],
    *,
    model: str,
    endpoints: Sequence[str] = (),
    name: str = "",
    stored: bool = False,
) -> RunSettings:
    """What is kept of a run, its budget worked out; refused where the budget cannot be kept.

    What is ``stored`` can be resumed by another process; refused where no spec describes its policy or answer type.
    """
    amount = Amount.parse(config.budget)
    total = total_of(amount, len(problems))
    prompt = _longest_prompt(config, problems)
    price = config.price_at_most(model)
    judge, limit = judge_of(problems, config.answer), config.sampling.max_tokens
    if config.batch_api and judge is not None and judge.endpoint is None:
        raise InputError(NO_JUDGE)
    if amount.unit == "usd" and judge is not None and (judge.model or judge.endpoint or config.models):
        raise BudgetError("a budget in dollars counts one model's price: judge by the same model, or budget in tokens.")
    more_prompt, reply = judge_tokens(judge)
    currency = currency_of(
        amount, price, prompt_tokens=prompt + more_prompt, max_tokens=None if limit is None else limit + reply
    )
    _check_total(total, currency, len(problems))
    return RunSettings(
        policy=config.policy if isinstance(config.policy, str) else type(config.policy).__name__,
        total=total,
        currency=currency,
        budget=config.budget,
        cap=config.max_traces,
        seed=config.seed,
        model=model,
        endpoints=tuple(endpoints),
        confidence=config.confidence_kind,
        concurrency=config.concurrency,
        name=name,
        version=__version__,
        more={"worst": currency.hold, **({"plan": config.to_plain()} if stored else {})},
    )


def bounded_config(config: RunConfig, problems: Sequence[Problem], samplers: Sequence[Sampler]) -> RunConfig:
    """The configuration with a token limit per trace, where the budget needs one: its own, else the servers'."""
    prompt = _longest_prompt(config, problems)
    return replace(config, sampling=bounded(config.sampling, Amount.parse(config.budget), samplers, prompt))


def _longest_prompt(config: RunConfig, problems: Sequence[Problem]) -> int:
    """The tokens of the longest prompt at most; 0 where traces count one each."""
    if Amount.parse(config.budget).ledger_unit == "traces":
        return 0
    return max(prompt_of(problem, config.system).max_tokens for problem in problems)


def _check_total(total: int, currency: Currency, questions: int) -> None:
    if currency.counts_traces and total < questions:
        raise BudgetError(
            f"a budget of {amount_words(total, currency.unit)} leaves some of {questions} questions without one. Give "
            f"at least {questions} (1x), or ask fewer questions."
        )
    if not currency.counts_traces and total < questions * max(1, currency.per_token):
        raise BudgetError(
            f"a budget of {amount_words(total, currency.unit)} is less than one token for each of {questions} "
            "questions. Raise it, or ask fewer questions."
        )


def identity_of(config: RunConfig, problems: Iterable[Problem], model: str) -> str:
    """A digest of all that decides what a run asks and how it is answered, but for its budget and its servers."""
    apart = {*OPERATIONAL, "budget", "keep_texts"}
    plain = {name: value for name, value in config.to_plain().items() if name not in apart}
    if not config.soft:  # runs of before that were not soft either go on
        del plain["soft"]
    digest = sha256(json.dumps([model, plain], sort_keys=True).encode())
    for problem in problems:
        digest.update(repr(question_row(0, 0, problem)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def earlier_run(store: Store, identity: str, budget: str) -> RunSummary | None:
    """The latest run that asks the same under the same budget; refused where one under another alone was paid for."""
    Amount.parse(budget)  # which may be none
    runs = store.runs_like(identity)
    same = next((run for run in runs if run.settings.budget == budget), None)
    paid = next((run for run in runs if run.traces or run.lost), None)
    if same is None and paid is not None:
        id, other, settings = paid.id, paid.settings.budget, paid.settings
        if settings.total != total_of(Amount.parse(other), paid.questions):
            other = f"{amount_words(*settings.currency.shown(settings.total))}, what was added included"
        raise InputError(
            f"run {id} of {store.name} asks the same under a budget of {other}: `pets resume {id} --budget +AMOUNT` "
            f"gives it more, and nothing is paid twice; --new starts another with {budget}."
        )
    return same


def config_of(settings: RunSettings, code: str | None = None) -> RunConfig:
    """The configuration that a stored run was begun with, and the answer type that its first traces chose.

    Answers that were read by code are taken as they are recorded, unless the user named it again: ``code``.
    """
    try:
        plan = settings.more["plan"]
        answer = plan["answer"]
        by_questions = answer is None and code is not None and reader_of(code, None) != code
        if code not in (None, answer) and not by_questions:
            raise InputError(f"this run reads its answers as {answer or 'they come'}, not as {code}: leave it out.")
        config = RunConfig.from_plain({**plan, "answer": answer and reader_of(answer, code)})
        return config.settled(settings.more["answer_type"]) if "answer_type" in settings.more else config
    except (KeyError, TypeError, AttributeError) as error:
        raise StateError(f"this run was not made by `pets solve`, or by a newer pets ({error!r}).") from None


def config_to_read(run: RunView, settings: RunSettings) -> RunConfig:
    """The configuration of a run that goes on; refused where its texts are read by code that nobody named again."""
    config = config_of(settings, run.code)
    own = (answer_type_of(problem, config.answer) for problem in run.problems())
    for reader in (None if config.answer is None else as_answer_type(config.answer), *own):
        if isinstance(reader, Recorded) and reader.reader:
            raise InputError(
                f"run {run.id} reads its answers with {reader.reader}, and a store alone names no code: give "
                f"--answer {reader.reader} to run that code."
            )
    return config


def kept_going(settings: RunSettings) -> RunSettings:
    """The settings of a run that goes on whatever its first traces said."""
    return replace(settings, more={**settings.more, "plan": {**settings.more["plan"], "keep_going": True}})


def total_so_far(settings: RunSettings, questions: int) -> int:
    """The run's budget; that of a stream by windows grows with its questions."""
    stream = settings.more.get("stream")
    window = None if stream is None else Budget.from_plain(stream["budget"]).window
    return settings.total if window is None else window.amount * -(-questions // window.questions)


def options_of(problem: Problem, config: RunConfig) -> int | None:
    """The size of a question's closed answer set; ``None`` where it is open."""
    return problem.options or answer_type_of(problem, config.answer).options


def run_pace(config: RunConfig, currency: Currency, traces: int, questions: int) -> Pace:
    """How a run is spread over time that brings about so many traces."""
    return pace_of(
        config.make_policy(),
        traces,
        questions,
        config.concurrency,
        waves=config.waves,
        patience=config.patience,
        needs_feedback=config.target_consistency is not None or not currency.counts_traces,
    )


def traces_to_pace(settings: RunSettings, questions: int, run: RunView | None = None) -> int:
    """About how many traces the budget brings, since some was added last; without any seen, each at its dearest."""
    summary = None if run is None else run.summary()
    traces = settings.total // settings.currency.hold
    if summary is not None and summary.traces and summary.spent:
        traces = settings.total * summary.traces // summary.spent
    if settings.cap is not None:
        traces = min(traces, settings.cap * questions)
    return max(0, traces - (0 if run is None else run.load("topped_up_at") or 0))


def new_allocator(config: RunConfig, settings: RunSettings, problems: Sequence[Problem], waves: int = 0) -> Allocator:
    """A new allocator with the run's whole budget, which is spent in so many waves if any are given."""
    questions = [Question(problem.id, options=options_of(problem, config)) for problem in problems]
    budget = Budget(total_so_far(settings, len(questions)), settings.cap, settings.currency)
    policy = config.make_policy().with_waves(waves) if waves else config.make_policy()
    horizon = None if policy.waves else len(questions)  # waves are planned over all questions at once
    votes = SoftVoteCount() if config.soft else VoteCount()
    return Allocator(policy, budget, questions, horizon=horizon, seed=settings.seed, votes=votes)


def adopt_run(
    allocator: Allocator,
    view: RunView,
    labels: Labels,
    confidence_kind: str | None,
    pending: Collection[Launch] = (),
    *,
    whole_wave: bool = False,
) -> None:
    """Let the allocator take in all that a run has paid for: traces, launches that never came back, lost attempts.

    ``pending`` launches are on their way. ``labels`` names the classes of one question's answers, which it gets in
    launch order. A wave that was broken off is planned anew, unless all of it was launched (``whole_wave``).
    """
    wasted = 0

    def paid() -> Iterator[Trace]:
        nonlocal wasted
        for id, group in group_by_question(_with_lost(view)):
            names = labels(id, [trace.answer for trace in group if trace.answer is not None])
            for trace in group:
                wasted += trace.wasted
                core_trace = trace.trace(confidence_kind)
                yield core_trace if core_trace.answer is None else replace(core_trace, answer=names[core_trace.answer])

    wave = view.load("wave")
    begun = 0 if wave is None else wave + whole_wave
    waves = min(begun, max(0, allocator.waves_left - 1))
    allocator.adopt(paid(), waves=waves, pending=pending)
    if view.settings.currency.counts_traces:  # tokens of lost attempts are among their traces' own
        for _ in range(wasted):
            allocator.budget.charge(Trace("", 0))


def restored(view: RunView) -> Allocator:
    """The allocator of a stored run, everything paid for adopted."""
    config, problems = config_of(view.settings, view.code), list(view.problems())
    by_id = {problem.id: problem for problem in problems}

    def labels(id: str, forms: list[str]) -> dict[str, str]:
        return OpenQuestion(by_id[id], answer_type_of(by_id[id], config.answer)).restore(forms)

    allocator = new_allocator(config, view.settings, problems)
    adopt_run(allocator, view, labels, config.confidence_kind)
    return allocator


def results(view: RunView, allocator: Allocator, *, texts: bool = True) -> Iterator[Answer]:
    """The answers that ``pets solve`` prints, from the store; without ``texts`` far less is read."""
    config = config_of(view.settings, view.code)
    price = price_in_money(config, view.settings.model)
    totals = stored_totals(view.traces(texts=texts), config.confidence_kind, price)
    over = view.summary().state == "finished"
    return answers(list(view.problems()), allocator, totals, config, price, over=over)


def price_in_money(config: RunConfig, model: str) -> Currency | None:
    """What the run's traces cost in money that do not say so themselves; ``None`` where a price is not known."""
    price = config.price_at_most(model)
    return None if price is None else price.currency()


def stored_totals(
    traces: Iterable[StoredTrace], confidence_kind: str | None, price: Currency | None
) -> Iterator[tuple[str, QuestionTotals]]:
    """Totals of traces that come question by question."""
    for id, group in group_by_question(traces):
        totals = QuestionTotals()
        for trace in group:
            totals.add(trace, confidence_kind, price)
        yield id, totals


def answers(
    problems: Sequence[Problem],
    allocator: Allocator,
    totals: Iterable[tuple[str, QuestionTotals]],
    config: RunConfig,
    price: Currency | None,
    failures: Mapping[str, PetsError] | None = None,
    *,
    over: bool,
) -> Iterator[Answer]:
    """Every question's answer, in their order; the totals come in that order too, some may be missing.

    ``over`` says whether the run has come to its end.
    """
    zone = allocator.policy.zone
    ids = [problem.id for problem in problems]
    certify = Certifier(decisions_of(allocator, sampled(ids, PRIOR_QUESTIONS)), zone)
    pending = iter(totals)
    id, current = next(pending, ("", None))
    for problem in problems:
        own = current if id == problem.id else None
        if id == problem.id:
            id, current = next(pending, ("", None))
        question = OpenQuestion(problem, answer_type_of(problem, config.answer), price=price, totals=own)
        verdict, failure = allocator.verdict(problem.id), (failures or {}).get(problem.id)
        error = None if failure is None or verdict.votes else str(failure)
        complete = allocator.complete(problem.id, over=over)
        yield question.answer(verdict, certify, complete=complete, error=error, zone=zone)


def lost_traces(launches: Iterable[LostLaunch], currency: Currency) -> list[StoredTrace]:
    """Launches that never came back, as traces without a vote at the price of all that was held for them."""
    if currency.counts_traces:
        return [StoredTrace(launch.question, launch.number, error=LOST, wasted=launch.held - 1) for launch in launches]
    worth = [(launch, currency.usage_worth(launch.held)) for launch in launches]
    return [
        StoredTrace(launch.question, launch.number, tokens=use.tokens, prompt_tokens=use.prompt_tokens, error=LOST)
        for launch, use in worth
    ]


def note_top_up(run: Run) -> None:
    """A run has more budget: its waves begin anew, to spend what is there beyond the traces so far."""
    run.save("topped_up_at", run.summary().traces)
    run.save("wave", None)


def note_end(run: Run, driver: Driver) -> None:
    """Whatever ended a run: keep what went wrong."""
    faults = Counter(run.load("faults") or {})
    faults.update(driver.fetcher.faults)
    run.save("faults", dict(faults))


def _with_lost(view: RunView) -> Iterator[StoredTrace]:
    """Traces and lost launches together, question by question in launch order; those in batch jobs are not lost."""
    waiting: dict[str, list[StoredTrace]] = {}
    by_jobs = bool(view.settings.more.get("plan", {}).get("batch_api"))
    for trace in lost_traces(() if by_jobs else view.lost(), view.settings.currency):
        waiting.setdefault(trace.question, []).append(trace)
    if not waiting:
        yield from view.traces(texts=False)
        return
    for id, group in group_by_question(view.traces(texts=False)):
        yield from sorted([*group, *waiting.pop(id, ())], key=lambda trace: trace.number)
    for group in waiting.values():
        yield from sorted(group, key=lambda trace: trace.number)
