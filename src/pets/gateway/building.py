"""A whole gateway from a few words."""

from dataclasses import replace
from os import PathLike

from pets.core.budget import Currency
from pets.core.policy import Policy
from pets.engine.reading import answer_type
from pets.gateway.books import Books
from pets.gateway.desk import Desk
from pets.gateway.keys import Keys
from pets.gateway.ledger import Allowance, Ledger
from pets.gateway.settings import Settings
from pets.gateway.stream import Stream
from pets.gateway.upstream import Upstream
from pets.gateway.voting import Voter
from pets.plans import Drift
from pets.samplers.local import LocalSampler
from pets.store.database import Durability

__all__ = ["gateway"]


def gateway(
    upstream: str | LocalSampler,
    policy: Policy,
    *,
    mean_budget: float = 16.0,
    window: int = 100,
    store: str | PathLike[str] = ":memory:",
    durability: Durability = "process",
    total: int | None = None,
    allowance: Allowance | None = None,
    currency: Currency | None = None,
    key: str | None = None,
    settings: Settings | None = None,
    drift: Drift | None = None,
) -> Desk:
    """A gateway before the server at ``upstream``, or a local model; to be served by :func:`pets.gateway.serve`.

    ``mean_budget`` traces a question are planned over windows of ``window`` questions; ``total`` and ``allowance``
    are the ledger's hard limits in ``currency``, remembered by ``store``. ``drift`` watches the warm-ups of a plan.
    """
    settings = settings or Settings()
    if isinstance(upstream, LocalSampler):  # more at once than it has slots would wait there, or be refused
        slots = upstream.plan.slots
        settings = replace(settings, most=min(settings.most, slots), concurrency=min(settings.concurrency, slots))
    answer_type(settings.answer)  # not in the first request: a wrong one is said at once, and loading takes a while
    stream = Stream(policy, mean_budget, window=window, cap=settings.max_traces)
    server = Upstream(upstream, key=key, timeout=settings.timeout)
    books = Books(store, durability)
    ledger = Ledger(books, currency, total=total, allowance=allowance)
    keys = Keys(books.reader)
    books.start()
    voter = Voter(stream, server, ledger, settings, policy.belief)
    return Desk(voter, keys, settings, drift)
