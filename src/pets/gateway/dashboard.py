"""What the dashboard shows to a key: to an admin all, or the share of one key; to any other key its own share.

Budgets and spend by key are those of the store, of all gateways that share it; all else is counted by this gateway,
from its start on.
"""

import asyncio
from typing import Any

from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.history import RESOLUTIONS
from pets.gateway.ledger import BudgetLimit
from pets.gateway.state import GatewayState
from pets.openai.errors import ApiError

SHOWN_KEYS = 100  # those that have spent most; each is a balance that a shared store is asked for


class Dashboard:
    """The dashboard's data: :meth:`snapshot` as of now, :meth:`history` over time, :meth:`question` in full."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state

    def snapshot(self, key: ApiKey, of_key: str | None = None) -> dict[str, Any]:
        """Everything but the history, of the key ``of_key`` where an admin asks for that."""
        name, metrics = self._name(key, of_key), self._state.metrics
        share = metrics.share_of(name)
        numbers = share.now()
        spent_per_second, replica = numbers.pop("spent_per_second"), self._state.ledger.backend.store.replicas
        own = {"name": replica[0]} if replica is not None and key.admin else {}  # which is a machine's
        return numbers | {
            "at": share.history.clock(),
            "started": share.history.started,
            "viewer": {"name": key.name, "admin": key.admin},
            "of_key": name,
            "replica": None if replica is None else {"replicas": replica[1]} | own,
            "unit": self._state.ledger.currency.shown(0)[1],
            "budget": self._budget(key, name, spent_per_second),
            "mean_budget": self._state.mean_budget,
            "drift": None if metrics.drift is None else metrics.drift.to_plain(),
            "upstream": self._upstream(key),
            "keys": self._keys(key),
            "questions": list(share.questions)[::-1],
            "errors": list(share.errors)[::-1],
            "ready": self._state.readiness(),
        }

    def history(self, key: ApiKey, span: str, of_key: str | None = None) -> dict[str, Any]:
        """The last hour or day, a column for each quantity."""
        if span not in RESOLUTIONS:
            raise ApiError(f"'span' is one of {', '.join(RESOLUTIONS)}.", param="span")
        return self._state.metrics.share_of(self._name(key, of_key)).columns(span)

    def question(self, key: ApiKey, id: str) -> dict[str, Any]:
        detail = self._state.metrics.recent.find(id, key)
        if detail is None:
            words = "This question is not here: it is no longer kept, or another replica has answered it."
            raise ApiError(words, status=404, code="question_not_kept")
        return detail

    def _name(self, key: ApiKey, of_key: str | None) -> str | None:
        """The name of the key whose share is shown to ``key``; None for all of them."""
        name = of_key or None if key.admin else key.name
        if name is not None and name != key.name and name not in self._key_names():
            raise ApiError("There is no such key.", status=404, param="key", code="unknown_key")
        return name

    def _key_names(self) -> list[str]:
        """Keys that have spent, the most first, then those that may ask."""
        return list(dict.fromkeys([*self._state.ledger.spenders, *(key.name for key in self._state.keys.active())]))

    def _budget(self, key: ApiKey, name: str | None, per_second: float) -> dict[str, Any]:
        """What is spent, held and left of the limits that a viewer may know, and when they end at the present pace."""
        ledger, shown = self._state.ledger, self._state.ledger.shown
        balance = ledger.total if name is None else ledger.balance_of(name)
        owner = ANYBODY if name is None else next((key for key in self._state.keys.active() if key.name == name), None)
        limits = [] if owner is None else ledger.limits(owner)
        rows = [self._limit(limit, per_second) for limit in limits if name is None or limit.name == "key"]
        left = ledger.left(key) if name in (None, key.name) else None
        return {
            "spent": shown(balance.spent),
            "held": shown(balance.held),
            "left": min((row["left"] for row in rows), default=None) if left is None else shown(left),
            "per_hour": 3600 * per_second,
            "limits": rows,
        }

    def _limit(self, limit: BudgetLimit, per_second: float) -> dict[str, Any]:
        balance, most, shown = limit.balance, limit.balance.limit or 0, self._state.ledger.shown
        left = shown(max(0, most - balance.spent - balance.held))
        row = {
            "name": limit.name,
            "limit": shown(most),
            "spent": shown(balance.spent),
            "held": shown(balance.held),
            "left": left,
            "ends_in_s": left / per_second if per_second > 0 else None,
        }
        return row if limit.seconds is None else row | {"seconds": limit.seconds, "refills_in_s": limit.refills_in_s}

    def _keys(self, viewer: ApiKey) -> dict[str, Any]:
        """What each key has spent, of a budget per window in the present one, over all replicas, and how many there
        are; who is no admin sees the own one."""
        ledger, owners = self._state.ledger, {key.name: key for key in self._state.keys.active()}
        names = self._key_names() if viewer.admin else [viewer.name]
        rows = []
        for name in names[:SHOWN_KEYS]:
            owner = owners.get(name) or ApiKey(name)
            balance, limit = ledger.budget_balance_of(owner), owner.budget
            rows.append({
                "name": name,
                "spent": ledger.shown(balance.spent),
                "held": ledger.shown(balance.held),
                "limit": None if limit is None else ledger.shown(limit),
            })  # fmt: skip
        return {"rows": rows, "number": len(names)}

    def _upstream(self, viewer: ApiKey) -> dict[str, Any]:
        """How each server does for each model, as its latest requests say: ``down`` while it rests after failures,
        ``waiting`` by its own word, ``failing``, ``up`` after an answer; where it is and its load for admins."""
        pool, urls, rows = self._state.driver.fetcher.pool, self._state.upstream.urls, []
        now = asyncio.get_running_loop().time()  # which endpoints go by
        for model, part in (pool.by_model or {"": pool}).items():
            for endpoint in part.endpoints:
                states = {
                    "down": endpoint.rest_until > now,
                    "waiting": endpoint.blocked_until > now,
                    "failing": endpoint.failures,
                    "up": endpoint.answered,
                }
                rows.append({
                    "state": next((name for name, holds in states.items() if holds), "not asked"),
                    "failures": endpoint.failures,
                    "retry_in_s": max(0.0, max(endpoint.rest_until, endpoint.blocked_until) - now),
                    "latency_s": endpoint.latency_s,
                    "server": endpoint.number + 1,
                    "model": model,
                })  # fmt: skip
                if viewer.admin:
                    url = urls[endpoint.number] if endpoint.number < len(urls) else "this machine"
                    rows[-1] |= {"url": url, "in_flight": endpoint.in_flight}
        return {"servers": rows, "faults": dict(self._state.driver.fetcher.faults) if viewer.admin else {}}
