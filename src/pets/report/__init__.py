"""Results as pictures and tables: what replay found, drawn; and the paper's own figures.

:func:`draw_curves`, :func:`draw_difficulty` and :func:`draw_reliability` show a replayed pool, :func:`pool_table` and
:func:`certificate_table` tabulate it; :func:`draw_voting` and :func:`draw_plan` need no pool, :func:`bin_sweep` and
:func:`wall_clock` do.
"""

from pets.report.canvas import check_matplotlib, save
from pets.report.curves import draw_curves
from pets.report.difficulty import draw_difficulty
from pets.report.plan import budget_plan, draw_plan
from pets.report.reliability import draw_reliability
from pets.report.replayed import certificate_table, pool_table
from pets.report.sweeps import ORACLE, PREDICTOR, bin_sweep
from pets.report.tables import clock_table, sweep_table, write_csv
from pets.report.voting import draw_voting, voting_curves
from pets.report.wallclock import wall_clock

__all__ = ["ORACLE", "PREDICTOR", "bin_sweep", "budget_plan", "certificate_table", "check_matplotlib", "clock_table"]
__all__ += ["draw_curves", "draw_difficulty", "draw_plan", "draw_reliability", "draw_voting", "pool_table", "save"]
__all__ += ["sweep_table", "voting_curves", "wall_clock", "write_csv"]
