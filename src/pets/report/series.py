"""A line of a plot: the mean of one metric over repetitions and its deviation, against mean traces a question."""

from dataclasses import dataclass

import numpy as np

from pets.replay.results import Floats, Result

__all__ = ["Series", "series"]

POINTS = 400  # of a curve with a point for every trace: more than a plot is wide


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """``traces``, ``mean`` and ``deviation``, (V,) each, cheapest point first; ``swept`` where points are few."""

    label: str
    swept: bool
    traces: Floats
    mean: Floats
    deviation: Floats


def series(result: Result, values: Floats) -> Series:
    """The line of ``values`` (R, V) of a result; a curve is thinned to the points that a plot can show.

    Points of a sweep are averaged value by value; with one repetition the deviation is 0.
    """
    chosen = _chosen(result)
    traces, values = result.traces[:, chosen].mean(axis=0), values[:, chosen]
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(chosen))
    order = np.argsort(traces, kind="stable")
    label = f"{result.policy} (stream)" if result.setting == "online" else result.policy
    return Series(label, result.option is not None, traces[order], values.mean(axis=0)[order], deviation[order])


def _chosen(result: Result) -> list[int]:
    """All points of a sweep; of a curve, evenly on a logarithmic axis from one trace a question on."""
    if result.option is not None:
        return list(range(len(result.values)))
    last = result.agree.shape[1] - 1
    chosen: list[int] = np.unique(np.geomspace(min(result.questions, last), last, POINTS).round().astype(int)).tolist()
    return chosen
