"""An OpenAI-compatible service that answers by vote, keeps to a budget, and shows what it does.

app.py            building a gateway, serving it; a path of the API: key, body, errors, the row in the log
completions.py    chats that are voted on
passthrough.py    plain requests: sent on, counted, their replies passed back
requests.py       requests: parsed and checked
responses.py      responses: JSON and server-sent events
auth.py           API keys, kept as hashes
ledger.py         the budget: held before a request goes upstream, settled after it
ledger_backend.py what it reserves and settles, written in batches; a store that fails, tried again
ledger_store.py   rows, balances, and what a store of them does
sqlite_store.py   a file or memory, of one gateway
shared_store.py   a PostgreSQL, of replicas with one budget
metrics.py        what is counted, in all and for each key: a Prometheus registry each, which the dashboard reads, too
history.py        its snapshots of an hour and a day
recent_questions.py  the latest votes in full
pages.py          the paths that only read: dashboard, models, probes, metrics, the OpenAPI description
telemetry.py      logs as JSON lines, spans where OpenTelemetry is installed
settings.py       what the operator chooses
state.py          what the endpoints share
upstream.py       the servers behind: samplers for votes, models, what passes through
"""

from typing import TYPE_CHECKING

from pets._extras import require
from pets.gateway.settings import Limits, Settings

if TYPE_CHECKING:
    from pets.gateway.app import build_gateway, running, serve

__all__ = ["Limits", "Settings", "build_gateway", "running", "serve"]


def __getattr__(name: str) -> object:
    """What needs starlette, uvicorn and prometheus-client is imported when it is used: they are an extra."""
    if name not in ("build_gateway", "running", "serve"):
        raise AttributeError(f"module 'pets.gateway' has no attribute {name!r}")
    return getattr(require("pets.gateway.app", "serve"), name)
