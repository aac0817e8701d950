"""Live runs: one driver over ``Allocator.ask`` and ``tell``, under solve, stream, serve and sample.

Begin with run.py (Engine, from questions to answers) and driver.py (Driver, the loop); CONTRIBUTING.md has a line for
each module.
"""

from pets.engine.budget import TokenPrice
from pets.engine.driver import Driver
from pets.engine.fetch import Fetcher
from pets.engine.ledger import Ledger
from pets.engine.progress import Consistency, Snapshot, Solution
from pets.engine.question import Answer
from pets.engine.resume import restored, results
from pets.engine.run import Engine
from pets.engine.spec import RunOptions, RunSpec

__all__ = [
    "Answer",
    "Consistency",
    "Driver",
    "Engine",
    "Fetcher",
    "Ledger",
    "RunOptions",
    "RunSpec",
    "Snapshot",
    "Solution",
    "TokenPrice",
    "restored",
    "results",
]
