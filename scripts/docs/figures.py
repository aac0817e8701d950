"""Draw the figures of the method's page into docs/figures: ``python -m scripts.docs.figures`` (some seconds).

Each is computed and drawn by the package, as ``NAME-light.svg`` and ``NAME-dark.svg``.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from pets.core.dirichlet import R_plus
from pets.report.style import Chart, charts_library, colour_of, themed, titled
from scripts.paper.figures import budget_plan, draw_plan, draw_voting, voting_curves

COLOURS = {"light": ("#1b1f24", "#59626f", "#e3e6ea"), "dark": ("#e6e8eb", "#a3adba", "#3a424c")}
"""Ink, faint ink and lines, as report/palette.css has them."""
BATCHES = 20
NEEDLESS = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"|(?<=\.\d\d)\d+')
"""Words for every mark of a drawing that a page shows as a picture, with its own; less than hundredths of a pixel."""
TALLIES = ((1,), (1, 1), (2, 1), (2, 2), (3, 1), (4,), (3, 3), (5, 1), (6, 2), (8,), (8, 8), (12, 4), (16,))
OPTIONS = 4


def draw_index() -> Chart:
    """How much one more trace may add to the belief in the leader, for tallies from few votes to many."""
    bars = [{"tally": _words(counts), "gain": _gain(counts)} for counts in TALLIES]
    tally = {"field": "tally", "type": "nominal", "sort": None, "title": "votes so far", "axis": {"labelAngle": -45}}
    chart: Chart = {
        "data": {"values": bars},
        "width": 640,
        "height": 220,
        "mark": {"type": "bar", "color": colour_of("okg")},
        "encoding": {"x": tally, "y": {"field": "gain", "type": "quantitative", "title": "R+ of one more trace"}},
    }
    return titled(
        chart,
        "What one more trace may add to the belief in the leader",
        "The paper's index R+ under Dir(1), four options. The next trace goes to the question with the highest bar.",
    )


def _gain(counts: tuple[int, ...]) -> float:
    unseen = (0,) * (OPTIONS - len(counts))
    return float(R_plus([1.0 + count for count in counts + unseen]))


def _words(counts: tuple[int, ...]) -> str:
    return " : ".join(map(str, counts)) if len(counts) > 1 else f"{counts[0]} : 0"


def _in_two_columns(chart: Chart) -> Chart:
    """Panels that stand side by side, two to a row: a column of text is not as wide as a page of paper."""
    return {
        **{key: value for key, value in chart.items() if key != "hconcat"},
        "concat": chart["hconcat"],
        "columns": 2,
    }


FIGURES: Mapping[str, Callable[[], Chart]] = {
    "voting": lambda: _in_two_columns(draw_voting(voting_curves())),
    "index": draw_index,
    "plan": lambda: _in_two_columns(draw_plan(budget_plan(batches=BATCHES))),
}
"""Every figure by its name."""


def write_figures(folder: Path) -> None:
    """Write every figure of the method's page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        write_figure(draw(), folder, name)


def write_figure(chart: Chart, folder: Path, name: str) -> None:
    """Write a chart for light and for dark pages."""
    for scheme, colours in COLOURS.items():
        drawing: str = charts_library().vegalite_to_svg(json.dumps(themed(chart, *colours, paper=None)))
        (folder / f"{name}-{scheme}.svg").write_text(NEEDLESS.sub("", drawing), "utf-8")


if __name__ == "__main__":
    write_figures(Path(__file__).resolve().parents[2] / "docs" / "figures")
