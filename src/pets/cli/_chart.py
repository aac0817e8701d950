"""Curves of self-consistency in a terminal: round numbers on both axes, the legend above the curves, not on them."""

from collections.abc import Mapping, Sequence

import click
import plotext

from pets.cli._terminal import terminal_text
from pets.report.style import FIXED, PALETTE

MARKS = "•x+o#"  # of lines without colour
CUBE = (0x00, 0x5F, 0x87, 0xAF, 0xD7, 0xFF)  # the levels of red, green and blue that terminals of 256 colours have
HEIGHT = 17
MAX_WIDTH = 80
TICKS = 9  # on the axis of traces at most
GAPS = (0.01, 0.02, 0.05, 0.1)  # between ticks of self-consistency


Curve = tuple[Sequence[float], Sequence[float]]
"""Mean traces per question, and the self-consistency at each."""


def draw_chart(title: str, curves: Mapping[str, Curve], width: int, *, colour: bool) -> str:
    """Draw named curves under a title and a legend, at most ``width`` columns wide."""
    plotext.clear_figure()
    plotext.theme("clear")  # the terminal's own background
    entries = []
    for index, (label, (traces, consistency)) in enumerate(curves.items()):
        # The terminal's colour that is nearest to a policy's own, else the palette's.
        colour_text, mark = FIXED[label][0] if label in FIXED else PALETTE[index % len(PALETTE)], MARKS[index]
        parts = [int(colour_text[start : start + 2], 16) for start in (1, 3, 5)]
        red, green, blue = (min((abs(level - part), step) for step, level in enumerate(CUBE))[1] for part in parts)
        number, name = 16 + 36 * red + 6 * green + blue, terminal_text(label)
        plotext.plot(list(traces), list(consistency), marker="hd" if colour else mark, color=number)
        entries.append(click.style(f"▬ {name}", fg=number) if colour else f"{mark} {name}")
    plotext.plot_size(width=min(MAX_WIDTH, width), height=HEIGHT)
    # The ends, and between them multiples of a round number.
    first, last = min(x[0] for x, _ in curves.values()), max(x[-1] for x, _ in curves.values())
    step = next(1 << power for power in range(20) if last <= TICKS << power)
    plotext.xticks([first, *(float(tick) for tick in range(step, int(last) + 1, step) if first + step / 2 < tick)])
    # Multiples of a round number, from the lowest point on up to 1.
    least = min(min(y) for _, y in curves.values())
    gap = next((gap for gap in GAPS if (1 - least) / gap <= HEIGHT / 2), GAPS[-1])
    ticks = [tick * gap for tick in range(round(1 / gap) + 1) if tick * gap >= least]
    plotext.yticks(ticks, [f"{tick:.0%}" for tick in ticks])
    chart: str = plotext.build()
    legend = "" if len(entries) == 1 else "   ".join(entries) + "\n"
    return f"{title}\n{legend}{chart if colour else plotext.uncolorize(chart)}"
