"""``pets runs``: the runs of a store, one of them closely, two side by side, and their results as files."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from heapq import nsmallest
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

import click

from pets.answers.auto import kinds_words
from pets.cli._groups import option, verb_group
from pets.cli._output import FORMAT, Format, check_output, count, interval_words, print_rows, print_table, write_output
from pets.cli._run import ANSWER_COLUMNS, answered_words, kept_words, run_jobs, write_answers
from pets.cli._terminal import echo, say
from pets.cli.options import CODE, OUTPUT, STORE, ServerOptions
from pets.core.money import amount_words
from pets.engine import Engine
from pets.engine.batch import batch_samplers
from pets.engine.paired import compare_runs
from pets.engine.progress import AnswerSummary, expected_of
from pets.engine.question import Answer, answer_type_of
from pets.engine.reread import reread_run
from pets.engine.resume import restored, results, spec_of_run, total_so_far
from pets.engine.sources import Servers, sources_of
from pets.errors import InputError, StateError
from pets.pools import Pool, write_pool
from pets.pools.writing import line_of
from pets.report.tables import make_table
from pets.store import RunSummary, RunView, Store
from pets.store.database import DEFAULT_STORE
from pets.store.export import pooled_questions, trace_records
from pets.store.records import LOST

Export = Literal["results", "traces", "pool"]
Facts = Mapping[str, Any]

HARDEST_SHOWN = 5
DIFFERENCES_SHOWN = 10
LABEL_CHARACTERS = 21
MERGED = ("unit", "total", "hardest")  # facts that are shown within others


@verb_group(common=("--store",), invoke_without_command=True)
@click.pass_context
def runs(context: click.Context, store: str | None = STORE, form: Format | None = FORMAT) -> None:
    """The runs of a store; without a command, list them.

    \b
    pets runs --store runs.db
    pets runs show last --store runs.db
    pets runs show 3 --question q7 --store runs.db
    pets runs compare 1 2 --store runs.db
    pets runs export 3 --what pool -o run3.jsonl --store runs.db
    pets runs cancel 3 --store runs.db
    pets runs delete 3 --texts-only --store runs.db

    RUN is a number of the list, or "last". Reading never waits for a run that is at work, nor disturbs it.
    """
    context.obj = store or DEFAULT_STORE
    if context.invoked_subcommand is not None:
        return
    with _store() as opened:
        rows = [_summary_facts(run) for run in opened.runs()]

    def print_people() -> None:
        if not rows:
            say("The store holds no run yet.")
            return
        names, cells = ("policy", "model", "set"), []
        for row in rows:
            spent, unit = row["spent"], row["unit"]
            spent_words = f"{spent:,}" if unit in ("traces", "tokens") else amount_words(spent, unit)
            numbers = (f"{row['questions']:,}", spent_words, amount_words(row["total"], unit))
            cells.append([str(row["run"]), row["created"], row["state"], *numbers, *(row[name] for name in names)])
        print_table(make_table(("run", "when", "state"), ("questions", "spent", "budget"), cells, last=names))

    print_rows(rows, form, print_people)


@runs.verb()
@click.argument("run", default="last")
def show(
    run: str,
    answer: str | None = CODE,
    form: Format | None = FORMAT,
    question: str | None = option("Show this question alone, with its votes and every trace.", metavar="ID"),
) -> None:
    """Show how RUN was set up, how far it is, its accuracy where there is gold, and its least certain questions.

    The expected self-consistency comes with its 95 % interval. With --question, show one question with its votes and
    what every trace said.
    """
    with _store() as opened:
        view = opened.view(run, code=answer)
        facts = _run_facts(view) if question is None else _question_facts(view, question)
    print_rows([facts], form, lambda: (_print_run if question is None else _print_question)(facts))


@runs.verb()
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="OTHER")
def compare(first: str, second: str, answer: str | None = CODE, form: Format | None = FORMAT) -> None:
    """Compare RUN with OTHER over the questions that both ask: answers, accuracy, traces, tokens, cost.

    Accuracy is compared in pairs: the difference with its 95 % interval, and the exact McNemar test.
    """
    with _store() as opened:
        facts = _comparison_facts(opened.view(first, code=answer), opened.view(second, code=answer))
    print_rows([facts], form, lambda: _print_comparison(facts))


@runs.verb()
@click.argument("run", default="last")
def export(
    run: str,
    what: Export = option("What is written.", "results"),
    output: Path | None = option(
        "The file to write, in the format of its suffix: .jsonl, .jsonl.gz, .json, .csv or .parquet. Without one, "
        "JSONL on stdout.",
        flags=("-o", "--output"),
    ),
    texts: bool = option("Write what traces said into a pool too, where the run kept it.", True),
    answer: str | None = CODE,
) -> None:
    """Write the results of RUN so far.

    results: a row per question, as `pets solve` prints them. traces: a row per trace, with its text. pool: the answers
    of each question in launch order, for `pets replay` and `pets mock`; a question without any vote is left out.
    """
    if what != "pool":
        check_output(output, rows=True)
    unvoted = 0
    with _store() as opened:
        view = opened.view(run, code=answer)
        if what == "results":
            written = write_output((row.to_plain() for row in results(view, restored(view))), output, ANSWER_COLUMNS)
        elif what == "traces":
            written = write_output(trace_records(view), output)
        else:
            kind = spec_of_run(view.settings, view.code).reading.answer
            questions = tuple(pooled_questions(view, lambda problem: answer_type_of(problem, kind), texts=texts))
            if not questions:
                raise InputError(f"run {view.id} has no vote yet; a pool needs at least one question with one.")
            if output is None:
                echo(*map(line_of, questions))
            else:
                write_pool(Pool(output.name, questions), output)
            written = len(questions)
            unvoted = view.summary().questions - written
    noun = "trace" if what == "traces" else "question"
    say(f"{output or 'stdout'}: {count(written, noun)} written.")
    if unvoted:
        say(f"{unvoted:,} without a vote left out.")


@runs.verb()
@click.argument("run")
def delete(
    run: str,
    texts_only: bool = option("Delete only the texts, prompts and errors; answers and votes stay.", False),
) -> None:
    """Delete RUN, or what was asked and said in it; its place in the file is overwritten.

    A run without its prompts can still be shown and exported, and no longer resumed.
    """
    with _store() as opened:
        id = opened.delete(run, texts=texts_only)
    say(f"Run {id}: {'texts, prompts and errors' if texts_only else 'everything'} deleted.")


@runs.verb()
@click.argument("run", default="last")
def reread(
    run: str,
    output: Path | None = OUTPUT,
    answer: str | None = option("How the texts are read: number, math, choice, text, ..."),
) -> None:
    """Read the texts of RUN by another answer type and vote anew: a new run, for which nothing is paid.

    \b
    pets runs reread 1 --answer number -o answers.jsonl
    """
    check_output(output, rows=True)
    if answer is None:
        raise InputError("how are the texts to be read? Give --answer number, math, choice, text, ...")
    with _store() as opened:
        view = reread_run(opened, run, answer)
        summary = write_answers(results(view, restored(view)), output, told=False)
        traces = ", ".join(f"{number:,} of run {id}" for id, number in view.reused().items())
        words = f"Run {view.id} of {opened.name}: {traces}, read as {answer}; nothing was paid."
        say(f"{words} {answered_words(summary)}.", *filter(None, [kinds_words(summary.read_as)]))


@runs.verb()
@click.argument("run", default="last")
def cancel(run: str, servers: ServerOptions, answer: str | None = CODE) -> None:
    """Cancel the batch jobs of RUN at their provider; what they had ready is paid for and kept.

    The rest costs nothing and goes back to the budget. `pets resume RUN` asks for what is worth it then.
    """
    with _store() as opened:
        view = opened.view(run)
        id, settings, in_flight = view.id, view.settings, len(list(view.lost()))
    urls = servers.endpoint or settings.endpoints
    if not settings.batch_api:
        raise StateError(f"run {id} is not by batch jobs; `pets runs` lists the runs of the store.")
    if not urls:
        raise InputError("this run goes by files, not by a provider: there is nothing to cancel.")
    if not in_flight:
        say(f"Run {id} has no open job: there is nothing to cancel.")
        return
    asked = Servers(urls, settings.model, servers.keys, servers.headers)
    samplers = sources_of(asked, spec_of_run(settings)).samplers
    for sampler in batch_samplers(samplers):
        sampler.provider.cancels = True
    engine = Engine.resume(click.get_current_context().obj, id, sampler=samplers, answer=answer)
    asyncio.run(run_jobs(engine, drain=True))
    missing, traces = count(in_flight, "trace"), count(engine.solution().traces, "trace")
    say(f"{missing} had not come back; the run has {traces} now. {kept_words(engine)}")


def _store() -> Store:
    """The store that ``--store`` names."""
    return Store.open(click.get_current_context().obj, create=False)


def _local_time(seconds: float) -> str:
    """The time of this machine with its zone; ``seconds`` are since 1970."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds))


def _summary_facts(run: RunSummary) -> dict[str, Any]:
    settings = run.settings
    return {
        "run": run.id,
        "state": run.state,
        "created": _local_time(run.created),
        "updated": _local_time(run.updated),
        "set": settings.name,
        "questions": run.questions,
        "traces": run.traces,
        "votes": run.answered,
        "in_flight" if run.state == "running" else "lost": run.lost,
        "cancelled": run.cancelled,
        "cancelled_traces_worth": run.cancelled_parts / 1000,
        "tokens": run.tokens,
        "prompt_tokens": run.prompt_tokens,
        "unit": settings.currency.shown(0)[1],
        "spent": settings.currency.shown(run.spent)[0],
        "total": settings.currency.shown(total_so_far(settings, run.questions))[0],
        "policy": settings.policy,
        "model": settings.model,
    }


def _run_facts(view: RunView) -> Facts:
    """The settings of a run, its progress, and the quality of its answers so far."""
    summary = view.summary()
    record, spec = view.settings, spec_of_run(view.settings)
    facts: dict[str, Any] = _summary_facts(summary) | {
        "budget": record.budget,
        "cap": spec.spending.max_traces,
        "seed": spec.serving.seed,
        "endpoints": list(record.endpoints),
        "confidence": spec.confidence_kind,
        "concurrency": spec.pacing.in_flight,
        "version": record.version,
        "sampling": asdict(spec.sampling),
        "faults": view.load("faults") or {},
    }
    if shares := spec.serving.models:
        totals = {total.model: asdict(total) for total in view.by_model()}
        numbers = ("traces", "votes", "tokens", "prompt_tokens")
        facts["models"] = [
            {"model": share.name, "weight": share.weight} | {name: totals.get(at, {}).get(name, 0) for name in numbers}
            for at, share in enumerate(shares)
        ]
    if reused := view.reused():
        facts["reused"] = {f"run {run}": traces for run, traces in reused.items()}
    if summary.traces:
        lost = sum(trace.error == LOST for trace in view.traces(texts=False))
        facts |= {"charged_as_lost": lost} | _worth(view)
    return facts


def _worth(view: RunView) -> dict[str, Any]:
    """The figures at the end of `pets solve`, and the least certain of the questions that were sampled."""
    allocator, summary = restored(view), AnswerSummary()
    expected = expected_of(allocator, [problem.id for problem in view.problems()])

    def certificates() -> Iterator[tuple[float, str]]:
        for answer in results(view, allocator, texts=False):
            summary.add(answer)
            if answer.votes or answer.cut or answer.refused or answer.unreadable:
                yield answer.certificate, answer.id

    hardest = nsmallest(HARDEST_SHOWN, certificates())
    facts: dict[str, Any] = {"answered": summary.answered}
    if summary.judged:
        share, *interval = (round(number, 4) for number in summary.accuracy)
        facts["accuracy"] = {"share": share, "interval": interval, "right": summary.right, "judged": summary.judged}
    facts["expected_consistency"] = [round(number, 4) for number in expected]
    facts["hardest"] = [{"id": id, "certificate": round(chance, 4)} for chance, id in hardest]
    return facts


def _print_run(facts: Facts) -> None:
    for key, value in facts.items():
        if key not in MERGED:
            _print_fact(key.replace("_", " "), _fact_words(key, value, facts))
    for rank, question in enumerate(facts.get("hardest", ())):
        _print_fact("" if rank else "hardest", f"{question['certificate']:.3f}  {question['id']}")


def _print_fact(label: str, words: str) -> None:
    echo(f"{label:<{LABEL_CHARACTERS}} {words}")


def _fact_words(key: str, value: Any, facts: Facts) -> str:
    if key == "spent":
        return f"{amount_words(value, facts['unit'])} of {amount_words(facts['total'], facts['unit'])}"
    if key == "expected_consistency":
        mean, low, high = value
        return f"{mean:.2f} ({low:.2f} to {high:.2f})"
    if key == "accuracy":
        share = interval_words(value["share"], *value["interval"]).removesuffix(")")
        return f"{share}; {value['right']:,} right of {value['judged']:,} with gold)"
    if key == "models":
        return "; ".join(f"{row['model']} (weight {row['weight']:g}): {count(row['traces'], 'trace')}" for row in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if value is None or value == "":
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _question_facts(view: RunView, id: str) -> Facts:
    """One question of a run: the prompt, the vote, and every trace with its text."""
    problems = list(view.problems())
    if not problems:
        raise InputError(f"run {view.id} has no question yet.")
    position = next((position for position, problem in enumerate(problems) if problem.id == id), None)
    if position is None:
        raise InputError(f"run {view.id} asks no question {id!r}; its first is {problems[0].id!r}.")
    answer = next(answer for answer in results(view, restored(view), texts=False) if answer.id == id)
    prompt = problems[position].prompt.content
    messages = prompt if isinstance(prompt, str) else [asdict(message) for message in prompt]
    facts = answer.to_plain() | {"prompt": messages, "answer_type": problems[position].answer_type}
    facts.pop("text", None)
    shares = spec_of_run(view.settings).serving.models
    names = ("number", "finish", "tokens", "seconds", "error", "text")
    facts["sampled"] = [
        {"answer": trace.spelling or trace.answer, "canonical": trace.answer}
        | {name: getattr(trace, name) for name in names}
        | ({"model": shares[trace.model].name} if shares else {})
        for trace in takewhile(lambda trace: trace.question == id, view.traces(first=position))
    ]
    return facts


def _print_question(facts: Facts) -> None:
    prompt = facts["prompt"]
    texts = prompt if isinstance(prompt, str) else "\n".join(f"{part['role']}: {part['content']}" for part in prompt)
    echo(*texts.split("\n"), "")
    votes = sorted(facts["votes"].items(), key=lambda vote: -vote[1])
    _print_fact("answer", "none" if facts["answer"] is None else facts["answer"])
    if facts["canonical"] != facts["answer"]:
        _print_fact("compared as", facts["canonical"])
    if facts.get("gold") is not None:
        verdict = {True: " (right)", False: " (the answer is wrong)", None: ""}[facts.get("right")]
        _print_fact("gold", f"{facts['gold']}{verdict}")
    _print_fact("votes", ", ".join(f"{answer} {weight:g}" for answer, weight in votes) or "none")
    _print_fact("certificate", f"{facts['certificate']:.3f}")
    _print_fact("traces", f"{facts['traces']:,}, of them {facts['no_answer']:,} without an answer")
    for trace in facts["sampled"]:
        answer = "no answer" if trace["answer"] is None else f"answer {trace['answer']}"
        finish = ", ".join(filter(None, (trace["error"] or trace["finish"] or "-", trace.get("model"))))
        echo("", f"trace {trace['number']}: {answer}, {count(trace['tokens'], 'token')}, {finish}")
        for line in trace["text"].splitlines():
            echo(f"    {line}")


def _comparison_facts(first: RunView, second: RunView) -> Facts:
    """Two runs side by side, over the questions that both ask."""
    ours, theirs = (list(results(view, restored(view), texts=False)) for view in (first, second))
    problems = {problem.id: problem for problem in first.problems()}
    compared = compare_runs(problems, ours, theirs, spec_of_run(first.settings, first.code).reading.answer)
    if not compared.shared:
        raise InputError(f"runs {first.id} and {second.id} share no question; there is nothing to compare.")
    accuracy = None
    if (paired := compared.accuracy) is not None:
        accuracy = asdict(paired) | {"difference": round(paired.difference, 4)}
        accuracy |= {"interval": [round(bound, 4) for bound in paired.interval], "p_value": round(paired.p_value, 4)}
    return {
        "runs": [_side(first, ours), _side(second, theirs)],
        "shared": compared.shared,
        "shared_traces": first.shared_with(second),
        "first_only": compared.first_only,
        "second_only": compared.second_only,
        "differences": [asdict(difference) for difference in compared.differences],
        "paired_accuracy": accuracy,
    }


def _side(view: RunView, answers: list[Answer]) -> Facts:
    summary, costs = AnswerSummary.of(answers), [answer.cost for answer in answers if answer.cost is not None]
    accuracy = [round(number, 4) for number in summary.accuracy] if summary.judged else None
    return {
        "run": view.id,
        "model": view.settings.model,
        "policy": view.settings.policy,
        "questions": summary.questions,
        "answered": summary.answered,
        "accuracy": accuracy and accuracy[0],
        "accuracy_interval": accuracy and accuracy[1:],
        "traces": summary.traces,
        "tokens": sum(answer.tokens for answer in answers),
        "cost": round(sum(costs), 6) if costs else None,
    }


def _print_comparison(facts: Facts) -> None:
    """Print the two runs in a table, whether they differ by more than chance, and where their answers differ."""
    columns = ["questions", "answered", "accuracy", "traces", "tokens"]
    if any(side["cost"] is not None for side in facts["runs"]):
        columns.append("cost")
    names = ("run", "model", "policy")
    rows = []
    for side in facts["runs"]:
        cells = {name: "-" if side[name] is None else f"{side[name]:,}" for name in columns}
        if side["accuracy"] is not None:
            cells["accuracy"] = interval_words(side["accuracy"], *side["accuracy_interval"])
        if side["cost"] is not None:
            cells["cost"] = amount_words(side["cost"], "usd")
        rows.append([*(str(side[name]) for name in names), *cells.values()])
    print_table(make_table(names, columns, rows))
    different = len(facts["differences"])
    verb = "differs" if different == 1 else "differ"
    echo(f"{count(facts['shared'], 'question')} in both; {count(different, 'answer')} {verb}.")
    if traces := facts["shared_traces"]:
        echo(f"{count(traces, 'trace')} are in both, paid for once: the two runs are no independent samples.")
    if (paired := facts["paired_accuracy"]) is not None:
        low, high = paired["interval"]
        echo(
            f"Accuracy of the second less the first: {paired['difference']:+.3f} ({low:+.3f} to {high:+.3f}), p = "
            f"{paired['p_value']:.3f} (exact McNemar: {paired['first_only']} right in the first alone, "
            f"{paired['second_only']} in the second alone, of {paired['judged']})."
        )
    if different:
        columns = ["id", "first", "second", "gold"]
        shown = facts["differences"][:DIFFERENCES_SHOWN]
        rows = [["-" if difference[name] is None else difference[name] for name in columns] for difference in shown]
        print_table(make_table(("question", *columns[1:]), (), rows, title="Answers that differ"))
    if different > DIFFERENCES_SHOWN:
        say(f"And {different - DIFFERENCES_SHOWN:,} more: --format jsonl has them all.")
