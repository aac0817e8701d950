"""A comparison of runs as one page of HTML: no scripts, nothing from outside, light and dark, readable on a phone."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["ComparedRun", "VotedQuestion", "comparison_page"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 300, 52, 40, 12, 12
STYLE = """
:root { --ink: #1b1f24; --paper: #fff; --faint: #6b7280; --line: #e5e7eb; --a: #0072b2; --b: #d55e00; --c: #9aa4b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #14171a; --faint: #9aa4b2; --line: #2b3138; }
  :root { --a: #2f86bd; --b: #c2571a; --c: #5b6572; }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 44rem; padding: 1rem; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.15rem; margin-top: 2rem; }
.faint { color: var(--faint); }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: .35rem .5rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
svg { height: auto; max-width: 100%; }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.question { margin: .9rem 0; }
.bar { border-radius: 4px; display: flex; height: 1.25rem; margin-top: .25rem; overflow: hidden; }
.bar span { box-sizing: border-box; color: #fff; font-size: .8rem; overflow: hidden; padding: 0 .3rem; }
.bar span { white-space: nowrap; }
.bar span:nth-child(1) { background: var(--a); }
.bar span:nth-child(2) { background: var(--b); }
.bar span:nth-child(n+3) { background: var(--c); border-left: 1px solid var(--paper); }
"""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One policy's run: its ends, and (mean traces per question, self-consistency) on the way there."""

    name: str
    traces: int
    consistency: float
    accuracy: float
    curve: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class VotedQuestion:
    """One question's votes, with the probability that the leader is the population vote."""

    text: str
    answer: str | None
    votes: tuple[tuple[str, float], ...]
    certificate: float
    population: str | None
    gold: str | None


def comparison_page(
    title: str, lead: str, runs: Sequence[ComparedRun], questions: Sequence[VotedQuestion], notes: Sequence[str]
) -> str:
    """The page: what was done, the table, the curves, the questions that are least sure."""
    rows = "".join(
        f"<tr><td>{escape(run.name)}</td><td>{run.traces:,}</td><td>{run.consistency:.1%}</td>"
        f"<td>{run.accuracy:.1%}</td></tr>"
        for run in runs
    )
    answers = "".join(map(_question, questions))
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1><p>{escape(lead)}</p>"
        "<table><thead><tr><th>policy</th><th>traces</th><th>self-consistency</th><th>accuracy</th></tr></thead>"
        f"<tbody>{rows}</tbody></table><h2>Self-consistency against mean traces per question</h2>{_plot(runs)}"
        f'<h2>The least certain answers</h2>{answers}<h2>What this is</h2><ul class="faint">{items}</ul>'
        "</body></html>\n"
    )


def _plot(runs: Sequence[ComparedRun]) -> str:
    most = max(x for run in runs for x, _ in run.curve)
    least = min(0.9, *(y for run in runs for _, y in run.curve))

    def place(x: float, y: float) -> str:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / most
        down = TOP + (HEIGHT - TOP - BOTTOM) * (1 - y) / (1 - least)
        return f"{across:.1f},{down:.1f}"

    lines = "".join(
        f'<polyline fill="none" stroke="var(--{"ab"[at % 2]})" stroke-width="2.5" '
        f'points="{" ".join(place(x, y) for x, y in run.curve)}"/>'
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - BOTTOM - 12 - 18 * at}" text-anchor="end" '
        f'style="fill:var(--{"ab"[at % 2]});font-weight:600">{escape(run.name)}</text>'
        for at, run in enumerate(runs)
    )
    marks = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place(0, y).split(",")[1]}" y2="{place(0, y).split(",")[1]}" '
        f'stroke="var(--line)"/><text x="{LEFT - 8}" y="{float(place(0, y).split(",")[1]) + 4}" '
        f'text-anchor="end">{y:.0%}</text>'
        for y in (least, (1 + least) / 2, 1.0)
    )
    ticks = "".join(
        f'<text x="{place(x, 1).split(",")[0]}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:g}</text>'
        for x in range(0, round(most) + 1, max(1, round(most) // 8))
    )
    middle = f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 6}" text-anchor="middle">mean traces per question</text>'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{marks}{ticks}{middle}{lines}</svg>'


def _question(question: VotedQuestion) -> str:
    total = sum(weight for _, weight in question.votes) or 1.0
    ranked = sorted(question.votes, key=lambda vote: -vote[1])
    shares = "".join(
        f'<span style="width:{weight / total:.1%}" title="{escape(answer)}: {weight:g}">'
        f"{escape(answer)} {weight:g}</span>"
        for answer, weight in ranked
    )
    right = "no vote" if question.answer is None else escape(question.answer)
    summary = (
        f"answer {right}, certain {question.certificate:.0%}; vote of the whole pool {escape(str(question.population))}"
    )
    gold = "" if question.gold is None else f"; right is {escape(question.gold)}"
    return (
        f'<div class="question">{escape(question.text)}<br><span class="faint">{summary}{gold}</span>'
        f'<div class="bar">{shares}</div></div>'
    )
