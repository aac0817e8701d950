"""The demo as one page of HTML: no scripts, nothing from outside, light and dark, readable on a phone."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pets.report.style import GREY, colour_of

__all__ = ["BandedCurve", "DemoPage", "DifficultyClass", "VotedQuestion", "demo_page"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 420, 290, 44, 42, 18, 10  # narrow, so that a phone shrinks no letters
VOTES_SHOWN = 4  # answers with a part of the bar of their own; the others share the last one
ANSWER_CHARACTERS = 28
STYLE = """
:root { --ink: #1b1f24; --paper: #fff; --faint: #5f6875; --line: #e5e7eb; }
:root { --first: #3f7d5c; --second: #8a94a3; --third: #aeb6c2; --rest: #d3d8df; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #14171a; --faint: #9aa4b2; --line: #2b3138; }
  :root { --first: #4f9a73; --second: #6f7a88; --third: #525c68; --rest: #39414a; }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 40rem; overflow-wrap: break-word; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin-top: 2rem; }
.faint { color: var(--faint); }
svg { display: block; height: auto; max-width: 100%; width: 36rem; }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.row { margin: .8rem 0; }
.bar { display: flex; height: 1.1rem; margin: .2rem 0; }
.bar span { border-left: 1px solid var(--paper); box-sizing: border-box; }
.votes span:nth-child(1) { background: var(--first); }
.votes span:nth-child(2) { background: var(--second); }
.votes span:nth-child(3) { background: var(--third); }
.votes span:nth-child(n+4) { background: var(--rest); }
.given { align-items: center; display: grid; gap: .5rem; grid-template-columns: 4.5rem 1fr 3rem; }
.given b { font-weight: 400; text-align: right; }
.given i { border-radius: 2px; display: block; height: .8rem; }
"""


@dataclass(frozen=True, slots=True)
class BandedCurve:
    """A policy's self-consistency against mean traces per question: (traces, mean, deviation) at each point.

    ``crossing`` is where the mean curve reaches the page's level, ``None`` where it never does.
    """

    name: str
    points: tuple[tuple[float, float, float], ...]
    crossing: float | None


@dataclass(frozen=True, slots=True)
class DifficultyClass:
    """Questions of one difficulty, and the traces per question that each policy gave them."""

    label: str
    questions: int
    traces: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class VotedQuestion:
    """One question's votes, with the probability that the leader is the vote over infinitely many traces."""

    text: str
    answer: str | None
    votes: tuple[tuple[str, int], ...]
    certificate: float
    population: str | None
    gold: str | None

    def shown(self) -> list[tuple[str, int]]:
        """The leading answers with their votes, and what all others have together."""
        ranked = sorted(self.votes, key=lambda vote: -vote[1])
        rest = sum(number for _, number in ranked[VOTES_SHOWN:])
        number = len(ranked) - VOTES_SHOWN
        others = [(f"{number} other{'' if number == 1 else 's'}", rest)] if rest else []
        return [(_cut(answer), number) for answer, number in ranked[:VOTES_SHOWN]] + others


@dataclass(frozen=True, slots=True)
class DemoPage:
    """What the page tells: the recorded comparison, where the traces went, and the live model's votes."""

    title: str
    lead: str
    curves: tuple[BandedCurve, ...]
    level: float
    given: str
    classes: tuple[DifficultyClass, ...]
    live: str
    questions: tuple[VotedQuestion, ...]
    notes: tuple[str, ...]


def demo_page(page: DemoPage) -> str:
    """The page as HTML."""
    most = max((traces for group in page.classes for _, traces in group.traces), default=1.0)
    parts = [
        f"<h1>{escape(page.title)}</h1><p>{escape(page.lead)}</p>",
        _plot(page.curves, page.level),
        f'<h2>Where the traces went</h2><p class="faint">{escape(page.given)}</p>',
        *(_class(group, most) for group in page.classes),
        f'<h2>Live, on this machine</h2><p class="faint">{escape(page.live)}</p>',
        *map(_question, page.questions),
        f'<h2>What this is</h2><ul class="faint">{"".join(f"<li>{escape(note)}</li>" for note in page.notes)}</ul>',
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(page.title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _cut(answer: str) -> str:
    return answer if len(answer) <= ANSWER_CHARACTERS else f"{answer[: ANSWER_CHARACTERS - 1]}…"


@dataclass(frozen=True, slots=True)
class _Axes:
    """From traces and self-consistency to places in the picture."""

    most: float
    least: float

    def x(self, traces: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * traces / self.most

    def y(self, consistency: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - consistency) / (1 - self.least)

    def place(self, traces: float, consistency: float) -> str:
        inside = min(1.0, max(self.least, consistency))
        return f"{self.x(traces):.1f},{self.y(inside):.1f}"


def _plot(curves: Sequence[BandedCurve], level: float) -> str:
    points = [point for curve in curves for point in curve.points]
    least = min(9, int(10 * min(mean - deviation for _, mean, deviation in points))) / 10
    axes = _Axes(max(traces for traces, *_ in points), max(0.0, least))
    frame = _frame(axes) + _text(LEFT, TOP - 4, "questions with the answer of all traces", anchor="start")
    line = (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{axes.y(level):.1f}" y2="{axes.y(level):.1f}" '
        f'stroke="{GREY}" stroke-dasharray="4 3"/>'
    )
    drawn = "".join(_curve(axes, curve, level) for curve in curves)
    words = "; ".join(f"{c.name} reaches {level:.0%} at {c.crossing:.1f}" for c in curves if c.crossing is not None)
    label = escape(f"Self-consistency against mean traces per question. {words}")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{frame}{line}{drawn}</svg>'


def _frame(axes: _Axes) -> str:
    """Grid, numbers and the name of the axis of traces."""
    tenths = range(round(10 * axes.least), 11)
    grid = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{axes.y(t / 10):.1f}" y2="{axes.y(t / 10):.1f}" '
        f'stroke="var(--line)"/>{_text(LEFT - 6, axes.y(t / 10) + 4, f"{t / 10:.0%}", anchor="end")}'
        for t in tenths
    )
    step = next((step for step in (1, 2, 4, 8, 16, 32, 64) if axes.most / step <= 8), 128)
    ticks = "".join(
        _text(axes.x(traces), HEIGHT - BOTTOM + 16, str(traces)) for traces in range(0, int(axes.most) + 1, step)
    )
    return grid + ticks + _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "traces per question, on average")


def _curve(axes: _Axes, curve: BandedCurve, level: float) -> str:
    """The mean, a band of one deviation, and a dot with its number where the level is reached."""
    colour = colour_of(curve.name)
    upper = [axes.place(traces, mean + deviation) for traces, mean, deviation in curve.points]
    lower = [axes.place(traces, mean - deviation) for traces, mean, deviation in reversed(curve.points)]
    means = " ".join(axes.place(traces, mean) for traces, mean, _ in curve.points)
    mark = ""
    if curve.crossing is not None:
        x, y = axes.x(curve.crossing), axes.y(level)
        words, style = f"{curve.name} {curve.crossing:.1f}", f"fill:{colour};font-weight:600"
        name = _text(x + 4, y + 17, words, anchor="start" if x < WIDTH - 100 else "end", style=style)
        mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>{name}'
    return (
        f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" opacity="0.2"/>'
        f'<polyline points="{means}" fill="none" stroke="{colour}" stroke-width="2"/>{mark}'
    )


def _text(x: float, y: float, words: str, *, anchor: str = "middle", style: str = "") -> str:
    attributes = f' style="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{escape(words)}</text>'


def _class(group: DifficultyClass, most: float) -> str:
    bars = "".join(
        f'<div class="given"><span>{escape(name)}</span>'
        f'<i style="background:{colour_of(name)};width:{traces / most:.1%}"></i><b>{traces:.1f}</b></div>'
        for name, traces in group.traces
    )
    return (
        f'<div class="row">{escape(group.label)} <span class="faint">({group.questions} questions)</span>{bars}</div>'
    )


def _question(question: VotedQuestion) -> str:
    total = sum(number for _, number in question.votes)
    shown = question.shown()
    parts = "".join(f'<span style="width:{number / total:.2%}"></span>' for _, number in shown)
    counts = ", ".join(f"{escape(answer)} ×{number}" for answer, number in shown) or "no votes"
    answer = "no answer" if question.answer is None else escape(_cut(question.answer))
    recorded = "none" if question.population is None else escape(_cut(question.population))
    gold = "" if question.gold is None else f"; right: {escape(question.gold)}"
    return (
        f'<div class="row">{escape(question.text)} <b>{answer}</b> '
        f'<span class="faint">certain {question.certificate:.0%}; recorded vote: {recorded}{gold}</span>'
        f'<div class="bar votes">{parts}</div><span class="faint">{counts}</span></div>'
    )
