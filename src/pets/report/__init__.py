"""Results as pictures, tables and pages: what replay found, what a run came to, and the paper's own figures.

:func:`draw_curves`, :func:`draw_difficulty` and :func:`draw_reliability` show a replayed pool, :func:`pool_table` and
:func:`certificate_table` tabulate it; :func:`draw_voting` and :func:`draw_plan` need no pool, :func:`bin_sweep` and
:func:`wall_clock` do, and so does :func:`paper_results`. A chart is a Vega-Lite specification that :func:`save` writes.
"""

from pets.report.curves import draw_curves
from pets.report.difficulty import draw_difficulty
from pets.report.look import charts_library, save
from pets.report.paper_figures import budget_plan, draw_plan, draw_voting, voting_curves
from pets.report.paper_results import not_given, paper_results
from pets.report.paper_tables import ORACLE, PREDICTOR, bin_sweep, wall_clock
from pets.report.reliability import draw_reliability
from pets.report.tables import (
    certificate_table,
    choice_table,
    clock_table,
    mixture_table,
    pool_table,
    result_table,
    sweep_table,
    write_csv,
)

__all__ = ["ORACLE", "PREDICTOR", "bin_sweep", "budget_plan", "certificate_table", "charts_library", "clock_table"]
__all__ += ["draw_curves", "draw_difficulty", "draw_plan", "draw_reliability", "draw_voting", "pool_table", "save"]
__all__ += [
    "choice_table",
    "mixture_table",
    "not_given",
    "paper_results",
    "result_table",
    "sweep_table",
    "voting_curves",
    "wall_clock",
    "write_csv",
]
