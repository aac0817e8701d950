"""Live runs: structured concurrency over ``Allocator.ask`` and ``tell``.

engine.py     Engine: a run from its questions to its answers
solving.py    solve: the same in one call
plan.py       what a run is to do
sharded.py    one server through several clients
sources.py    where questions and traces come from
budgets.py    "16x", "5000", "2Mtok", "5usd"
prices.py     what tokens cost
options.py    options as callers give them
dispatch.py   the loop: traces in flight, tries, giving up
trials.py     trying again
asking.py     prompts and seeds
lengths.py    tokens of a trace
width.py      how many traces are in flight
batches.py    traces of one question in one request
endpoints.py  several servers: load, health, choices in a request
purse.py      budgets in tokens or money
journal.py    write-behind to the store
reading.py    texts become votes
accounts.py   what is kept of a question's traces
answers.py    the rows of a finished run
outlook.py    expected self-consistency
snapshot.py   a run in a few numbers
runs.py       begin, resume and read a stored run
dry.py        what a run would take
forecast.py   what budget for which self-consistency
"""

from pets.engine.answers import Answer
from pets.engine.engine import Engine
from pets.engine.plan import Plan
from pets.engine.prices import Price
from pets.engine.runs import restored, results
from pets.engine.snapshot import Snapshot, Solution
from pets.engine.solving import solve

__all__ = ["Answer", "Engine", "Plan", "Price", "Snapshot", "Solution", "restored", "results", "solve"]
