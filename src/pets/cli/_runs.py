"""What ``pets runs`` shows: a run closely, one of its questions with every trace, two runs side by side."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from heapq import nsmallest
from itertools import takewhile
from typing import Any

from rich.table import Table

from pets.cli._output import count
from pets.cli._tables import print_table
from pets.cli._terminal import echo
from pets.core.budget import amount_words
from pets.engine.models import ModelShare, shares_from_plain
from pets.engine.paired import RunComparison, compare_runs
from pets.engine.progress import expected_of
from pets.engine.question import Answer
from pets.engine.resume import LOST, config_of, restored, results, total_so_far
from pets.engine.summary import AnswerSummary
from pets.errors import InputError
from pets.store import RunSummary, RunView, StoredTrace

__all__ = ["comparison_facts", "print_comparison", "print_facts", "print_question", "question_facts", "run_facts"]
__all__ += ["summary_facts", "when"]

HARDEST_SHOWN = 5
DIFFERENCES_SHOWN = 10
LABEL_CHARACTERS = 21
MERGED = ("unit", "total", "hardest")  # facts that are shown within others


def when(seconds: float) -> str:
    """A time of this machine, with its zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds))


def summary_facts(run: RunSummary) -> dict[str, Any]:
    """A run in a few numbers, as JSON has them."""
    settings = run.settings
    return {
        "run": run.id,
        "state": run.state,
        "created": when(run.created),
        "updated": when(run.updated),
        "set": settings.name,
        "questions": run.questions,
        "traces": run.traces,
        "votes": run.answered,
        "in_flight" if run.state == "running" else "lost": run.lost,
        "tokens": run.tokens,
        "prompt_tokens": run.prompt_tokens,
        "unit": settings.currency.shown(0)[1],
        "spent": settings.currency.shown(run.spent)[0],
        "total": settings.currency.shown(total_so_far(settings, run.questions))[0],
        "policy": settings.policy,
        "model": settings.model,
    }


def run_facts(view: RunView) -> dict[str, Any]:
    """How a run was set up, how far it is, and what its answers are worth by now."""
    summary = view.summary()
    facts = summary_facts(summary) | _settings(summary) | {"faults": view.load("faults") or {}} | _models(view)
    if summary.traces:
        lost, sampled = 0, set()
        for trace in view.traces(texts=False):
            lost += trace.error == LOST
            if trace.error is None:
                sampled.add(trace.question)
        facts |= {"charged_as_lost": lost} | _worth(view, sampled)
    return facts


def _models(view: RunView) -> dict[str, Any]:
    """The models of a mixture, with their weights and what each gave; nothing where one model is asked."""
    shares = _shares(view)
    totals = {total.model: asdict(total) for total in view.by_model()} if shares else {}
    numbers = ("traces", "votes", "tokens", "prompt_tokens")
    rows = [
        {"model": share.name, "weight": share.weight} | {name: totals.get(place, {}).get(name, 0) for name in numbers}
        for place, share in enumerate(shares)
    ]
    return {"models": rows} if rows else {}


def _shares(view: RunView) -> Sequence[ModelShare]:
    """The models of a mixture, as the run's plan has them."""
    return shares_from_plain(view.settings.more.get("plan", {}).get("models", ()))


def _settings(run: RunSummary) -> dict[str, Any]:
    """The rest of the settings; a driver's own first, where it keeps them as a plan."""
    plain = asdict(run.settings)
    more = plain.pop("more")
    shown = {"policy", "model", "name", "total", "currency", "sampling"}
    rest = {key: value for key, value in plain.items() if key not in shown}
    return rest | {"sampling": more.get("plan", {}).get("sampling", {})}


def _worth(view: RunView, sampled: set[str]) -> dict[str, Any]:
    """As at the end of `pets solve`, and which questions are the least certain of those that were sampled."""
    allocator = restored(view)
    expected = expected_of(allocator, [problem.id for problem in view.problems()])
    summary = AnswerSummary()
    answers = _counted(results(view, allocator, texts=False), summary)
    certified = ((a.certificate, a.id) for a in answers if a.id in sampled)
    hardest = nsmallest(HARDEST_SHOWN, certified)
    facts: dict[str, Any] = {"answered": summary.answered}
    if summary.judged:
        facts["accuracy"] = {
            "share": round(summary.accuracy[0], 4),
            "interval": [round(bound, 4) for bound in summary.accuracy[1:]],
            "right": summary.right,
            "judged": summary.judged,
        }
    facts["expected_consistency"] = [round(number, 4) for number in expected]
    facts["hardest"] = [{"id": id, "certificate": round(chance, 4)} for chance, id in hardest]
    return facts


def _counted(answers: Iterator[Answer], summary: AnswerSummary) -> Iterator[Answer]:
    for answer in answers:
        summary.add(answer)
        yield answer


def print_facts(facts: Mapping[str, Any]) -> None:
    """A fact per line for a person."""
    for key, value in facts.items():
        if key not in MERGED:
            _print_fact(key.replace("_", " "), _fact_words(key, value, facts))
    for rank, question in enumerate(facts.get("hardest", ())):
        _print_fact("" if rank else "hardest", f"{question['certificate']:.3f}  {question['id']}")


def _print_fact(label: str, words: str) -> None:
    echo(f"{label:<{LABEL_CHARACTERS}} {words}")


def _fact_words(key: str, value: Any, facts: Mapping[str, Any]) -> str:
    if key == "spent":
        return f"{amount_words(value, facts['unit'])} of {amount_words(facts['total'], facts['unit'])}"
    if key == "expected_consistency":
        mean, low, high = value
        return f"{mean:.2f} ({low:.2f} to {high:.2f})"
    if key == "accuracy":
        low, high = value["interval"]
        right = f"{value['right']:,} right of {value['judged']:,} with gold"
        return f"{value['share']:.3f} ({low:.3f} to {high:.3f}; {right})"
    if key == "models":
        return "; ".join(f"{row['model']} (weight {row['weight']:g}): {count(row['traces'], 'trace')}" for row in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None or value == "" else f"{value:,}" if isinstance(value, int) else str(value)


def question_facts(view: RunView, id: str) -> dict[str, Any]:
    """One question of a run: what was asked, the vote, and every trace with what it said."""
    problems = list(view.problems())
    place = next((place for place, problem in enumerate(problems) if problem.id == id), None)
    if place is None:
        raise InputError(f"run {view.id} asks no question {id!r}; its first is {problems[0].id!r}." if problems else
                         f"run {view.id} has no question yet.")  # fmt: skip
    answer = next(answer for answer in results(view, restored(view), texts=False) if answer.id == id)
    traces = takewhile(lambda trace: trace.question == id, view.traces(first=place))
    prompt = problems[place].prompt.content
    messages = prompt if isinstance(prompt, str) else [asdict(message) for message in prompt]
    facts = answer.to_plain() | {"prompt": messages, "answer_type": problems[place].answer_type}
    facts.pop("text", None)
    return facts | {"sampled": [_trace_facts(trace, _shares(view)) for trace in traces]}


def _trace_facts(trace: StoredTrace, shares: Sequence[ModelShare]) -> dict[str, Any]:
    names = ("number", "answer", "finish", "tokens", "seconds", "error", "text")
    model = {"model": shares[trace.model].name} if shares else {}
    return {name: getattr(trace, name) for name in names} | model


def print_question(facts: Mapping[str, Any]) -> None:
    """The question, its votes and its traces, for a person; what would steer the terminal is shown."""
    prompt = facts["prompt"]
    texts = prompt if isinstance(prompt, str) else "\n".join(f"{part['role']}: {part['content']}" for part in prompt)
    echo(*texts.split("\n"), "")
    votes = sorted(facts["votes"].items(), key=lambda vote: -vote[1])
    _print_fact("answer", "none" if facts["answer"] is None else facts["answer"])
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


def comparison_facts(first: RunView, second: RunView) -> dict[str, Any]:
    """Two runs side by side, over the questions that both ask."""
    sides = []
    for view in (first, second):
        answers = list(results(view, restored(view), texts=False))
        sides.append((answers, _side(view, answers)))
    problems = {problem.id: problem for problem in first.problems()}
    compared = compare_runs(problems, sides[0][0], sides[1][0], config_of(first.settings, first.code).answer)
    if not compared.shared:
        raise InputError(f"runs {first.id} and {second.id} share no question; there is nothing to compare.")
    return {"runs": [side for _, side in sides], **_comparison(compared)}


def _side(view: RunView, answers: list[Answer]) -> dict[str, Any]:
    summary, costs = AnswerSummary.of(answers), [answer.cost for answer in answers if answer.cost is not None]
    return {
        "run": view.id,
        "model": view.settings.model,
        "policy": view.settings.policy,
        "questions": summary.questions,
        "answered": summary.answered,
        "accuracy": round(summary.accuracy[0], 4) if summary.judged else None,
        "accuracy_interval": [round(bound, 4) for bound in summary.accuracy[1:]] if summary.judged else None,
        "traces": summary.traces,
        "tokens": sum(answer.tokens for answer in answers),
        "cost": round(sum(costs), 6) if costs else None,
    }


def _comparison(compared: RunComparison) -> dict[str, Any]:
    paired = compared.accuracy
    accuracy = None
    if paired is not None:
        accuracy = asdict(paired) | {
            "difference": round(paired.difference, 4),
            "interval": [round(bound, 4) for bound in paired.interval],
            "p_value": round(paired.p_value, 4),
        }
    return {
        "shared": compared.shared,
        "first_only": compared.first_only,
        "second_only": compared.second_only,
        "differences": [asdict(difference) for difference in compared.differences],
        "paired_accuracy": accuracy,
    }


def print_comparison(facts: Mapping[str, Any]) -> None:
    """The two runs in a table, whether they differ by more than chance, and where their answers differ."""
    table = Table("run", "model", "policy")
    priced = any(side["cost"] is not None for side in facts["runs"])
    for name in ("questions", "answered", "accuracy", "traces", "tokens", *(["cost"] if priced else [])):
        table.add_column(name, justify="right")
    for side in facts["runs"]:
        numbers = [f"{side[name]:,}" for name in ("questions", "answered")]
        low, high = side["accuracy_interval"] or (0.0, 1.0)
        accuracy = "-" if side["accuracy"] is None else f"{side['accuracy']:.3f} ({low:.3f} to {high:.3f})"
        cost = "-" if side["cost"] is None else amount_words(side["cost"], "usd")
        spent = [f"{side[name]:,}" for name in ("traces", "tokens")]
        table.add_row(
            str(side["run"]), side["model"], side["policy"], *numbers, accuracy, *spent, *([cost] if priced else [])
        )
    print_table(table)
    different = len(facts["differences"])
    verb = "differs" if different == 1 else "differ"
    echo(f"{count(facts['shared'], 'question')} in both; {count(different, 'answer')} {verb}.")
    if (paired := facts["paired_accuracy"]) is not None:
        low, high = paired["interval"]
        echo(
            f"Accuracy of the second less the first: {paired['difference']:+.3f} ({low:+.3f} to {high:+.3f}), p = "
            f"{paired['p_value']:.3f} (exact McNemar: {paired['first_only']} right in the first alone, "
            f"{paired['second_only']} in the second alone, of {paired['judged']})."
        )
    if different:
        _print_differences(facts["differences"])


def _print_differences(differences: list[dict[str, Any]]) -> None:
    table = Table(title="Answers that differ", title_justify="left")
    for name in ("question", "first", "second", "gold"):
        table.add_column(name, overflow="fold")
    for difference in differences[:DIFFERENCES_SHOWN]:
        cells = (difference[name] for name in ("id", "first", "second", "gold"))
        table.add_row(*("-" if cell is None else cell for cell in cells))
    print_table(table)
    if len(differences) > DIFFERENCES_SHOWN:
        echo(f"And {len(differences) - DIFFERENCES_SHOWN:,} more: --format json has them all.", err=True)
