"""An OpenAI-compatible endpoint that answers from recorded pools or known distributions, and misbehaves on demand.

Begin with model.py: MockModel, which answers a request without a socket; server.py serves it.
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
