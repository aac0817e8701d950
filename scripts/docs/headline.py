"""Draw the home page's figures from the demo's own comparison: ``python -m scripts.docs.headline`` (half a minute).

They are kept in docs/, for README.md and the site; drawing them anew at every build would take too long.
"""

from pets.cli.demo import LEVEL, RecordedPart, compare_recorded
from pets.pools import load
from pets.report.charts import curve_panel
from pets.report.style import Chart, colour_of, line_styles, titled
from scripts.docs.figures import write_figure
from scripts.docs.pages import ROOT

SIZE = {"width": 620, "height": 260}


def draw_headline(recorded: RecordedPart) -> Chart:
    """Self-consistency against traces per question, with the traces at which each policy reaches the level."""
    styles = line_styles(recorded.curves)
    name = f"votes that are the vote of all {recorded.size}"
    panel = curve_panel([*recorded.curves.values()], styles, name, recorded.size, [("", LEVEL)])
    marks = [
        {"traces": traces, "mean": LEVEL, "label": policy, "words": f"{traces:.1f}"}
        for policy, traces in recorded.crossings.items()
    ]
    place = {"x": panel["layer"][0]["encoding"]["x"], "y": {**panel["layer"][2]["encoding"]["y"]}}
    point = {"type": "point", "filled": True, "size": 90, "opacity": 1}
    text = {"type": "text", "dy": 20, "dx": 6, "align": "left", "fontSize": 15, "fontWeight": "bold"}
    colour = {"color": panel["layer"][2]["encoding"]["color"]}
    panel["layer"] = [layer for layer in panel["layer"] if "opacity" not in layer["mark"] or layer["mark"]["opacity"]]
    panel["layer"] += [
        {"data": {"values": marks}, "mark": point, "encoding": {**place, **colour}},
        {"data": {"values": marks}, "mark": text, "encoding": {**place, **colour, "text": {"field": "words"}}},
    ]
    subtitle = (
        f"{recorded.questions} recorded questions of the starter pool; bands are one standard deviation over draws. "
        f"Marked: traces per question for {LEVEL:.0%}."
    )
    return titled({**panel, **SIZE}, recorded.title, subtitle)


def draw_shares(recorded: RecordedPart) -> Chart:
    """Traces per question by how much a question's recorded votes agree."""
    bars = [
        {"class": f"{group.label}: {group.questions} questions", "policy": policy, "traces": traces}
        for group in recorded.classes
        for policy, traces in group.traces.items()
    ]
    policies = list(dict.fromkeys(bar["policy"] for bar in bars))
    scale = {"domain": policies, "range": [colour_of(str(policy)) for policy in policies]}
    chart: Chart = {
        "data": {"values": bars},
        "mark": "bar",
        "encoding": {
            "y": {"field": "class", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 320}},
            "yOffset": {"field": "policy", "sort": policies},
            "x": {"field": "traces", "type": "quantitative", "title": "traces per question"},
            "color": {
                "field": "policy",
                "type": "nominal",
                "scale": scale,
                "legend": {"orient": "bottom", "title": None},
            },
        },
    }
    title = f"Where {recorded.mean_budget} traces per question go"
    return titled({**chart, "width": 420, "height": 200}, title, "Questions by how many of their recorded votes agree.")


def main() -> None:
    """Compare as `pets demo` does, and write both figures into docs/."""
    recorded = compare_recorded(load("starter"))
    write_figure(draw_headline(recorded), ROOT / "docs", "headline")
    write_figure(draw_shares(recorded), ROOT / "docs", "shares")


if __name__ == "__main__":
    main()
