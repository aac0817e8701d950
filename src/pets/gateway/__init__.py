"""An OpenAI-compatible service that answers by vote, keeps to a budget, and shows what it does.

settings.py   what the operator chooses
asking.py     requests: parsed and checked
refusals.py   errors in OpenAI's form
keys.py       API keys, kept as hashes
books.py      rows of the ledger in the store, durable when awaited
ledger.py     the budget: held before a dispatch, settled after it
stream.py     one allocator over all questions that come
upstream.py   the server behind, or a local model
replies.py    what it says
ballots.py    a question while it is voted on
voting.py     Voter: launches go upstream, answers come back as votes
verdicts.py   the vote, its certificate, the trace that speaks for it
wire.py       replies: JSON and server-sent events
line.py       one request's connection
metrics.py    for Prometheus
logs.py       JSON lines
tracing.py    spans, where OpenTelemetry is installed
board.py      what the dashboard shows; dashboard.html is the page
desk.py       what the endpoints share
chat.py       POST /v1/chat/completions
openapi.py    its description
app.py        the ASGI application
building.py   a whole gateway from a few words
server.py     serve, and running for tests
"""

import importlib
from typing import TYPE_CHECKING

from pets.errors import InputError
from pets.gateway.settings import Limits, Settings

if TYPE_CHECKING:
    from pets.gateway.building import gateway
    from pets.gateway.server import running, serve

__all__ = ["Limits", "Settings", "gateway", "running", "serve"]

SERVED = {
    "gateway": "pets.gateway.building",
    "running": "pets.gateway.server",
    "serve": "pets.gateway.server",
}


def __getattr__(name: str) -> object:
    """What needs starlette, uvicorn and prometheus-client is imported when it is used: they are an extra."""
    if name not in SERVED:
        raise AttributeError(f"module 'pets.gateway' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(SERVED[name]), name)
    except ImportError as error:
        raise InputError(f'the gateway needs {error.name}, which is not here. Try: pip install "pets[serve]"') from None
