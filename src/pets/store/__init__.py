"""Durable runs: questions, launches, traces and state in one SQLite file, or in a PostgreSQL.

>>> import tempfile
>>> from pathlib import Path
>>> from pets.questions import Problem
>>> from pets.samplers import Prompt
>>> folder = tempfile.TemporaryDirectory()
>>> with Store.open(Path(folder.name) / "runs.db") as store:
...     with store.create(RunRecord(total=100), [Problem("q1", Prompt("2 + 2 ="), "number", "4")]) as run:
...         run.write([Launch("q1", 0)], [])                        # durable before it is dispatched
...         run.write([], [StoredTrace("q1", 0, "4", tokens=3)])    # durable before it is counted
...         [trace.answer for trace in run.traces()], list(run.lost())
(['4'], [])
>>> folder.cleanup()

What survives: a write that has returned survives the death of the process (kill -9 included); the death of the
machine too, with ``durability="machine"`` (one flush to disk per write). Without it, a power cut may lose the last
writes, whole and in order, never the file.
"""

from pets.store.records import LostLaunch, RunRecord, RunState, RunSummary, StoredTrace
from pets.store.store import Run, RunView, Store
from pets.types import Launch

__all__ = ["Launch", "LostLaunch", "Run", "RunRecord", "RunState", "RunSummary", "RunView", "Store", "StoredTrace"]
