"""Live runs: one driver over ``Allocator.ask`` and ``tell``, under solve, stream, serve and sample.

driver.py     Driver: what the allocator asks for is fetched, read and told back
first_traces.py  FirstTraces: a run's first traces are read before more go out
fetch.py      Fetcher: one request to its end; what is tried again and what is charged
batch.py      BatchFetcher: the same by batch jobs, which outlive the process
endpoints.py  EndpointPool: several servers, their load, health and limits
question.py   OpenQuestion: texts become votes, votes the one Answer
ledger.py     Ledger: what is paid for, written down, in memory or in a run's store
run.py        Engine and solve: a run from its questions to its answers
config.py     RunConfig: what a run is to do
resume.py     begin, resume and read a stored run
budget.py     "16x", "5000", "2Mtok", "5usd"; prices of tokens
progress.py   expected self-consistency; a run in a few numbers
estimate.py   what a run would take
forecast.py   what budget for which self-consistency
"""

from pets.engine.budget import TokenPrice
from pets.engine.config import RunConfig, RunOptions
from pets.engine.driver import Driver, DriverConfig
from pets.engine.fetch import Fetcher
from pets.engine.ledger import Ledger
from pets.engine.progress import Snapshot, Solution
from pets.engine.question import Answer
from pets.engine.resume import restored, results
from pets.engine.run import Engine, solve

__all__ = [
    "Answer",
    "Driver",
    "DriverConfig",
    "Engine",
    "Fetcher",
    "Ledger",
    "RunConfig",
    "RunOptions",
    "Snapshot",
    "Solution",
    "TokenPrice",
    "restored",
    "results",
    "solve",
]
