"""An OpenAI-compatible endpoint that answers from recorded pools or known distributions, and misbehaves on demand.

book.py      what can be said: a recorded pool, known answer distributions
finding.py   which question a prompt asks
speech.py    the words of a trace
thoughts.py  which of them are thoughts, where a server sends those apart
logprobs.py  log-probabilities with a given confidence
faults.py    what goes wrong, and how often
stats.py     the books
asking.py    requests: parsed and checked
wire.py      replies: JSON and server-sent events
mind.py      Mock: all of the above, without a socket
asgi.py      the ASGI application
server.py    serve, and running for tests
"""

import importlib
from typing import TYPE_CHECKING

from pets.errors import InputError
from pets.mock.book import Book, Known, Recorded, synthetic
from pets.mock.faults import Faults
from pets.mock.mind import Mock
from pets.mock.speech import Said
from pets.mock.stats import Stats

if TYPE_CHECKING:
    from pets.mock.asgi import app
    from pets.mock.server import running, serve

__all__ = ["Book", "Faults", "Known", "Mock", "Recorded", "Said", "Stats", "app", "running", "serve", "synthetic"]

SERVED = {"app": "pets.mock.asgi", "running": "pets.mock.server", "serve": "pets.mock.server"}


def __getattr__(name: str) -> object:
    """What needs starlette and uvicorn is imported when it is used: they are an extra, other verbs do without."""
    if name not in SERVED:
        raise AttributeError(f"module 'pets.mock' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(SERVED[name]), name)
    except ImportError as error:
        raise InputError(f'the mock needs {error.name}, which is not here. Try: pip install "pets[mock]"') from None
