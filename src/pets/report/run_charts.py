"""The charts of a run's report: its budget against equal shares, where it went, certificates and accuracy."""

from collections.abc import Sequence

from pets.engine.forecast import Forecast
from pets.engine.question import Answer
from pets.report.curves import Bound, Series, curve_panel
from pets.report.look import GREEN, GREY, SHARE, Chart, colour_of, line_styles
from pets.report.reliability import wilson

__all__ = ["draw_accuracy", "draw_budget", "draw_certificates", "draw_spending"]

BINS = 10
WIDTH, HEIGHT = 300, 220
WIDE, TALL = 560, 260


def draw_budget(policy: str, mean_traces: float, consistency: tuple[float, float, float], uniform: Forecast) -> Chart:
    """The run as a dot with its interval, and uniform's curve."""
    line = Series("uniform", False, uniform.mean_budget, uniform.consistency, uniform.deviation)
    size = float(max(uniform.mean_budget[-1], mean_traces))
    mean, low, high = consistency
    room = [Bound(low, ""), Bound(high, "")]
    panel = curve_panel([line], line_styles(["uniform", policy]), "self-consistency", size, room)
    layers = [layer for layer in panel["layer"] if "data" not in layer]
    shared = next(layer for layer in layers if layer["mark"]["type"] == "line")["encoding"]
    data = {"values": [{"label": policy, "traces": mean_traces, "mean": mean, "low": low, "high": high}]}
    place = {"x": shared["x"], "color": shared["color"]}
    whisker = {**place, "y": {**shared["y"], "field": "low"}, "y2": {"field": "high"}}
    dot = {**place, "y": shared["y"], "tooltip": shared["tooltip"][:3]}
    layers.append({"data": data, "mark": {"type": "rule", "strokeWidth": 2}, "encoding": whisker})
    layers.append({"data": data, "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1}, "encoding": dot})
    return {**panel, "layer": layers}


def draw_spending(policy: str, answers: Sequence[Answer], mean_traces: float) -> Chart:
    """A dot for each question with a vote: its traces against the share of votes for its answer."""
    rows = [
        {
            "id": answer.id,
            "share": round(max(answer.votes.values()) / sum(answer.votes.values()), 4),
            "traces": answer.traces,
            "certificate": answer.certificate,
        }
        for answer in answers
        if answer.votes
    ]
    most = max((answer.traces for answer in answers), default=1)
    mean = {"values": [{"traces": mean_traces, "name": f"{mean_traces:.1f}: the mean"}]}
    y = {"field": "traces", "type": "quantitative", "title": "traces", "scale": {"domain": [0, most * 1.05]}}
    x = {"field": "share", **SHARE, "title": "votes for the answer"}
    tooltip = [{"field": "id"}, {"field": "traces"}, {"field": "share", "format": ".0%"}]
    tooltip.append({"field": "certificate", "format": ".1%"})
    dots = {"type": "circle", "opacity": 0.45, "color": colour_of(policy)}
    rule = {"type": "rule", "color": GREY, "strokeDash": [6, 3]}
    name = {"type": "text", "align": "right", "dy": -7, "color": GREY}
    layers = [
        {"data": {"values": rows}, "mark": dots, "encoding": {"x": x, "y": y, "tooltip": tooltip}},
        {"data": mean, "mark": rule, "encoding": {"y": y}},
        {"data": mean, "mark": name, "encoding": {"y": y, "x": {"value": WIDE - 4}, "text": {"field": "name"}}},
    ]
    return {"width": WIDE, "height": TALL, "layer": layers}


def draw_certificates(policy: str, answers: Sequence[Answer]) -> Chart:
    """How many questions have which certificate."""
    rows = [
        {"low": place / BINS, "high": (place + 1) / BINS, "questions": len(part)}
        for place, part in enumerate(_binned(answers))
    ]
    return {
        "data": {"values": rows},
        "width": WIDTH,
        "height": HEIGHT,
        "mark": {"type": "bar", "color": colour_of(policy)},
        "encoding": {
            "x": {"field": "low", **SHARE, "bin": "binned", "title": "certificate"},
            "x2": {"field": "high"},
            "y": {"field": "questions", "type": "quantitative"},
            "tooltip": [{"field": "low", "format": ".0%"}, {"field": "high", "format": ".0%"}, {"field": "questions"}],
        },
    }


def draw_accuracy(answers: Sequence[Answer]) -> Chart:
    """The share that is gold in each bin of certificates, with its 95 % interval."""
    rows = []
    for part in _binned(answers):
        judged = [answer for answer in part if answer.right is not None]
        if judged:
            share = sum(answer.right is True for answer in judged) / len(judged)
            low, high = wilson(share, len(judged))
            mean = sum(answer.certificate or 0.0 for answer in judged) / len(judged)
            rows.append({"certificate": mean, "right": share, "low": low, "high": high, "questions": len(judged)})
    x, title = {"field": "certificate", **SHARE, "title": "certificate"}, "gold"
    whisker = {"x": x, "y": {"field": "low", **SHARE, "title": title}, "y2": {"field": "high"}}
    tooltip = [{"field": "certificate", "format": ".1%"}, {"field": "right", "format": ".1%"}, {"field": "questions"}]
    dot = {"x": x, "y": {"field": "right", **SHARE, "title": title}, "tooltip": tooltip}
    return {
        "data": {"values": rows},
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            {"mark": {"type": "rule", "color": GREY}, "encoding": whisker},
            {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1, "color": GREEN}, "encoding": dot},
        ],
    }


def _binned(answers: Sequence[Answer]) -> list[list[Answer]]:
    """Answers by the tenth of their certificate; 1 is in the last."""
    parts: list[list[Answer]] = [[] for _ in range(BINS)]
    for answer in answers:
        parts[min(BINS - 1, int(BINS * (answer.certificate or 0.0)))].append(answer)
    return parts
