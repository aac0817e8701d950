"""An OpenAI-compatible endpoint that answers from recorded pools or known distributions, and misbehaves on demand.

answers.py      what can be answered: a recorded pool, known answer distributions
traces.py       the text of a trace, and its log-probabilities
faults.py       what goes wrong and how often, and the limit on requests
completions.py  requests, parsed and checked; responses: JSON and server-sent events
model.py        MockModel: all of the above without a socket, and its statistics
batches.py      OpenAI's Batch interface: files, and jobs that answer a file of requests
server.py       the ASGI application; serve, and running for tests
"""

from typing import TYPE_CHECKING

from pets._extras import require
from pets.mock.answers import AnswerSource, DistributionAnswers, PoolAnswers, synthetic
from pets.mock.faults import Faults, RequestLimit
from pets.mock.model import MockModel, MockStats
from pets.mock.traces import TraceSpec

if TYPE_CHECKING:
    from pets.mock.server import app, running, serve

__all__ = ["AnswerSource", "DistributionAnswers", "Faults", "MockModel", "MockStats", "PoolAnswers", "RequestLimit"]
__all__ += ["TraceSpec", "app", "running", "serve", "synthetic"]


def __getattr__(name: str) -> object:
    """What needs starlette and uvicorn is imported when it is used: they are an extra, other verbs do without."""
    if name not in ("app", "running", "serve"):
        raise AttributeError(f"module 'pets.mock' has no attribute {name!r}")
    return getattr(require("pets.mock.server", "mock"), name)
