"""Results as pictures, tables and pages: what replay found, and what a run came to.

:func:`draw_curves`, :func:`draw_difficulty` and :func:`draw_reliability` show a replayed pool, :func:`pool_table` and
:func:`certificate_table` tabulate it; on the clock :func:`draw_clock` and :func:`clock_table` do. A chart is a
Vega-Lite specification that :func:`save` writes.
"""

from pets.report.charts import draw_clock, draw_curves, draw_difficulty, draw_reliability
from pets.report.style import charts_library, save
from pets.report.tables import certificate_table, choice_table, clock_table, mixture_table, pool_table

__all__ = ["certificate_table", "charts_library", "choice_table", "clock_table", "draw_clock", "draw_curves"]
__all__ += ["draw_difficulty", "draw_reliability", "mixture_table", "pool_table", "save"]
