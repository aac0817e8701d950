"""What the verbs that run a model live share: progress, Ctrl-C, results and the last word."""

import asyncio
import itertools
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from pets.answers.auto import kinds_words
from pets.cli._output import SafeConsole, count, interval_words, write_output
from pets.cli._terminal import say
from pets.cli.main import INTERRUPTED
from pets.core.allocator import Allocator
from pets.core.money import amount_words
from pets.engine import Answer, Engine, Snapshot, Solution
from pets.engine.fetch import Outage
from pets.engine.progress import AnswerSummary, ExpectedConsistency, duration_words, levels_words, no_vote_words, wilson
from pets.engine.sources import LiveRun
from pets.errors import FirstTracesError, PetsError, RefusedError
from pets.policies.uniform import Uniform
from pets.store.cache import CachedCounts
from pets.store.database import DEFAULT_STORE
from pets.tabular import read_rows, suffix_of
from pets.types import Usage

ANSWER_COLUMNS = tuple(field.name for field in fields(Answer))
NOTHING_ANSWERED = 1  # the exit code
NOT_FOUND = 404  # the status
MODELS_SHOWN = 10
SIGNALS = (signal.SIGINT, signal.SIGTERM)
REFRESH_S = 0.5  # between two looks at the run
CONSISTENCY_SHARE = 0.05  # of the time, that working out the expected self-consistency may take


@asynccontextmanager
async def interruptible(
    drain: Callable[[], None], words: str, watch: Coroutine[Any, Any, None] | None = None
) -> AsyncIterator[None]:
    """The first signal says ``words`` and calls ``drain``, the second cancels the task that runs the block.

    ``watch``, which would go on for ever, runs beside the block.
    """
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    assert running is not None
    pressed = False

    def stop() -> None:
        nonlocal pressed
        if pressed:
            running.cancel()
            return
        pressed = True
        say("", f"{words} Ctrl-C again stops at once.")
        drain()

    with suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt, which a store survives too
        for number in SIGNALS:
            loop.add_signal_handler(number, stop)
    watching = None if watch is None else asyncio.create_task(watch)
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        with suppress(NotImplementedError):
            for number in SIGNALS:
                loop.remove_signal_handler(number)


def start_words(engine: Engine) -> Iterator[str]:
    """Yield the words before a run: questions, model, servers, budget; traces in the store, and what is left to pay."""
    limit, record, run = engine.spec.sampling.max_tokens, engine.record, engine.stored_run
    model = record.model or "the local model"
    servers = f" at {', '.join(engine.sources.endpoints)}" if engine.sources.endpoints else ""
    budget = amount_words(*record.currency.shown(record.total))
    length = "traces as long as the server allows" if limit is None else f"{count(limit, 'token')} per trace at most"
    words = f"{count(len(engine.problems), 'question')} to {model}{servers}; {budget} in all, {length}."
    spent, waves = 0 if run is None else run.summary().spent, engine.pace.waves  # waves of batch jobs; else races
    if waves and engine.origin != "finished" and spent < record.total:
        words += f" Up to {count(waves, 'wave')}, {given_up_words(engine.points_given_up)}."
    yield words
    if engine.cache is None:
        return
    held, questions = engine.cache.held, len(engine.problems)
    if held.traces:
        name = engine.store_name.removeprefix("store ").strip('"')
        ours = f"{len(held.by_question):,} of these {questions:,} questions" if questions > 1 else "this question"
        yield f"{name} holds {count(held.traces, 'trace')} of {ours}; {_to_pay_words(engine, held)}."
    for instruction, traces in held.instructions.most_common(3):
        asked = f"under: {instruction}" if instruction else "without an instruction"
        yield f"{traces:,} of them were asked {asked}"
    if held.without_texts:
        lost = count(held.without_texts, "trace")
        yield f"{lost} of these questions cannot be read again: their run kept no texts (--no-texts)."


def _to_pay_words(engine: Engine, held: CachedCounts) -> str:
    """Say how much is left to pay at most, and how little if all traces in the store are reused."""
    currency, policy, cap = engine.record.currency, engine.spec.make_policy(), engine.spec.spending.max_traces
    total, questions = engine.record.total, len(engine.problems)
    if engine.stored_run is not None:
        left = max(0, total - engine.stored_run.summary().spent)
        return f"at most {amount_words(*currency.shown(left))} more to pay"
    most, cost = total, currency.cost(Usage(tokens=held.tokens, prompt_tokens=held.prompt_tokens))
    if currency.counts_traces:
        even = -(-total // questions)
        cap = min(even, cap or even) if isinstance(policy, Uniform) else cap
        asked_once = 0 if policy.solitary else len(held.by_question)  # a policy that looks at others asks all of them
        most, cost = min(total, held.most_to_pay(total, questions, cap, asked_once)), held.traces
    words = f"at most {amount_words(*currency.shown(most))} more to pay"
    least = max(0, total - cost)
    return words if least >= most else f"{words}, {amount_words(*currency.shown(least))} if all of these are taken"


def given_up_words(points: float) -> str:
    """Say how much self-consistency waves cost."""
    return f"an estimated {points:.1f} points of self-consistency less than one trace at a time"


def run_engine(engine: Engine, output: Path | None, *, rows: bool = True) -> Solution:
    """Run to the end or to Ctrl-C, write the results, say how it went; cut short, it exits as a shell expects.

    Without a file the answers go to stdout, unless ``rows`` is False.
    """
    if engine.spec.serving.batch_api:
        engine.watch_jobs(
            lambda job: say(f"Wave {job.wave + 1}: {count(len(job.lines), 'request')} handed in as {job.id!s}.")
        )
    say(*start_words(engine))
    with kept_words_said(engine, jobs=engine.spec.serving.batch_api):
        solution, summary = asyncio.run(_run(engine, output, rows=rows))
    if not solution.complete:
        sys.exit(INTERRUPTED)
    if not summary.answered:
        sys.exit(NOTHING_ANSWERED)
    return solution


@contextmanager
def kept_words_said(live_run: LiveRun, *, jobs: bool = False) -> Iterator[None]:
    """When an error or the second Ctrl-C ends a run, say what is kept of it, and show a trace that explains the error.

    A run that was refused before anything was spent would be refused again: there is nothing to go on with.
    Batch ``jobs`` in flight stay where they are.
    """
    try:
        yield
    except PetsError as error:
        if isinstance(error, FirstTracesError) and error.excerpt:
            say("One of the traces:", *error.excerpt.split("\n"), "")
        if isinstance(error, RefusedError) and error.status == NOT_FOUND and (names := asyncio.run(live_run.models())):
            more = ", ..." if len(names) > MODELS_SHOWN else ""
            error.say_more(f"Models there: {', '.join(names[:MODELS_SHOWN])}{more}.")
        spent = live_run.begun and live_run.allocator.budget.spent > 0
        if live_run.stored_run is not None and (spent or not isinstance(error, RefusedError)):
            error.say_more(kept_words(live_run))
        raise
    except asyncio.CancelledError:
        say(f"Stopped at once: {lost_words(None if jobs else live_run.traces_abandoned)}. {kept_words(live_run)}")
        sys.exit(INTERRUPTED)


def lost_words(traces: int | None) -> str:
    """Say what happens to the traces in flight when a run stops at once.

    >>> lost_words(0), lost_words(1), lost_words(None)
    ('no traces were in flight', '1 trace in flight is lost, and charged', 'batch jobs stay where they are')
    """
    if traces is None:
        return "batch jobs stay where they are"
    verb = "is" if traces == 1 else "are"
    return f"{count(traces, 'trace')} in flight {verb} lost, and charged" if traces else "no traces were in flight"


def kept_words(live_run: LiveRun) -> str:
    """Say what the store keeps of a run that was cut short, and the command that continues it."""
    if live_run.stored_run is None:
        return "Without a store nothing of it is kept."
    run = live_run.stored_run
    store = "" if run.location == DEFAULT_STORE else f' --store "{run.location}"'
    again = f"`pets resume {run.id}{store}`"
    words = "the same command again" if live_run.repeatable else again
    return f"Run {run.id} is kept in {live_run.store_name}: {words} goes on with it."


async def _run(engine: Engine, output: Path | None, *, rows: bool) -> tuple[Solution, AnswerSummary]:
    async with engine:
        by_jobs = engine.spec.serving.batch_api
        words = "Leaving." if by_jobs else "Waiting for the traces in flight."
        console = SafeConsole(stderr=True, markup=False)  # ids and error messages are no markup
        watch = _show_figures(engine, console) if console.is_terminal else watch_outages(engine.outage)
        async with interruptible(engine.drain, words, watch):
            solution = await engine.run()
        if output is not None and (before := answers_in(output)) > solution.answered:
            suffix = output.name[len(output.name) - len(suffix_of(output)) :]
            stem = output.name.removesuffix(suffix)
            free = (output.with_name(f"{stem}.{number}{suffix}") for number in itertools.count(2))
            more = f"{before:,} answers, more than the {solution.answered:,} of this run"
            say(f"{output} holds {more}: it stays as it is.")
            output = next(path for path in free if not path.exists())
        if output is None and not rows:
            summary = AnswerSummary.of(engine.answers())
            say(f"`pets runs export {solution.run} -o FILE` writes the answers.")
        else:
            summary = write_answers(engine.answers(), output)
        _print_summary(engine, solution, summary)
        return solution, summary


async def run_jobs(engine: Engine, *, drain: bool = False, then: Callable[[], object] = lambda: None) -> None:
    """Run until a wave of batch jobs is handed in or, to ``drain`` it, until every request in flight is answered."""
    async with engine:
        await engine.run(drain=drain)
        then()


async def watch_outages(outage: Callable[[], Outage | None]) -> None:
    """Say when no server can be reached or serves any more, and when one does again; looks from time to time."""
    before: Outage | None = None
    while True:
        await asyncio.sleep(REFRESH_S)
        now = outage()
        if now is not None and (before is None or before.is_unreachable != now.is_unreachable):
            label = "Unreachable" if now.is_unreachable else "Nothing but errors"
            say(f"{label} {outage_words(now, time.time())}")
        elif now is None and before is not None:
            say("Reachable again." if before.is_unreachable else "The servers serve again.")
        before = now


def outage_words(outage: Outage, now: float) -> str:
    """Say since when no server answers, until when it is tried, and why; ``now`` is in seconds since 1970."""
    since, until = time.strftime("%H:%M:%S", time.localtime(now - outage.since_s)), ""
    if outage.gives_up_s is not None:
        until = time.strftime(" until %H:%M:%S", time.localtime(now + outage.gives_up_s))
    return f"since {since}, trying again{until}: {outage.error}"


async def _show_figures(engine: Engine, console: SafeConsole) -> None:
    latest: ExpectedConsistency | None = None
    next_look = 0.0
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(REFRESH_S)
            if not engine.begun:
                continue
            now = time.perf_counter()
            look = now >= next_look
            snapshot = engine.snapshot(look)
            if look:
                latest = snapshot.expected or latest
                next_look = time.perf_counter() + (time.perf_counter() - now) / CONSISTENCY_SHARE
            live.update(progress_table(snapshot, latest), refresh=True)


def progress_table(now: Snapshot, latest: ExpectedConsistency | None) -> Table:
    """Tabulate the figures of a run under way; during an outage its reason instead of the time that is left."""
    left = now.seconds_left
    table = Table.grid(padding=(0, 2))
    share = now.spent / now.total if now.total else 1.0
    spent, total = amount_words(now.spent, now.unit), amount_words(now.total, now.unit)
    table.add_row("spent", f"{spent} of {total} ({share:.0%})")
    table.add_row("traces", f"{now.traces:,} ({now.failed:,} failed), {now.in_flight} in flight, {now.rate:.1f}/s")
    if now.waves:
        table.add_row("wave", f"{now.wave} of {now.waves} at most; {given_up_words(now.points_given_up)}")
    if now.outage is None:
        table.add_row("left", "..." if left is None else duration_words(left))
    else:
        table.add_row("unreachable" if now.outage.is_unreachable else "errors", outage_words(now.outage, time.time()))
    if latest is not None:
        table.add_row("self-consistency", f"{latest.consistency:.3f} expected, {latest.answered:.0%} answered")
        table.add_row("hardest", "  ".join(f"{id} {sure:.2f}" for id, sure in latest.hardest))
    if now.faults:
        table.add_row("faults", "  ".join(f"{name} {count}" for name, count in sorted(now.faults.items())))
    return table


def write_answers(answers: Iterable[Answer], output: Path | None, *, told: bool = True) -> AnswerSummary:
    """Write every question's answer to a file or stdout and sum them up; ``told``: say so of a file."""
    summary = AnswerSummary()

    def rows() -> Iterator[Mapping[str, Any]]:
        for answer in answers:
            summary.add(answer)
            yield answer.to_plain()

    write_output(rows(), output, ANSWER_COLUMNS)
    if output is not None and told:
        say(f"{output}: {answered_words(summary)}.")
    return summary


def answers_in(output: Path) -> int:
    """Count the answers in a file of rows; 0 where it is missing or holds something else."""
    if not output.is_file() or not output.stat().st_size:
        return 0
    try:
        rows = [row.value for row in read_rows(output, noun="answers")]
    except PetsError:
        return 0
    return sum(isinstance(row, dict) and row.get("answer") not in (None, "") for row in rows)


def answered_words(summary: AnswerSummary) -> str:
    return f"{summary.answered:,} of {summary.questions:,} question{'' if summary.questions == 1 else 's'} answered"


def remarks(summary: AnswerSummary, max_tokens: int | None) -> Iterator[str]:
    """Yield remarks on the answers: how they were read, traces without a vote, accuracy.

    ``max_tokens`` is the limit that traces were cut at.
    """
    no_votes = no_vote_words(summary, max_tokens)
    if summary.read_as:
        yield kinds_words(summary.read_as)
    if summary.questions and not summary.answered:
        yield f"NOT ONE QUESTION WAS ANSWERED: {no_votes or 'no trace came back.'}"
    elif no_votes:
        yield no_votes
    if not summary.answered and summary.excerpt:
        yield f"One of the traces: {summary.excerpt}"
    if not summary.answered and summary.error:
        yield f"The last error: {summary.error}"
    if summary.judged:
        words = f"Accuracy {interval_words(*summary.accuracy)} over {count(summary.judged, 'question')} with gold"
        if 0 < (answered := summary.judged_answered) < summary.judged:
            share = summary.right / answered
            of_those = interval_words(share, *wilson(share, answered))
            words += f", {of_those} over the {answered:,} of them that were answered"
        yield f"{words}."
    if words := levels_words(summary.levels):
        yield words
    if summary.disagrees:
        yield (
            f"Votes are nearly all different: {summary.distinct:,} answers among {summary.votes:,.0f} votes. Choose "
            "how answers are read with --answer (judge compares meanings), or have the model end with a short answer."
        )


def soft_words(allocator: Allocator) -> str:
    votes_per_trace = allocator.votes_per_trace
    if votes_per_trace is None:
        return "Soft votes: no trace told what else it might have said, so each counted as one vote."
    if not allocator.votes.is_learned:
        return "Soft votes: too few questions had two votes to tell what a soft one is worth, so each counted as one."
    settled = " (answers are settled before their token: nothing was gained)" if votes_per_trace < 1.05 else ""
    return f"Soft votes: a trace counted as {votes_per_trace:.1f} votes on average{settled}."


def _print_summary(engine: Engine, solution: Solution, summary: AnswerSummary) -> None:
    mean = solution.consistency.mean
    expected = interval_words(*solution.consistency) if solution.questions > 1 else f"{mean:.3f}"
    cost = "" if solution.cost is None else f", {amount_words(solution.cost, 'usd')}"
    cancelled = f" and {solution.cancelled:,} cancelled when their vote was settled" if solution.cancelled else ""
    traces = f"{count(summary.traces, 'trace')} ({summary.failed:,} failed){cancelled}"
    tokens = f"{count(solution.tokens, 'token')} and {solution.prompt_tokens:,} of prompts"
    share = f"share of answers that no other is ahead of by more than {100 * solution.zone:g} points"
    words = [
        f"{answered_words(summary).capitalize()}, {traces}, {tokens}{cost}.",
        f"Spent {amount_words(solution.spent, solution.unit)} of {amount_words(solution.total, solution.unit)}.",
        f"Expected {share if solution.zone else 'self-consistency'} {expected}.",
    ]
    cap, target = engine.spec.spending.max_traces, engine.spec.spending.target_consistency
    at_cap = cap is not None and solution.traces >= cap * solution.questions
    if solution.complete and at_cap and solution.spent < solution.total:
        words.append(f"Every question has the {cap} traces that --max-traces allows: the rest of the budget was kept.")
    if solution.complete and solution.settled:
        words.append("More traces would change next to nothing: the rest of the budget was kept.")
    if solution.complete and target is not None and mean < target:
        run = "RUN" if solution.run is None else solution.run
        why = f"with at most {cap} per question" if at_cap else "with this budget"
        way = f"pets resume {run} --max-traces {2 * (cap or 1)}" if at_cap else f"pets forecast {run}"
        words.append(f"The target of {target:g} was not reached {why}; go on with: {way}")
    words += remarks(summary, engine.spec.drawn.max_tokens)
    if solution.reused:
        words.append(engine.reused_words)
    if solution.models:
        models, total = engine.spec.serving.models, max(1, sum(solution.models.values()))
        weights = sum(model.weight for model in models)
        parts = (
            f"{model.name} {number:,} ({number / total:.1%} of them; its weight: {model.weight / weights:.1%})"
            for model, number in zip(models, solution.models.values(), strict=True)
        )
        words.append(f"Traces by model: {', '.join(parts)}.")
    if engine.spec.reading.soft:
        words.append(soft_words(engine.allocator))
    if solution.lost:
        words.append(f"{solution.lost} traces were in flight when the run was broken off: charged, without a vote.")
    if solution.faults:
        words.append("Faults: " + ", ".join(f"{name} {count}" for name, count in sorted(solution.faults.items())) + ".")
    if "no log-probabilities" in solution.faults:
        words.append("The server gave no log-probabilities: those traces have no confidence.")
    if not solution.complete:
        note = engine.jobs_left_note
        left = f" {note}; `pets runs cancel {solution.run}` cancels them." if note else ""
        words.append(f"Stopped before the end.{left} {kept_words(engine)}")
    elif solution.run is not None:
        words.append(f"Run {solution.run} of {engine.store_name}.")
    say(*words)
