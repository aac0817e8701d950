"""The report of a run: what was bought, what it saved, where the budget went, and the questions to look at."""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pets.core.budget import amount_words
from pets.core.certificate import expected_consistency
from pets.core.tally import Tally
from pets.engine.forecast import Forecast
from pets.engine.progress import Certifier
from pets.engine.question import Answer
from pets.engine.resume import restored, results, total_so_far
from pets.engine.summary import AnswerSummary
from pets.errors import InputError
from pets.questions import Problem
from pets.report.equal_shares import equal_shares
from pets.report.page import Cell, Page, Tile, VotedQuestion, cut, cut_head
from pets.report.reliability import wilson
from pets.report.run_charts import draw_accuracy, draw_budget, draw_certificates, draw_spending
from pets.store import RunView, StoredTrace
from pets.store.database import DEFAULT_STORE

__all__ = ["run_page"]

LOOKED_AT = 12  # questions, the least certain ones
TRACES_READ = 6  # of each of them
TRACE_CHARACTERS = 4_000
TABLE_QUESTIONS = 2_000
TEXT_CHARACTERS = 140
CERTAIN = 0.9
HORIZON = 8  # times the traces of the run: how far uniform is followed
MIN_HORIZON, MAX_HORIZON = 32, 256


@dataclass(frozen=True, slots=True)
class _Run:
    """What the page needs of a run, read once."""

    view: RunView
    problems: Sequence[Problem]
    answers: Sequence[Answer]
    tallies: Sequence[Tally]
    consistency: tuple[float, float, float]
    uniform: Forecast
    samples: Mapping[str, Sequence[StoredTrace]]

    @property
    def mean_traces(self) -> float:
        return sum(answer.traces for answer in self.answers) / len(self.answers)


def run_page(view: RunView) -> str:
    """The report of a run as one page of HTML; a run at work is reported as it stands."""
    run = _read(view)
    settings, summary = view.settings, AnswerSummary.of(run.answers)
    name = f"Run {view.id}" + (f": {settings.name}" if settings.name else "")
    words = f"{len(run.answers):,} questions, {settings.model or 'a model'}, policy {settings.policy}."
    page = Page(name, f"{words} Made {time.strftime('%Y-%m-%d %H:%M', time.localtime(view.summary().created))}.")
    page.tiles(_tiles(run, summary))
    _budget_section(page, run)
    _difficulty_section(page, run)
    _certificate_section(page, run)
    page.section("Questions to look at", "The least certain answers first. Bars are votes; open a trace to read it.")
    page.questions([_voted(run, place) for place in _least_certain(run)[:LOOKED_AT]])
    _table_section(page, run)
    _again_section(page, run)
    return page.html()


def _read(view: RunView) -> _Run:
    problems = list(view.problems())
    allocator = restored(view)
    answers = list(results(view, allocator, texts=False))
    if not any(answer.traces for answer in answers):
        raise InputError(f"run {view.id} has no trace yet; there is nothing to report.")
    tallies = [allocator.tally(problem.id) for problem in problems]
    certify = Certifier(tallies, allocator.policy.zone)
    consistency = expected_consistency(tallies, certify.prior, zone=certify.zone)
    mean = sum(answer.traces for answer in answers) / len(answers)
    most = min(MAX_HORIZON, max(MIN_HORIZON, round(HORIZON * mean)))
    uniform = equal_shares(tallies, certify.prior, most=most)
    run = _Run(view, problems, answers, tallies, consistency, uniform, {})
    return _Run(view, problems, answers, tallies, consistency, uniform, _samples(run))


def _least_certain(run: _Run) -> list[int]:
    """Places of the questions that were sampled, the least certain first."""
    sampled = [place for place, answer in enumerate(run.answers) if answer.traces]
    return sorted(sampled, key=lambda place: run.answers[place].certificate or 0.0)


def _samples(run: _Run) -> dict[str, list[StoredTrace]]:
    """The first traces of the questions that are looked at."""
    samples: dict[str, list[StoredTrace]] = {}
    for place in _least_certain(run)[:LOOKED_AT]:
        id = run.problems[place].id
        traces: list[StoredTrace] = []
        for trace in run.view.traces(first=place):
            if trace.question != id or len(traces) == TRACES_READ:
                break
            traces.append(trace)
        samples[id] = traces
    return samples


def _tiles(run: _Run, summary: AnswerSummary) -> list[Tile]:
    mean, low, high = run.consistency
    tiles = [_saving(run)]
    tiles.append(Tile("expected self-consistency", f"{mean:.1%}", f"{low:.1%} to {high:.1%}, 95 % interval"))
    if summary.judged:
        share = summary.right / summary.judged
        low, high = wilson(share, summary.judged)
        note = f"{summary.right:,} right of {summary.judged:,}; {low:.1%} to {high:.1%}"
        tiles.append(Tile("accuracy", f"{share:.1%}", note))
    missing = summary.questions - summary.answered
    without = f"{missing:,} without" if missing else "all of them"
    tiles.append(Tile("answered", f"{summary.answered:,}", without))
    tiles.append(Tile("traces", f"{summary.traces:,}", f"{run.mean_traces:.1f} per question"))
    stored = run.view.summary()
    tiles.append(Tile("tokens", f"{stored.tokens:,}", f"and {stored.prompt_tokens:,} of prompts"))
    settings = run.view.settings
    spent, unit = settings.currency.shown(stored.spent)
    total, _ = settings.currency.shown(total_so_far(settings, stored.questions))
    tiles.append(Tile("spent", amount_words(spent, unit), f"of {amount_words(total, unit)}"))
    return tiles


def _saving(run: _Run) -> Tile:
    """What uniform would have needed for the same self-consistency."""
    needed = run.uniform.budget_for(run.consistency[0])
    share = run.mean_traces / (run.uniform.mean_budget[-1] if needed is None else needed)
    number = f"under {share:.0%}" if needed is None else f"{share:.0%}" if share < 1 else "no fewer"
    return Tile("traces, against equal shares", number, _needs(run, needed), sells=share < 1)


def _needs(run: _Run, needed: float | None) -> str:
    number = f"more than {run.uniform.mean_budget[-1]:.0f}" if needed is None else f"about {needed:.1f}"
    return f"uniform would need {number} per question for the same self-consistency (estimated)"


def _budget_section(page: Page, run: _Run) -> None:
    page.section(
        "What the budget bought",
        "The dot is this run, with its 95 % interval. The line is what equal shares would bring, estimated from the "
        "votes of this run: mean and one deviation over draws from what is believed of each question.",
    )
    words = f"{run.consistency[0]:.1%} at {run.mean_traces:.1f} traces per question; {_saving(run).note}"
    page.charts([draw_budget(run.view.settings.policy, run.mean_traces, run.consistency, run.uniform)], words)


def _difficulty_section(page: Page, run: _Run) -> None:
    page.section("Where the budget went", "A dot is a question: hard ones, whose traces disagree, got more traces.")
    shown = run.answers[:: max(1, -(-len(run.answers) // TABLE_QUESTIONS))]
    words = "Traces of each question against the share of votes for its answer."
    page.charts([draw_spending(run.view.settings.policy, shown, run.mean_traces)], words)


def _certificate_section(page: Page, run: _Run) -> None:
    certified = [answer for answer in run.answers if answer.certificate is not None and answer.answer is not None]
    if not certified:
        return
    points = 100 * (run.answers[0].zone or 0.0)
    vote = "it is the vote over infinitely many traces"
    means = f"no other answer is ahead by more than {points:g} points" if points else vote
    page.section("How sure the answers are", f"A certificate is the probability that {means}.")
    charts = [draw_certificates(run.view.settings.policy, certified)]
    if any(answer.right is not None for answer in certified):
        charts.append(draw_accuracy(certified))
    page.charts(charts, f"Certificates of {len(certified):,} answers.")
    if len(charts) > 1:
        what = "how often answers with such certificates are gold"
        page.notes([f"Gold: {what}. A certificate speaks of the model's vote: a model can be sure and wrong."])


def _text_of(problem: Problem) -> str:
    """What was asked: the text, or the last message of a user."""
    content = problem.prompt.content
    if isinstance(content, str):
        return content
    asked = [message.content for message in content if message.role == "user"]
    return str(asked[-1] if asked else content[-1].content)


def _voted(run: _Run, place: int) -> VotedQuestion:
    answer, problem = run.answers[place], run.problems[place]
    facts = [f"{answer.traces} traces"]
    if answer.no_answer:
        facts.append(f"{answer.no_answer} without an answer")
    if answer.gold is not None:
        facts.append(f"gold: {cut(answer.gold)}")
    traces = []
    for trace in run.samples.get(problem.id, ()):
        name = "no answer" if trace.answer is None else cut(trace.answer)
        text = trace.error or trace.text or "(no text was kept)"
        traces.append((f"trace {trace.number}: {name}, {trace.tokens} tokens", text[:TRACE_CHARACTERS]))
    return VotedQuestion(
        answer.id,
        cut_head(_text_of(problem), 3 * TEXT_CHARACTERS),
        answer.answer,
        tuple(answer.votes.items()),
        answer.certificate,
        tuple(facts),
        answer.right is False,
        tuple(traces),
    )


def _table_section(page: Page, run: _Run) -> None:
    places = _least_certain(run)[:TABLE_QUESTIONS]
    left = len(run.answers) - len(places)
    words = f"The {len(places):,} least certain; {left:,} more are in `pets runs export`." if left else ""
    page.section("All questions", words)
    judged = any(answer.right is not None for answer in run.answers)
    columns = ["question", "asked", "answer", *(["gold"] if judged else []), "votes", "certificate", "traces", "tokens"]
    rows, kinds = [], []
    for place in places:
        answer = run.answers[place]
        question = _voted(run, place)
        gold = [Cell("" if answer.gold is None else cut(answer.gold))] if judged else []
        chance = answer.certificate
        rows.append(
            [
                Cell(answer.id),
                Cell(cut_head(_text_of(run.problems[place]), TEXT_CHARACTERS)),
                Cell("no answer" if answer.answer is None else cut(answer.answer)),
                *gold,
                Cell(question.counts(), html=question.bar()),
                Cell("-" if chance is None else f"{chance:.1%}", chance if chance is not None else 0.0),
                Cell(f"{answer.traces:,}", answer.traces),
                Cell(f"{answer.tokens:,}", answer.tokens),
            ]
        )
        unsure = chance is None or chance < CERTAIN
        marks = {"wrong": answer.right is False, "unsure": unsure, "none": answer.answer is None}
        kinds.append([name for name, there in marks.items() if there])
    choices = {"": "all", "unsure": f"certificate under {CERTAIN:.0%}", "none": "no answer"}
    if judged:
        choices["wrong"] = "not gold"
    page.table(columns, rows, choices, kinds)


def _again_section(page: Page, run: _Run) -> None:
    settings = run.view.settings
    page.section("How to make it again", "The same command goes on with this run; with --new it begins another.")
    parts = ["pets", "solve", settings.name or "QUESTIONS", "--budget", settings.budget, "--policy", settings.policy]
    for endpoint in settings.endpoints:
        parts += ["--endpoint", endpoint]
    if settings.model:
        parts += ["--model", settings.model]
    parts += ["--seed", str(settings.seed)]
    plan = settings.more.get("plan", {})
    for name in ("waves", "patience"):
        if plan.get(name) is not None:
            parts += [f"--{name}", str(plan[name])]
    store = [] if run.view.location == DEFAULT_STORE else ["--store", run.view.location]
    page.code(f"{shlex.join(parts + store)}\n{shlex.join(['pets', 'report', str(run.view.id), *store])}")
    page.notes([f"Made by pets {settings.version or 'of an unknown version'}."])
