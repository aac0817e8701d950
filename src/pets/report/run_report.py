"""The report of a run: what was bought, what it saved, where the budget went, and the questions to look at."""

import time
from dataclasses import replace

from pets.core.budget import amount_words
from pets.engine.question import Answer
from pets.engine.resume import total_so_far
from pets.engine.summary import AnswerSummary, no_vote_words
from pets.prompts import Prompt
from pets.report.again import QUESTIONS, commands_of, is_stream
from pets.report.page import Cell, Page, Tile, VotedQuestion, cut, cut_head
from pets.report.reliability import FEW
from pets.report.run_charts import (
    agreement_classes,
    draw_accuracy,
    draw_budget,
    draw_certificates,
    draw_shares,
    draw_spending,
)
from pets.report.run_data import LOOKED_AT, RunData, least_certain, read_run
from pets.store import RunView

__all__ = ["run_page"]

TRACE_CHARACTERS = 4_000
TABLE_QUESTIONS = 2_000
CHART_QUESTIONS = 20_000
TEXT_CHARACTERS = 140
CERTAIN = 0.9
WARNED_SHARE = 0.1  # of traces without a vote, from which on it is the first thing that the page says
SMALL_USD = 0.001  # less is shown with all of its digits
SHORT_S = 90  # a run that took less is timed in seconds, a longer one in minutes


def run_page(view: RunView) -> str:
    """The report of a run as one page of HTML; a run at work is reported as it stands."""
    run = read_run(view)
    settings, summary, stored = view.settings, AnswerSummary.of(run.answers), view.summary()
    name = f"Run {view.id}" + (f": {settings.name}" if settings.name else "")
    words = f"{len(run.answers):,} questions, {settings.model or 'a model'}, policy {settings.policy}."
    page = Page(name, f"{words} Begun {time.strftime('%Y-%m-%d %H:%M', time.localtime(stored.created))}.")
    if stored.state != "finished":
        page.warning(_unfinished(run))
    no_votes = no_vote_words(summary, run.config.sampling.max_tokens)
    if summary.no_vote_share >= WARNED_SHARE:
        page.warning(no_votes)
    page.tiles(_tiles(run, summary))
    _budget_section(page, run, summary)
    _difficulty_section(page, run)
    _certificate_section(page, run)
    page.section("Questions to look at", "The least certain answers first. Bars are votes; open a trace to read it.")
    page.questions([_voted(run, place) for place in least_certain(run.answers)[:LOOKED_AT]])
    _table_section(page, run)
    _cost_section(page, run, no_votes)
    _again_section(page, run)
    return page.html()


def _spending(run: RunData) -> tuple[str, str]:
    """What is spent, and of what."""
    settings, stored = run.view.settings, run.view.summary()
    spent, unit = settings.currency.shown(stored.spent)
    total, _ = settings.currency.shown(total_so_far(settings, stored.questions))
    if unit == "usd" and spent >= SMALL_USD:
        spent = round(spent, 4)
    return amount_words(spent, unit), amount_words(total, unit)


def _unfinished(run: RunData) -> str:
    spent, total = _spending(run)
    if run.view.state() == "running":
        return f"This run is at work: {spent} of {total} are spent. The page shows it as it stood when it was made."
    return f"This run was stopped before its end: {spent} of {total} are spent. A command at the end goes on with it."


def _tiles(run: RunData, summary: AnswerSummary) -> list[Tile]:
    mean, low, high = run.consistency
    points = f"; another answer may be {100 * run.zone:g} points ahead" if run.zone else ""
    note = f"{low:.1%} to {high:.1%}, 95 % interval{points}"
    tiles = [_saving(run), Tile("expected self-consistency", f"{mean:.1%}", note)]
    if summary.judged:
        share, low, high = summary.accuracy
        note = f"{summary.right:,} right of {summary.judged:,}; {low:.1%} to {high:.1%}, 95 % interval"
        tiles.append(Tile("accuracy", f"{share:.1%}", note))
    missing = summary.questions - summary.answered
    tiles.append(Tile("questions answered", f"{summary.answered:,}", f"{missing:,} without" if missing else "all"))
    spent, total = _spending(run)
    of = f" of {total}" if spent.endswith("traces") else ""
    tiles.append(Tile("traces", f"{summary.traces:,}", f"{run.mean_traces:.1f} per question{of and ';'}{of}"))
    stored = run.view.summary()
    tiles.append(Tile("tokens", f"{stored.tokens:,}", f"and {stored.prompt_tokens:,} of prompts"))
    costs = [answer.cost for answer in run.answers if answer.cost is not None]
    if not of:
        tiles.append(Tile("spent", spent, f"of {total}"))
    elif costs:
        tiles.append(Tile("cost", f"${sum(costs):,.4g}", f"${sum(costs) / len(run.answers):,.3g} per question"))
    return tiles


def _saving(run: RunData) -> Tile:
    """What uniform would have needed for the same self-consistency, on the same draws where the run has a curve."""
    sizes = [answer.traces for answer in run.answers]
    if max(sizes) - min(sizes) <= 1:
        note = f"{run.mean_traces:.1f} per question, the same for each"
        return Tile("against equal shares", "no fewer traces", note)
    traces, level = run.mean_traces, run.consistency[0]
    if run.spent is not None:
        traces, level = float(run.spent.traces[-1]), float(run.spent.consistency[-1])
    needed = run.uniform.budget_for(level)
    share = traces / (run.uniform.traces[-1] if needed is None else needed)
    note = _needs(run, needed)
    if share >= 1:
        return Tile("against equal shares", "no fewer traces", note)
    under = "under " if needed is None else ""
    return Tile("the same self-consistency for", f"{under}{share:.0%} of the traces", note, sells=True)


def _needs(run: RunData, needed: float | None) -> str:
    number = f"more than {run.uniform.traces[-1]:.0f}" if needed is None else f"about {needed:.1f}"
    return f"{run.mean_traces:.1f} per question; equal shares would need {number} (estimated)"


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
    charts = [draw_budget(policy, "self-consistency", mean, run.consistency, run.spent, run.uniform)]
    words = f"{run.consistency[0]:.1%} self-consistency at {mean:.1f} traces per question. {_saving(run).note}."
    if summary.judged:
        share = summary.accuracy
        charts.append(draw_budget(policy, "accuracy", mean, share, run.spent, run.uniform))
        words += f" Accuracy {share[0]:.1%}."
    page.charts(charts, words)


def _difficulty_section(page: Page, run: RunData) -> None:
    page.section(
        "Where the budget went",
        "Hard questions, whose traces disagree, get more traces. A dot is all questions at its place; the bars compare "
        "what equal shares would give each kind of question with what it got.",
    )
    shown = run.answers[:: max(1, -(-len(run.answers) // CHART_QUESTIONS))]
    policy = run.view.settings.policy
    rows = agreement_classes(run.answers)
    words = "; ".join(f"{name}: {questions:,} questions, {traces:,} traces" for name, questions, traces in rows)
    page.charts([draw_spending(policy, shown, run.mean_traces), draw_shares(policy, run.answers)], f"{words}.")


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


def _text_of(run: RunData, place: int) -> str:
    """What was asked: the text, or the last message of a user; without the instruction, which all questions share."""
    problem = run.problems[place]
    content = problem.prompt.content
    texts = [] if isinstance(content, str) else [message.content for message in content if message.role == "user"]
    text = content if isinstance(content, str) else texts[-1] if texts else content[-1].content
    question = text.rpartition("\n\n")[0]
    if not question.strip():
        return text
    bare = replace(problem, prompt=Prompt.question(question))
    return question if run.config.asked(bare).prompt == Prompt.chat(text) else text


def _voted(run: RunData, place: int) -> VotedQuestion:
    answer, problem = run.answers[place], run.problems[place]
    facts = [f"{answer.traces:,} trace{'' if answer.traces == 1 else 's'}"]
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
        cut_head(_text_of(run, place), 2 * TEXT_CHARACTERS),
        answer.answer,
        tuple(answer.votes.items()),
        answer.certificate,
        tuple(facts),
        answer.right is False,
        tuple(traces),
    )


def _table_section(page: Page, run: RunData) -> None:
    places = least_certain(run.answers)[:TABLE_QUESTIONS]
    left = len(run.answers) - len(places)
    words = f"The {len(places):,} least certain; {left:,} more are in `pets runs export`." if left else ""
    page.section("All questions", words)
    judged = any(answer.right is not None for answer in run.answers)
    columns = ["question", "asked", "answer", *(["gold"] if judged else []), "votes", "certificate", "traces", "tokens"]
    choices = {"": "all questions", "unsure": f"certificate under {CERTAIN:.0%}", "none": "no answer"}
    if judged:
        choices["wrong"] = "not gold"
    rows = [_row(run, place, judged) for place in places]
    kinds = [_kinds(run.answers[place]) for place in places]
    page.table(columns, rows, choices, kinds, rising="certificate")


def _row(run: RunData, place: int, judged: bool) -> list[Cell]:
    answer, question = run.answers[place], _voted(run, place)
    gold = [Cell("" if answer.gold is None else cut(answer.gold))] if judged else []
    chance = answer.certificate
    return [
        Cell(answer.id),
        Cell(cut_head(_text_of(run, place), TEXT_CHARACTERS)),
        Cell("no answer" if answer.answer is None else cut(answer.answer)),
        *gold,
        Cell(question.counts(), html=question.bar()),
        Cell("-" if chance is None else f"{chance:.1%}", chance if chance is not None else 0.0),
        Cell(f"{answer.traces:,}", answer.traces),
        Cell(f"{answer.tokens:,}", answer.tokens),
    ]


def _kinds(answer: Answer) -> list[str]:
    unsure = answer.certificate < CERTAIN
    marks = {"wrong": answer.right is False, "unsure": unsure, "none": answer.answer is None}
    return [name for name, there in marks.items() if there]


def _cost_section(page: Page, run: RunData, no_votes: str) -> None:
    stored, models = run.view.summary(), [share.name for share in run.config.models] or [run.view.settings.model]
    spent, total = _spending(run)
    page.section("What it cost", f"{spent} of {total}, over {_duration(stored.updated - stored.created)}.")
    rows = [
        [
            Cell(models[total.model] or "the model"),
            *(Cell(f"{n:,}", n) for n in (total.traces, total.votes, total.tokens, total.prompt_tokens)),
        ]
        for total in run.view.by_model()
    ]
    page.table(["model", "traces", "votes", "tokens", "prompt tokens"], rows)
    notes = [no_votes] if no_votes else []
    if faults := run.view.load("faults"):
        counts = ", ".join(f"{fault} ×{count:,}" for fault, count in sorted(faults.items()))
        notes.append(f"Faults of the servers, tried again: {counts}.")
    if notes:
        page.notes(notes)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < SHORT_S else f"{seconds / 60:,.0f} minutes"


def _again_section(page: Page, run: RunData) -> None:
    settings = run.view.settings
    commands = commands_of(run.view, len(run.problems))
    file = f" {QUESTIONS} is the file of the questions ({settings.name})." if QUESTIONS in commands.split() else ""
    words = "The first command samples it anew, the second goes on with this run, the third writes this page."
    if is_stream(settings):
        words = "The first command goes on with this stream, the second writes this page."
    page.section("How to make it again", words + file)
    page.code(commands)
    page.notes([f"Made by pets {settings.version or 'of an unknown version'}."])
