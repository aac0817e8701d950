"""The report of a run: what was bought, what it saved, where the budget went, and the questions to look at.

:func:`read_run` reads all of it from the store once, the ``draw_...`` functions make its charts, :func:`run_page` puts
them on a page.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from pets.core.allocator import Allocator
from pets.core.money import amount_words
from pets.engine.forecast import Forecast
from pets.engine.progress import AnswerSummary, Certifier, TraceTotals, likely_merge, no_vote_words, wilson
from pets.engine.question import Answer, OpenQuestion, group_by_question
from pets.engine.resume import restored, results, spec_of_run, total_so_far
from pets.engine.spec import RunSpec
from pets.errors import InputError
from pets.prompts import Prompt
from pets.questions import Problem
from pets.report.budget_curves import ACCURACY, SELF_CONSISTENCY, Curves, RunQuestion, budget_curves
from pets.report.charts import FEW, Series, curve_panel
from pets.report.commands import QUESTIONS, commands_of, is_stream, judge_command
from pets.report.page import Cell, Page, Tile, VotedQuestion, cut, cut_head
from pets.report.style import DASHED, Chart, LineStyle, colour_of, template
from pets.store import RunView, StoredTrace

LOOKED_AT = 12  # questions, the least certain ones
MERGES_SHOWN = 8  # pairs of answers that may be one
LEVELS_SHOWN = 8
TRACES_READ = 6  # of each of them
CURVE_QUESTIONS = 1_000  # whose traces make the run's curve, evenly spread over the run
HORIZON = 8  # times the traces of the run: how far uniform is followed
MIN_HORIZON, MAX_HORIZON = 32, 256
TRACE_CHARACTERS = 4_000
TABLE_QUESTIONS = 2_000
CHART_QUESTIONS = 20_000
TEXT_CHARACTERS = 140
CERTAIN = 0.9
WARNED_SHARE = 0.1  # of traces without a vote, from which on it is the first thing that the page says
SMALL_USD = 0.001  # less is shown with all of its digits
SHORT_S = 90  # a run that took less is timed in seconds, a longer one in minutes
BINS = 10
AXIS_AIR = 1.06  # times the largest number of traces: a dot at the end is shown whole
IDS_SHOWN = 3  # of the questions behind a dot
EQUAL = "uniform (estimated)"
CLASSES = (
    ("over 90 % agree", 0.9),
    ("60 to 90 %", 0.6),
    ("33 to 60 %", 1 / 3),
    ("under a third", 0.0),
    ("no vote", -1.0),
)
"""How difficult a question is, by the share of its votes that the leading answer has at least."""


@dataclass(frozen=True, slots=True)
class RunData:
    """A run with its answers. ``consistency`` is expected, with a 95 % interval; ``spent`` its curves, if any.

    ``samples`` are the first traces of the questions that are looked at.
    """

    view: RunView
    spec: RunSpec
    problems: Sequence[Problem]
    answers: Sequence[Answer]
    consistency: tuple[float, float, float]
    uniform: Curves
    spent: Curves
    samples: Mapping[str, Sequence[StoredTrace]]

    @property
    def mean_traces(self) -> float:
        """Traces per question."""
        return sum(answer.traces for answer in self.answers) / len(self.answers)

    @property
    def zone(self) -> float:
        """By how much another answer may be ahead, as a share of votes."""
        return next((answer.zone for answer in self.answers if answer.zone), 0.0)


def read_run(view: RunView) -> RunData:
    """Read all of a run; a run at work is read as it stands."""
    spec, problems, allocator = spec_of_run(view.settings, view.code), list(view.problems()), restored(view)
    answers = list(results(view, allocator, texts=False))
    if not any(answer.traces for answer in answers):
        raise InputError(f"run {view.id} has no trace yet; there is nothing to report.")
    decisions = [allocator.decision(problem.id) for problem in problems]
    certify = Certifier(decisions, allocator.policy.zone)
    mean = sum(answer.traces for answer in answers) / len(answers)
    most = min(MAX_HORIZON, max(MIN_HORIZON, round(HORIZON * mean)))
    questions = _questions(view, spec, problems, allocator)
    samples = {}
    for index in least_certain(answers)[:LOOKED_AT]:
        for id, traces in islice(group_by_question(view.traces(first=index)), 1):
            samples[id] = [trace for trace in traces if trace.part is None][:TRACES_READ]
    uniform, spent = budget_curves(questions, certify.fit.prior, allocator.policy, most=most, zone=certify.zone)
    if spec.reading.soft:  # counted otherwise than the votes of the curve
        spent = {}
    return RunData(view, spec, problems, answers, certify.expected(decisions), uniform, spent, samples)


def least_certain(answers: Sequence[Answer]) -> list[int]:
    """Indices of the questions that were sampled, the least certain first."""
    sampled = [index for index, answer in enumerate(answers) if answer.traces]
    return sorted(sampled, key=lambda index: answers[index].certificate)


def _questions(view: RunView, spec: RunSpec, problems: Sequence[Problem], allocator: Allocator) -> list[RunQuestion]:
    """The questions with their votes in launch order, some of them where they are many."""
    chosen = {problem.id: problem for problem in problems[:: max(1, -(-len(problems) // CURVE_QUESTIONS))]}
    groups = {id: group for id, group in group_by_question(view.traces(texts=False)) if id in chosen}
    questions = []
    for id, problem in chosen.items():
        traces = [trace for trace in groups.get(id, []) if trace.part is None]
        question = OpenQuestion(problem, spec.reading.answer)
        names = question.restore(trace.answer for trace in traces if trace.answer is not None)
        right = frozenset(name for name in dict.fromkeys(names.values()) if question.is_right(name))
        classes = tuple(None if trace.answer is None else names[trace.answer] for trace in traces)
        tokens, known = tuple(trace.tokens for trace in traces), question.is_right(None) is not None
        questions.append(RunQuestion(allocator.tally(id), classes, tokens, right if known else None))
    return questions


def run_page(view: RunView) -> str:
    """The report of a run as one page of HTML; a run at work is reported as it stands."""
    run = read_run(view)
    settings, summary, stored = view.settings, AnswerSummary.of(run.answers), view.summary()
    name = f"Run {view.id}" + (f": {settings.name}" if settings.name else "")
    words = f"{len(run.answers):,} questions, {settings.model or 'a model'}, policy {settings.policy}."
    page = Page(name, f"{words} Begun {time.strftime('%Y-%m-%d %H:%M', time.localtime(stored.created))}.")
    if stored.state != "finished":
        at_work = "This run is at work: {} of {} are spent. The page shows it as it stood when it was made."
        stopped = "This run was stopped before its end: {} of {} are spent. A command at the end goes on with it."
        page.warning((at_work if stored.state == "running" else stopped).format(*_spending(run)))
    no_votes = no_vote_words(summary, run.spec.sampling.max_tokens)
    if summary.no_vote_share >= WARNED_SHARE:
        page.warning(no_votes)
    page.tiles(_tiles(run, summary))
    _budget_section(page, run, summary)
    page.section(
        "Where the budget went",
        "Hard questions, whose traces disagree, get more traces. A dot is all questions at its place; the bars compare "
        "what equal shares would give each kind of question with what it got.",
    )
    policy, rows = settings.policy, agreement_classes(run.answers)
    shown = run.answers[:: max(1, -(-len(run.answers) // CHART_QUESTIONS))]
    words = "; ".join(f"{name}: {questions:,} questions, {traces:,} traces" for name, questions, traces in rows)
    page.charts([draw_spending(policy, shown, run.mean_traces), draw_shares(policy, run.answers)], f"{words}.")
    _certificate_section(page, run)
    _merge_section(page, run)
    page.section("Questions to look at", "The least certain answers first. Bars are votes; open a trace to read it.")
    page.questions([_voted(run, index) for index in least_certain(run.answers)[:LOOKED_AT]])
    _table_section(page, run)
    _cost_section(page, run, no_votes)
    commands = commands_of(view, len(run.problems))
    file = f" {QUESTIONS} is the file of the questions ({settings.name})." if QUESTIONS in commands.split() else ""
    words = "The first command samples it anew, the second goes on with this run, the third writes this page."
    if is_stream(settings):
        words = "The first command goes on with this stream, the second writes this page."
    page.section("How to make it again", words + file)
    page.code(commands)
    page.notes([f"Made by pets {settings.version or 'of an unknown version'}."])
    return page.html()


def _spending(run: RunData) -> tuple[str, str]:
    """What is spent and the total, in words."""
    settings, stored = run.view.settings, run.view.summary()
    spent, unit = settings.currency.shown(stored.spent)
    total, _ = settings.currency.shown(total_so_far(settings, stored.questions))
    if unit == "usd" and spent >= SMALL_USD:
        spent = round(spent, 4)
    return amount_words(spent, unit), amount_words(total, unit)


def _tiles(run: RunData, summary: AnswerSummary) -> list[Tile]:
    mean, low, high = run.consistency
    points = f"; another answer may be {100 * run.zone:g} points ahead" if run.zone else ""
    note = f"{low:.1%} to {high:.1%}, 95 % interval{points}"
    tiles = [_saving(run), Tile("expected self-consistency", f"{mean:.1%}", note)]
    if summary.judged:
        share, low, high = summary.accuracy
        note = f"{summary.right:,} right of {summary.judged:,}; {low:.1%} to {high:.1%}, 95 % interval"
        tiles.append(Tile("accuracy", f"{share:.1%}", note))
        levels = summary.levels if len(summary.levels) > 1 else {}
        tiles += [
            Tile(f"accuracy: {level}", f"{right / judged:.1%}", f"{right:,} right of {judged:,}")
            for level, (judged, right) in sorted(levels.items())[:LEVELS_SHOWN]
        ]
    missing = summary.questions - summary.answered
    tiles.append(Tile("questions answered", f"{summary.answered:,}", f"{missing:,} without" if missing else "all"))
    spent, total = _spending(run)
    of = f" of {total}" if run.view.settings.currency.counts_traces else ""
    tiles.append(Tile("traces", f"{summary.traces:,}", f"{run.mean_traces:.1f} per question{of and ';'}{of}"))
    stored = run.view.summary()
    if stored.cancelled:
        worth = f"{stored.cancelled_parts / 1000:,.1f} traces' worth, of votes that were settled"
        tiles.append(Tile("cancelled", f"{stored.cancelled:,}", worth))
    tiles.append(Tile("tokens", f"{stored.tokens:,}", f"and {stored.prompt_tokens:,} of prompts"))
    costs = [answer.cost for answer in run.answers if answer.cost is not None]
    if not of:
        tiles.append(Tile("spent", spent, f"of {total}"))
    elif costs:
        tiles.append(Tile("cost", f"${sum(costs):,.4g}", f"${sum(costs) / len(run.answers):,.3g} per question"))
    return tiles


def _saving(run: RunData) -> Tile:
    """Compare with uniform at the same self-consistency, on the same draws where the run has a curve."""
    sizes = [answer.traces for answer in run.answers]
    if max(sizes) - min(sizes) <= 1:
        note = f"{run.mean_traces:.1f} per question, the same for each"
        return Tile("against equal shares", "no fewer traces", note)
    traces, level, uniform = run.mean_traces, run.consistency[0], run.uniform[SELF_CONSISTENCY]
    if run.spent:
        spent = run.spent[SELF_CONSISTENCY]
        traces, level = float(spent.traces[-1]), float(spent.mean[-1])
    needed = Forecast(uniform.traces, uniform.mean).budget_for(level)
    share = traces / (uniform.traces[-1] if needed is None else needed)
    number = f"more than {uniform.traces[-1]:.0f}" if needed is None else f"about {needed:.1f}"
    note = f"{run.mean_traces:.1f} per question; equal shares would need {number} (estimated)"
    if share >= 1:
        return Tile("against equal shares", "no fewer traces", note)
    under = "under " if needed is None else ""
    return Tile("the same self-consistency for", f"{under}{share:.0%} of the traces", note, headline=True)


def _budget_section(page: Page, run: RunData, summary: AnswerSummary) -> None:
    policy, mean = run.view.settings.policy, run.mean_traces
    line = "The solid line is this run at smaller budgets, its traces in the order of their worth to the policy"
    dot = f"{line}; the dot is its end." if run.spent else "The dot is this run."
    counted = "; the whisker of its accuracy is over questions like these" if summary.judged else ""
    page.section(
        "What the budget bought",
        f"{dot} The dashed line is what equal shares would bring, estimated from the votes of this run. Bands and the "
        f"dot's whisker are 95 % intervals over what the votes leave open{counted}.",
    )
    charts = [draw_budget(policy, SELF_CONSISTENCY, mean, run.consistency, run.spent, run.uniform)]
    words = f"{run.consistency[0]:.1%} self-consistency at {mean:.1f} traces per question. {_saving(run).note}."
    if summary.judged:
        share = summary.accuracy
        charts.append(draw_budget(policy, ACCURACY, mean, share, run.spent, run.uniform))
        words += f" Accuracy {share[0]:.1%}."
    page.charts(charts, words)


def _certificate_section(page: Page, run: RunData) -> None:
    certified = [answer for answer in run.answers if answer.answer is not None]
    if not certified:
        return
    vote = "the answer is the vote over infinitely many traces"
    means = f"no other answer is ahead by more than {100 * run.zone:g} points" if run.zone else vote
    page.section("How sure the answers are", f"A certificate is the probability that {means}.")
    charts = [draw_certificates(run.view.settings.policy, certified)]
    if any(answer.right is not None for answer in certified):
        charts.append(draw_accuracy(certified))
    page.charts(charts, f"Certificates of {len(certified):,} answers.")
    if len(charts) > 1:
        faint = f"Whiskers are 95 % intervals, the numbers are answers; a faint dot stands for fewer than {FEW}."
        page.notes([f"{faint} A certificate speaks of the model's vote: a model can be sure and wrong."])


def _merge_section(page: Page, run: RunData) -> None:
    """Votes that may be one answer in two spellings, where joining them could change the answer, or firm it up."""
    unsure = [run.answers[index] for index in least_certain(run.answers)]
    merges = [(answer.id, words) for answer in unsure if (words := likely_merge(answer))]
    if not merges or is_stream(run.view.settings):
        return
    page.section(
        "Votes that may be split by spelling",
        "These may be one answer. The command votes again over the traces of this run, which are not paid for again, "
        f"and asks the model which answers mean the same. {QUESTIONS} is the file of the questions.",
    )
    page.notes([f"{id}: {words}" for id, words in merges[:MERGES_SHOWN]])
    page.code(judge_command(run.view, len(run.problems)))


def _text_of(run: RunData, index: int) -> str:
    """The text of a question, or the last message of a user, without the instruction that all questions share."""
    problem = run.problems[index]
    content = problem.prompt.content
    if isinstance(content, str):
        text = content
    else:
        text = next((message.content for message in reversed(content) if message.role == "user"), content[-1].content)
    question = text.rpartition("\n\n")[0]
    if not question.strip():
        return text
    bare = replace(problem, prompt=Prompt.question(question))
    return question if run.spec.asked(bare).prompt == Prompt.chat(text) else text


def _voted(run: RunData, index: int) -> VotedQuestion:
    answer = run.answers[index]
    facts = [f"{answer.traces:,} trace{'' if answer.traces == 1 else 's'}"]
    if answer.no_answer:
        facts.append(f"{answer.no_answer} without an answer")
    if answer.gold is not None:
        facts.append(f"gold: {cut(answer.gold)}")
    traces = []
    for trace in run.samples.get(answer.id, ()):
        name = "no answer" if trace.answer is None else cut(trace.spelling or trace.answer)
        text = trace.error or trace.text or "(no text was kept)"
        traces.append((f"trace {trace.number}: {name}, {trace.tokens} tokens", text[:TRACE_CHARACTERS]))
    return VotedQuestion(
        answer.id,
        cut_head(_text_of(run, index), 2 * TEXT_CHARACTERS),
        answer.answer,
        tuple(answer.votes.items()),
        answer.certificate,
        tuple(facts),
        answer.right is False,
        tuple(traces),
    )


def _table_section(page: Page, run: RunData) -> None:
    indices = least_certain(run.answers)[:TABLE_QUESTIONS]
    left = len(run.answers) - len(indices)
    words = f"The {len(indices):,} least certain; {left:,} more are in `pets runs export`." if left else ""
    page.section("All questions", words)
    judged = any(answer.right is not None for answer in run.answers)
    columns = ["question", "asked", "answer", *(["gold"] if judged else []), "votes", "certificate", "traces", "tokens"]
    choices = {"": "all questions", "unsure": f"certificate under {CERTAIN:.0%}", "none": "no answer"}
    if judged:
        choices["wrong"] = "not gold"
    rows, row_kinds = [], []
    for index in indices:
        answer, question = run.answers[index], _voted(run, index)
        kinds = {"wrong": answer.right is False, "unsure": answer.certificate < CERTAIN, "none": answer.answer is None}
        row_kinds.append([name for name, holds in kinds.items() if holds])
        rows.append([
            Cell(answer.id),
            Cell(cut_head(_text_of(run, index), TEXT_CHARACTERS)),
            Cell("no answer" if answer.answer is None else cut(answer.answer)),
            *([Cell("" if answer.gold is None else cut(answer.gold))] if judged else []),
            Cell(question.counts(), html=question.bar()),
            Cell(f"{answer.certificate:.1%}", answer.certificate),
            Cell(f"{answer.traces:,}", answer.traces),
            Cell(f"{answer.tokens:,}", answer.tokens),
        ])  # fmt: skip
    page.table(columns, rows, choices, row_kinds, rising="certificate")


def _cost_section(page: Page, run: RunData, no_votes: str) -> None:
    stored, models = run.view.summary(), [share.name for share in run.spec.serving.models] or [run.view.settings.model]
    spent, total = _spending(run)
    seconds = stored.updated - stored.created
    duration = f"{seconds:.0f} seconds" if seconds < SHORT_S else f"{seconds / 60:,.0f} minutes"
    page.section("What it cost", f"{spent} of {total}, over {duration}.")
    rows = [
        [
            Cell(models[total.model] or "the model"),
            *(Cell(f"{n:,}", n) for n in (total.traces, total.votes, total.tokens, total.prompt_tokens)),
        ]
        for total in run.view.by_model()
    ]
    page.table(["model", "traces", "votes", "tokens", "prompt tokens"], rows)
    notes = [no_votes] if no_votes else []
    if stored.reused:
        totals = TraceTotals(run.spec.price_in_money(run.view.settings.model))
        for trace in run.view.traces(texts=False):
            totals.add(trace)
        notes.append(totals.reused_words(stored.traces))
    if faults := run.view.load("faults"):
        counts = ", ".join(f"{fault} ×{count:,}" for fault, count in sorted(faults.items()))
        notes.append(f"Faults of the servers, tried again: {counts}.")
    if notes:
        page.notes(notes)


def draw_budget(
    policy: str, name: str, mean_traces: float, end: tuple[float, float, float], run: Curves, uniform: Curves
) -> Chart:
    """Self-consistency or accuracy (``name``) against traces: uniform's line, the run's line, and a dot for its end."""
    label = f"{policy} (this run)"
    styles = {label: LineStyle(colour_of(policy)), EQUAL: LineStyle(colour_of("uniform"), DASHED)}
    lines = []
    # Accuracy of equal shares only up to the run's end: gold may be an answer that no trace has given yet.
    budget = max(2.0, np.ceil(mean_traces)) if name == ACCURACY else np.inf
    for own, line, most in ((EQUAL, uniform.get(name), budget), (label, run.get(name), np.inf)):
        if line is not None:
            shown = line.traces <= most
            columns = (column[shown] for column in (line.traces, line.mean, line.low, line.high))
            lines.append(Series(own, False, *columns))
    lines.append(Series(label, True, np.array([mean_traces]), *(np.array([value]) for value in end)))
    return curve_panel(lines, styles, name, AXIS_AIR * max(float(line.traces[-1]) for line in lines))


def agreement(answer: Answer) -> float:
    """The share of its votes that the leading answer has; -1 without any."""
    return max(answer.votes.values()) / sum(answer.votes.values()) if answer.votes else -1.0


def draw_spending(policy: str, answers: Sequence[Answer], mean_traces: float) -> Chart:
    """Traces against the share of votes for the answer; a dot stands for all questions at its place."""
    places: dict[tuple[float, int], list[str]] = {}
    for answer in answers:
        if answer.votes:
            places.setdefault((round(agreement(answer), 2), answer.traces), []).append(answer.id)
    rows = [
        {"share": share, "traces": traces, "questions": len(ids)}
        | {"ids": ", ".join(ids[:IDS_SHOWN]) + (f" and {len(ids) - IDS_SHOWN:,} more" if ids[IDS_SHOWN:] else "")}
        for (share, traces), ids in places.items()
    ]
    most = max((answer.traces for answer in answers), default=1)
    mean = [{"traces": mean_traces, "name": f"{mean_traces:.1f}: the mean"}]
    return template("spending", rows=rows, mean=mean, most=most * 1.05, colour=colour_of(policy))


def agreement_classes(answers: Sequence[Answer]) -> list[tuple[str, int, int]]:
    """Questions and traces of each class of agreement, empty ones left out: (name, questions, traces)."""
    groups: dict[str, list[int]] = {name: [] for name, _ in CLASSES}
    for answer in answers:
        share = agreement(answer)
        groups[next(name for name, least in CLASSES if share >= least)].append(answer.traces)
    return [(name, len(traces), sum(traces)) for name, traces in groups.items() if traces]


def draw_shares(policy: str, answers: Sequence[Answer]) -> Chart:
    """For each class of agreement its share of the questions, which equal shares would give it, and of the traces."""
    classes = agreement_classes(answers)
    questions, traces = sum(row[1] for row in classes), max(1, sum(row[2] for row in classes))
    rows: list[dict[str, Any]] = []
    for name, number, spent in classes:
        rows.append({"agreement": name, "of": "of the questions", "share": number / questions, "count": number})
        rows.append({"agreement": name, "of": "of the traces", "share": spent / traces, "count": spent})
    most, order = min(1.0, 1.12 * max(row["share"] for row in rows)), [name for name, _ in CLASSES]
    return template("shares", rows=rows, most=most, order=order, colour=colour_of(policy))


def draw_certificates(policy: str, answers: Sequence[Answer]) -> Chart:
    """How many questions have which certificate."""
    rows = [
        {"low": index / BINS, "high": (index + 1) / BINS, "questions": len(part)}
        for index, part in enumerate(_binned(answers))
    ]
    counts = [{**row, "middle": (row["low"] + row["high"]) / 2} for row in rows if row["questions"]]
    return template("certificates", rows=rows, counts=counts, colour=colour_of(policy))


def draw_accuracy(answers: Sequence[Answer]) -> Chart:
    """The share that is gold in each bin of certificates, with its 95 % interval; bins of few answers are faint."""
    rows = []
    for part in _binned(answers):
        judged = [answer for answer in part if answer.right is not None]
        if judged:
            share = sum(answer.right is True for answer in judged) / len(judged)
            low, high = wilson(share, len(judged))
            mean = sum(answer.certificate for answer in judged) / len(judged)
            rows.append({"certificate": mean, "right": share, "low": low, "high": high, "questions": len(judged)})
    return template("accuracy", rows=rows, few=f"datum.questions < {FEW}")


def _binned(answers: Sequence[Answer]) -> list[list[Answer]]:
    """Answers by the tenth of their certificate; 1 is in the last."""
    parts: list[list[Answer]] = [[] for _ in range(BINS)]
    for answer in answers:
        parts[min(BINS - 1, int(BINS * answer.certificate))].append(answer)
    return parts
