"""What ``pets.replay`` hands back: the results of every pool, to read, tabulate and plot."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pets.engine.progress import html_table
from pets.lab import LEVELS, PoolResult, traces_at_mean
from pets.report.charts import draw_clock, draw_curves
from pets.report.style import Chart, charts_library, save, themed
from pets.report.tables import CLOCK_COLUMNS, clock_rows


class ReplayResults(tuple[PoolResult, ...]):
    """The result of every pool, in the order of the pools. In a notebook it is a table of traces per question.

    >>> import pets
    >>> results = pets.replay([{"id": "q1", "answers": ["A", "B", "A", "A"]}], ["okg", "uniform"], repetitions=2)
    >>> len(results), results[0].questions, sorted(results.traces_at(0.95))
    (1, 1, ['okg', 'uniform'])
    """

    def traces_at(self, level: float) -> dict[str, float]:
        """Mean traces per question at which each policy reaches a self-consistency, such as 0.95; the mean over pools.

        NaN where a policy does not reach it on every pool.
        """
        pools = [{result.policy: traces_at_mean(result, level) for result in pool.results} for pool in self]
        policies = dict.fromkeys(policy for pool in pools for policy in pool)
        return {policy: float(np.mean([pool[policy] for pool in pools])) for policy in policies}

    def plot(self) -> "CurvesPlot":
        """Self-consistency, and accuracy where gold is known, against traces; on the clock time against tokens."""
        charts = [draw_clock(pool) if pool.config.clock else draw_curves(pool) for pool in self]
        return CurvesPlot(charts[0] if len(charts) == 1 else {"vconcat": charts})

    def __repr__(self) -> str:
        return f"<ReplayResults: {', '.join(self.traces_at(1.0))} on {', '.join(pool.pool for pool in self)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        if self and self[0].config.clock:
            rows = [[pool.pool, *row] for pool in self for row in clock_rows(pool)]
            return html_table(["pool", "policy", "at", *CLOCK_COLUMNS], rows)
        traces = {level: self.traces_at(level) for level in LEVELS}
        rows = [
            [policy, *(f"{at[policy]:.1f}" if np.isfinite(at[policy]) else "not reached" for at in traces.values())]
            for policy in traces[LEVELS[0]]
        ]
        return html_table(["traces per question for", *(f"{level:.4g}" for level in LEVELS)], rows)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CurvesPlot:
    """A plot, as a Vega-Lite chart: a notebook shows it, :meth:`save` writes it. Needs pets-llm[plots]."""

    chart: Chart

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write it as PNG, SVG and PDF beside one another; return the files."""
        return save(self.chart, Path(path))

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        drawing: str = charts_library().vegalite_to_svg(json.dumps(themed(self.chart)))
        return drawing
