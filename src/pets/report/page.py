"""One self-contained page of HTML: light and dark, readable on a phone and in print, nothing from outside.

Every text is escaped: what a model or a question says stays text. Charts are drawn when the page is made, so they are
there without JavaScript; with it they answer to the pointer, and tables can be sorted, filtered and searched.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import count
from typing import NamedTuple

from pets.report.style import Chart, drawn_svg, javascript, page_chart

VOTES_SHOWN = 4  # answers with a part of the bar of their own; the others share the last one
ANSWER_CHARACTERS = 28


class Tile(NamedTuple):
    """A figure of the first line: its name, the number, and a note; the ``headline`` is the one to see first."""

    name: str
    number: str
    note: str = ""
    headline: bool = False


class Cell(NamedTuple):
    """A cell of a table: what is shown, and the number that it is sorted by, if it is one."""

    text: str
    value: float | None = None
    html: str = ""


@dataclass(frozen=True, slots=True)
class VotedQuestion:
    """One question and its votes, with what is known of its answer."""

    id: str
    text: str
    answer: str | None
    votes: tuple[tuple[str, float], ...]
    certificate: float | None
    facts: tuple[str, ...] = ()
    wrong: bool = False
    traces: tuple[tuple[str, str], ...] = ()

    def shown(self) -> list[tuple[str, float]]:
        """The leading answers with their votes, and what all others have together."""
        ranked = sorted(self.votes, key=lambda vote: -vote[1])
        rest = sum(number for _, number in ranked[VOTES_SHOWN:])
        number = len(ranked) - VOTES_SHOWN
        others = [(f"{number} other{'' if number == 1 else 's'}", rest)] if rest else []
        return [(cut(answer), number) for answer, number in ranked[:VOTES_SHOWN]] + others

    def bar(self) -> str:
        """The votes as a bar whose parts add up to all of them; :meth:`counts` are its words."""
        shown = self.shown()
        total = sum(number for _, number in shown)
        parts = (f'<i style="width:{100 * number / total:.6g}%" data-votes="{number:g}"></i>' for _, number in shown)
        css_class = "bar wrong" if self.wrong else "bar"
        return f'<div class="{css_class}" aria-hidden="true">{"".join(parts)}</div>'

    def counts(self) -> str:
        """The votes in words."""
        return ", ".join(f"{answer} ×{round(number, 2):g}" for answer, number in self.shown()) or "no votes"


class Page:
    """A page under construction: parts in their order; :meth:`html` is the whole."""

    def __init__(self, title: str, lead: str) -> None:
        self.title = title
        self._parts = [f"<h1>{escape(title)}</h1><p>{escape(lead)}</p>"]
        self._heading = title
        self._numbers = count(1)
        self._has_charts = False

    def tiles(self, tiles: Sequence[Tile]) -> None:
        """The figures of the first line."""
        cells = "".join(
            f"<div{' class=headline' if tile.headline else ''}><dt>{escape(tile.name)}</dt>"
            f"<dd>{escape(tile.number)}<small>{escape(tile.note)}</small></dd></div>"
            for tile in tiles
        )
        self._parts.append(f'<dl class="tiles">{cells}</dl>')

    def warning(self, words: str) -> None:
        """A sentence that must not be overlooked."""
        self._parts.append(f'<p class="warning" role="note">{escape(words)}</p>')

    def section(self, title: str, words: str = "") -> None:
        """A heading, and a sentence under it."""
        self._heading = title
        self._parts.append(f"<h2>{escape(title)}</h2>" + (f'<p class="faint">{escape(words)}</p>' if words else ""))

    def subsection(self, title: str) -> None:
        """A heading within a section."""
        self._parts.append(f"<h3>{escape(title)}</h3>")

    def charts(self, charts: Sequence[Chart], words: str) -> None:
        """Charts side by side where there is room; ``words`` say what they show to readers who cannot see them."""
        self._has_charts = True
        self._parts.append('<div class="charts">')
        for chart in charts:
            id = f"chart{next(self._numbers)}"
            data = json.dumps(page_chart(chart), separators=(",", ":")).replace("<", "\\u003c")  # ends no element
            self._parts.append(
                f'<figure data-chart="{id}" role="img" aria-label="{escape(words)}">'
                f'<div aria-hidden="true">{drawn_svg(chart)}</div></figure>'
                f'<script type="application/json" id="{id}">{data}</script>'
            )
        self._parts.append("</div>")

    def questions(self, questions: Sequence[VotedQuestion]) -> None:
        """Questions with their votes, and the traces that can be read."""
        for question in questions:
            answer = "no answer" if question.answer is None else escape(cut(question.answer))
            certain = [] if question.certificate is None else [f"certificate {question.certificate:.0%}"]
            facts = "; ".join(map(escape, [*certain, *question.facts]))
            traces = "".join(
                f"<details><summary>{escape(name)}</summary><pre tabindex=0>{escape(text)}</pre></details>"
                for name, text in question.traces
            )
            first = "its trace" if len(question.traces) == 1 else f"its first {len(question.traces)} traces"
            read = f'<details class="traces"><summary>Read {first}</summary>{traces}</details>' if traces else ""
            self._parts.append(
                f'<div class="row"><h3>{escape(question.id)}</h3><p>{escape(question.text)}</p>'
                f'<p><b{" class=bad" if question.wrong else ""}>{answer}</b> <span class="faint">{facts}</span></p>'
                f'{question.bar()}<p class="faint">{escape(question.counts())}</p>{read}</div>'
            )

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        kinds: Mapping[str, str] | None = None,
        row_kinds: Sequence[Sequence[str]] = (),
        rising: str | None = None,
    ) -> None:
        """A table to sort; with ``kinds`` (name to words) also to search and to filter by the kinds of its rows.

        The rows come sorted by the column ``rising``, if by any.
        """
        id = f"table{next(self._numbers)}"
        numbers = [bool(rows) and rows[0][column].value is not None for column in range(len(columns))]
        heads = "".join(
            f'<th scope="col"{" class=number" if number else ""}{" aria-sort=ascending" if name == rising else ""}>'
            f'<button type="button">{escape(name)}</button></th>'
            for name, number in zip(columns, numbers, strict=True)
        )
        kinds_of = row_kinds or [()] * len(rows)
        body = ""
        for cells, kind in zip(rows, kinds_of, strict=True):
            body += f'<tr data-kinds="{" ".join(kind)}">'
            for cell in cells:
                value = "" if cell.value is None else f' class=number data-value="{cell.value:.10g}"'
                body += f"<td{value}>{escape(cell.text)}{cell.html}</td>"
            body += "</tr>"
        if kinds is not None:
            choices = "".join(f'<option value="{kind}">{escape(words)}</option>' for kind, words in kinds.items())
            self._parts.append(
                f'<div class="tools" data-for="{id}"><input type="search" placeholder="search" aria-label="search">'
                f'<select aria-label="which rows are shown">{choices}</select><output></output></div>'
            )
        self._parts.append(
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self._heading)}: table {id[5:]}">'
            f'<table id="{id}" data-sortable>'
            f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def bars(self, label: str, note: str, bars: Sequence[tuple[str, str, float]], most: float) -> None:
        """Named bars of one kind under a label: (name, colour, value) each."""
        drawn = "".join(
            f'<div class="given"><span>{escape(name)}</span>'
            f'<i style="background:{colour};width:{value / most:.2%}"></i><b>{value:.1f}</b></div>'
            for name, colour, value in bars
        )
        self._parts.append(f'<div class="row">{escape(label)} <span class="faint">({escape(note)})</span>{drawn}</div>')

    def notes(self, notes: Sequence[str]) -> None:
        """Sentences as a list."""
        self._parts.append(f'<ul class="faint">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>')

    def code(self, text: str) -> None:
        """Commands or settings, to copy."""
        self._parts.append(f"<pre tabindex=0>{escape(text)}</pre>")

    def html(self) -> str:
        """The page."""
        folder = files("pets.report")
        style = folder.joinpath("palette.css").read_text("utf-8") + folder.joinpath("page.css").read_text("utf-8")
        scripts = (javascript() if self._has_charts else "", folder.joinpath("page.js").read_text("utf-8"))
        charts, script = (text.replace("</script", "<\\/script") for text in scripts)
        library = f"<script>{charts}</script>" if charts else ""
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{style}</style></head><body><main>{''.join(self._parts)}</main>{library}"
            f'<script type="module">{script}</script></body></html>\n'
        )


def cut(answer: str, characters: int = ANSWER_CHARACTERS) -> str:
    """The text in one line, shortened where it is long."""
    line = " ".join(answer.split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def cut_head(text: str, characters: int) -> str:
    """The end of a text in one line: what is asked last is the question."""
    line = " ".join(text.split())
    return line if len(line) <= characters else f"…{line[1 - characters :]}"
