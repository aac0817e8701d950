"""The one look of every figure and page: a policy's colour, the theme, and how a chart becomes a file.

A chart is a Vega-Lite specification: plain data, which a page shows with hover and a file gets as PNG, SVG or PDF.
``charts.json`` holds them but for what is shown. They are drawn by vl-convert, an extra, imported only when something
is drawn.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any

from pets._extras import require

Chart = dict[str, Any]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6F6F6F")
"""Okabe and Ito's colours, told apart by colour-blind readers, without the two that white or black paper swallows."""
BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, GREY = PALETTE
SOLID, DASHED, DOTTED, MIXED = DASHES = ((), (6, 3), (2, 2), (7, 2, 2, 2))
SHAPES = {SOLID: "circle", DASHED: "square", DOTTED: "triangle-up", MIXED: "diamond"}
FIXED: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "okg": (VERMILION, SOLID),
    "uniform": (BLUE, SOLID),
    "price": (GREEN, SOLID),
    "asc": (PURPLE, SOLID),
    "esc": (SKY, SOLID),
    "boinf": (ORANGE, SOLID),
    "lead": (GREY, SOLID),
    "okg_weighted": (VERMILION, MIXED),
    "online_grid": (GREEN, MIXED),
    "its_adaptive": (PURPLE, MIXED),
    "dsc": (SKY, MIXED),
    "conf_guided": (ORANGE, MIXED),
    "oracle": (GREY, MIXED),
}
"""Colour and dashes of each policy, on every page and in every figure."""
PNG_SCALE = 2  # pixels for each unit of a chart
NAME = re.compile(r"\w*")  # of a policy, before its options and whatever a legend adds


@dataclass(frozen=True, slots=True)
class LineStyle:
    """Colour and dashes of one line; no dashes are a solid one."""

    colour: str
    dashes: tuple[int, ...] = SOLID

    @property
    def shape(self) -> str:
        """The shape of points: as different as the dashes of lines are."""
        return SHAPES[self.dashes]


def line_styles(policies: Iterable[str]) -> dict[str, LineStyle]:
    """The style of each policy: options of one policy share its colour and differ in their dashes.

    A user's own policy gets a colour that no other policy here has, as long as there is one.

    >>> styles = line_styles(["okg:prior=1", "okg", "uniform", "mine"])
    >>> styles["okg"].colour == styles["okg:prior=1"].colour, styles["okg:prior=1"].dashes
    (True, (6, 3))
    >>> styles["mine"].colour in (styles["okg"].colour, styles["uniform"].colour)
    False
    """
    names = {policy: NAME.match(policy).group() for policy in policies}  # type: ignore[union-attr]
    taken = {FIXED[name][0] for name in names.values() if name in FIXED}
    free = cycle([colour for colour in PALETTE if colour not in taken] or PALETTE)
    known = {name: FIXED.get(name) or (next(free), DOTTED) for name in dict.fromkeys(names.values())}
    styles: dict[str, LineStyle] = {}
    variants = Counter[str]()
    for policy, name in names.items():
        colour, dashes = known[name]
        if policy != name:
            variants[name] += 1
            dashes = DASHES[variants[name] % len(DASHES)]
        styles[policy] = LineStyle(colour, dashes)
    return styles


def colour_of(policy: str) -> str:
    """The colour that a policy has everywhere."""
    return line_styles([policy])[policy].colour


def by_label(
    styles: Mapping[str, LineStyle], points: Collection[str] = (), lines: Collection[str] = ()
) -> dict[str, Any]:
    """Colour, dashes and shape by the field ``label``, as the encoding of a chart; one legend for all three.

    Of a label with ``points`` the legend shows their shape, dashed only where it has ``lines`` too; else a line.
    """
    labels = list(styles)
    legend = {"orient": "bottom", "columns": 4, "title": None, "symbolOpacity": 1} if len(labels) > 1 else None
    ranges = {
        "color": [style.colour for style in styles.values()],
        "strokeDash": [
            list(style.dashes) if style.dashes and (label in lines or label not in points) else [1, 0]
            for label, style in styles.items()
        ],
        "shape": [styles[label].shape if label in points else "stroke" for label in labels],
    }
    return {
        channel: template("legend", labels=labels, range=values, legend=legend) for channel, values in ranges.items()
    }


def trace_axis(size: float, title: str = "traces per question, on average") -> Chart:
    """A logarithmic axis of the field ``traces``, doubling from tick to tick up to ``size``."""
    ticks = [2**power for power in range(20) if 1 <= 2**power <= size]
    return template("trace_axis", title=title, domain=[1.0, max(2.0, size)], ticks=ticks)


@cache
def _templates() -> dict[str, Any]:
    templates: dict[str, Any] = json.loads(files(__package__).joinpath("charts.json").read_text("utf-8"))
    return templates


def template(name: str, /, **values: Any) -> Chart:
    """The part of ``charts.json`` of that name: ``"$rows"`` in it is what ``rows`` is, ``"<"`` names one to begin with.

    >>> template("accuracy_x")["title"], template("difficulty_unreached", title="okg")["title"]
    ('certificate', 'okg')
    """

    def filled(part: Any) -> Any:
        if isinstance(part, str) and part.startswith("$"):
            return values[part[1:]]
        if isinstance(part, list):
            return [filled(item) for item in part]
        if isinstance(part, dict):
            own = {key: filled(item) for key, item in part.items() if key != "<"}
            return {**filled(_templates()[part["<"]]), **own} if "<" in part else own
        return part

    part: Chart = filled(_templates()[name])
    return part


def titled(chart: Chart, title: str, subtitle: str | Sequence[str] = "") -> Chart:
    """The chart under its title."""
    words = {"text": title, "subtitle": subtitle} if subtitle else {"text": title}
    return {"title": words, **chart}


def charts_library() -> Any:
    """Import vl-convert; where it is missing, say what to install before any work is done."""
    return require("vl_convert", "plots")


def save(chart: Chart, path: Path) -> tuple[Path, ...]:
    """Write a chart as PNG, SVG and PDF beside one another; return the files, ``path`` with each suffix added."""
    library, specification = charts_library(), json.dumps(themed(chart))
    pictures: dict[Path, bytes] = {
        path.with_name(f"{path.name}.png"): library.vegalite_to_png(specification, scale=PNG_SCALE),
        path.with_name(f"{path.name}.svg"): library.vegalite_to_svg(specification).encode(),
        path.with_name(f"{path.name}.pdf"): library.vegalite_to_pdf(specification),
    }
    for target, picture in pictures.items():
        target.write_bytes(picture)
    return tuple(pictures)


def drawn_svg(chart: Chart) -> str:
    """The chart as an SVG element for a page, in the page's own colours."""
    drawing: str = charts_library().vegalite_to_svg(json.dumps(page_chart(chart)))
    return drawing


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed (BSD licences) in one script, as the function ``vegaEmbed``."""
    script: str = charts_library().javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script


def page_chart(chart: Chart) -> Chart:
    """The chart with the page's colours, light and dark."""
    return themed(chart, "var(--ink)", "var(--faint)", "var(--line)", paper=None)


def themed(
    chart: Chart, ink: str = "#1b1f24", faint: str = "#5f6875", line: str = "#e5e7eb", paper: str | None = "#ffffff"
) -> Chart:
    """The chart with the common theme, in the colours of ink on white paper if not said."""
    theme = template("theme", ink=ink, faint=faint, line=line, paper=paper)
    return {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "padding": 8, "config": theme, **chart}
