"""The charts of a run's report: its budget against equal shares, where it went, certificates and accuracy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pets.engine.question import Answer
from pets.engine.summary import wilson
from pets.report.budget_curves import BudgetCurves
from pets.report.curves import Series, curve_panel
from pets.report.look import DASHED, GREEN, GREY, SHARE, Chart, LineStyle, colour_of
from pets.report.reliability import FEW

__all__ = ["Measured", "agreement_classes", "draw_accuracy", "draw_budget", "draw_certificates", "draw_shares"]
__all__ += ["draw_spending"]

BINS = 10
WIDTH, HEIGHT = 420, 260
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

Measured = tuple[float, float, float]
"""A share and the ends of its 95 % interval."""


def draw_budget(
    policy: str, name: str, mean_traces: float, end: Measured, run: BudgetCurves | None, uniform: BudgetCurves
) -> Chart:
    """Self-consistency or accuracy (``name``) against traces: uniform's line, the run's line, and a dot for its end."""
    label = f"{policy} (this run)"
    styles = {label: LineStyle(colour_of(policy)), EQUAL: LineStyle(colour_of("uniform"), DASHED)}
    mean, low, high = (np.array([value]) for value in end)
    lines = [
        *_lines(EQUAL, name, uniform, max(2.0, np.ceil(mean_traces))),
        *_lines(label, name, run, np.inf),
        Series(label, True, np.array([mean_traces]), mean, low, high),
    ]
    return curve_panel(lines, styles, name, AXIS_AIR * max(float(line.traces[-1]) for line in lines))


def _lines(label: str, name: str, curves: BudgetCurves | None, budget: float) -> list[Series]:
    """The line of one metric; accuracy only up to a budget, for gold may be an answer that no trace has given yet."""
    if curves is None:
        return []
    if name == "self-consistency":
        return [Series.about(label, False, curves.traces, curves.consistency, curves.consistency_reach)]
    if curves.accuracy is None or curves.accuracy_reach is None:
        return []
    part = curves.traces <= budget
    return [Series.about(label, False, curves.traces[part], curves.accuracy[part], curves.accuracy_reach[part])]


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
        {"share": share, "traces": traces, "questions": len(ids), "ids": _names(ids)}
        for (share, traces), ids in places.items()
    ]
    most = max((answer.traces for answer in answers), default=1)
    mean = {"values": [{"traces": mean_traces, "name": f"{mean_traces:.1f}: the mean"}]}
    y: Chart = {"field": "traces", "type": "quantitative", "title": "traces of a question"}
    y["scale"] = {"domain": [0, most * 1.05]}
    x = {"field": "share", **SHARE, "title": "votes for its answer"}
    tooltip = [{"field": "questions"}, {"field": "traces"}, {"field": "share", "format": ".0%"}, {"field": "ids"}]
    size = {"field": "questions", "type": "quantitative", "scale": {"rangeMin": 24, "rangeMax": 500}, "legend": None}
    dots = {"type": "circle", "opacity": 0.55, "color": colour_of(policy)}
    rule = {"type": "rule", "color": GREY, "strokeDash": [6, 3]}
    name = {"type": "text", "align": "left", "dx": 4, "dy": -7}
    layers = [
        {"data": {"values": rows}, "mark": dots, "encoding": {"x": x, "y": y, "size": size, "tooltip": tooltip}},
        {"data": mean, "mark": rule, "encoding": {"y": y}},
        {"data": mean, "mark": name, "encoding": {"y": y, "x": {"value": 0}, "text": {"field": "name"}}},
    ]
    return {"width": WIDTH, "height": HEIGHT, "layer": layers}


def _names(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - IDS_SHOWN:,} more" if len(ids) > IDS_SHOWN else ""
    return ", ".join(ids[:IDS_SHOWN]) + more


def agreement_classes(answers: Sequence[Answer]) -> list[tuple[str, int, int]]:
    """Questions and traces of each class of agreement, empty ones left out: (name, questions, traces)."""
    classes = []
    above = 2.0
    for name, least in CLASSES:
        own = [answer for answer in answers if least <= agreement(answer) < above]
        above = least
        if own:
            classes.append((name, len(own), sum(answer.traces for answer in own)))
    return classes


def draw_shares(policy: str, answers: Sequence[Answer]) -> Chart:
    """For each class of agreement its share of the questions, which equal shares would give it, and of the traces."""
    classes = agreement_classes(answers)
    questions, traces = sum(row[1] for row in classes), max(1, sum(row[2] for row in classes))
    of_questions, of_traces = "of the questions", "of the traces"
    rows: list[dict[str, Any]] = []
    for name, number, spent in classes:
        rows.append({"agreement": name, "of": of_questions, "share": number / questions, "count": number})
        rows.append({"agreement": name, "of": of_traces, "share": spent / traces, "count": spent})
    kinds = [of_questions, of_traces]
    scale = {"domain": kinds, "range": [GREY, colour_of(policy)]}
    order = [name for name, _ in CLASSES]
    y = {"field": "agreement", "type": "nominal", "sort": order, "title": None, "axis": {"labelLimit": 130}}
    x = {"field": "share", "type": "quantitative", "title": "share", "axis": {"format": ".0%", "tickCount": 4}}
    x["scale"] = {"domain": [0, min(1.0, 1.12 * max(row["share"] for row in rows))]}
    offset = {"field": "of", "sort": kinds}
    count = {"y": y, "yOffset": offset, "x": x, "text": {"field": "count", "format": ",", "type": "quantitative"}}
    bars = {
        "y": y,
        "yOffset": offset,
        "x": x,
        "color": {"field": "of", "scale": scale, "legend": {"orient": "bottom", "title": None}},
        "tooltip": [{"field": "agreement"}, {"field": "of"}, {"field": "share", "format": ".1%"}, {"field": "count"}],
    }
    layers = [
        {"mark": "bar", "encoding": bars},
        {"mark": {"type": "text", "align": "left", "dx": 4}, "encoding": count},
    ]
    return {"data": {"values": rows}, "width": WIDTH, "height": HEIGHT, "layer": layers}


def draw_certificates(policy: str, answers: Sequence[Answer]) -> Chart:
    """How many questions have which certificate."""
    rows = [
        {"low": place / BINS, "high": (place + 1) / BINS, "questions": len(part)}
        for place, part in enumerate(_binned(answers))
    ]
    x = {"field": "low", **SHARE, "bin": "binned", "title": "certificate"}
    y = {"field": "questions", "type": "quantitative", "title": "questions"}
    bars = {"x": x, "x2": {"field": "high"}, "y": y}
    tooltip = [{"field": "low", "format": ".0%"}, {"field": "high", "format": ".0%"}, {"field": "questions"}]
    middle = {"x": {"field": "middle", **SHARE}, "y": y, "text": {"field": "questions", "format": ","}}
    counts = [{**row, "middle": (row["low"] + row["high"]) / 2} for row in rows if row["questions"]]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            {
                "data": {"values": rows},
                "mark": {"type": "bar", "color": colour_of(policy)},
                "encoding": {**bars, "tooltip": tooltip},
            },
            {"data": {"values": counts}, "mark": {"type": "text", "dy": -7}, "encoding": middle},
        ],
    }


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
    x, title = {"field": "certificate", **SHARE, "title": "certificate"}, "answers that are gold"
    faint = {"condition": {"test": f"datum.questions < {FEW}", "value": 0.3}, "value": 1}
    whisker = {"x": x, "y": {"field": "low", **SHARE, "title": title}, "y2": {"field": "high"}, "opacity": faint}
    tooltip = [{"field": "certificate", "format": ".1%"}, {"field": "right", "format": ".1%"}, {"field": "questions"}]
    dot = {"x": x, "y": {"field": "right", **SHARE, "title": title}, "tooltip": tooltip, "opacity": faint}
    count = {"x": x, "y": {"field": "right", **SHARE}, "text": {"field": "questions", "format": ","}}
    return {
        "data": {"values": rows},
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            {"mark": {"type": "rule", "color": GREEN, "strokeWidth": 2}, "encoding": whisker},
            {"mark": {"type": "point", "filled": True, "size": 60, "color": GREEN}, "encoding": dot},
            {"mark": {"type": "text", "align": "right", "dx": -7}, "encoding": count},
        ],
    }


def _binned(answers: Sequence[Answer]) -> list[list[Answer]]:
    """Answers by the tenth of their certificate; 1 is in the last."""
    parts: list[list[Answer]] = [[] for _ in range(BINS)]
    for answer in answers:
        parts[min(BINS - 1, int(BINS * answer.certificate))].append(answer)
    return parts
