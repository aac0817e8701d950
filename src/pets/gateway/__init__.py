"""An OpenAI-compatible service that answers by vote, keeps to a budget, and shows what it does.

Begin with app.py: building and serving it, and how a request goes: requests.py checks it, completions.py answers by
vote, passthrough.py sends on what is none, pages.py shows the rest. The budget is ledger.py's, which ledger_backend.py
writes in batches to a store as ledger_store.py has it: sqlite_store.py or shared_store.py.
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
