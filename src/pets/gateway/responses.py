"""Responses to a voted request: one JSON body, or server-sent events."""

import json
import math
import time
from collections.abc import Iterator
from typing import Any

from pets.gateway.ballots import Outcome
from pets.gateway.ledger import GatewayLedger
from pets.gateway.verdicts import as_plain

__all__ = ["KEEPALIVE_EVENT", "completion_body", "sse_events", "vote_metadata"]

KEEPALIVE_EVENT = b": voting\n\n"
EVENT_CHARACTERS = 256  # of the text, in one event


def vote_metadata(outcome: Outcome, ledger: GatewayLedger) -> dict[str, Any]:
    """The ``pets`` object of a response; docs/gateway.md describes its fields."""
    poll, decision = outcome.poll, outcome.poll.decision
    return {
        **as_plain(outcome.judgement),
        "traces": poll.delivered + poll.lost,
        "lost": poll.lost,
        "rounds": poll.rounds,
        "retries": poll.retries,
        "stopped": poll.stopped,
        "price": None if decision is None or decision.log_price is None else math.exp(decision.log_price),
        "mean_left": None if decision is None else decision.mean_left,
        "budget_left": ledger.left(poll.key),
        "unit": ledger.unit,
        "seconds": round(outcome.seconds, 4),
        "upstream_seconds": round(poll.waited, 4),
    }


def completion_body(outcome: Outcome, metadata: dict[str, Any]) -> bytes:
    """The response in one piece: the choice of the best trace as the server gave it."""
    body = _envelope(outcome, "chat.completion")
    body["choices"] = [{**_choice(outcome), "index": 0}]
    return json.dumps(body | {"usage": _usage(outcome), "pets": metadata}).encode()


def sse_events(outcome: Outcome, metadata: dict[str, Any]) -> Iterator[bytes]:
    """The response as events: the text, then the end with the metadata, then the usage if it was asked for."""
    envelope = _envelope(outcome, "chat.completion.chunk")
    choice = _choice(outcome)
    message = dict(choice.get("message") or {})
    text = message.pop("content", None) or ""
    yield _event(envelope | {"choices": [_delta({"role": "assistant", **message, "content": ""})]})
    for start in range(0, len(text), EVENT_CHARACTERS):
        yield _event(envelope | {"choices": [_delta({"content": text[start : start + EVENT_CHARACTERS]})]})
    last = _delta({}) | {"finish_reason": choice.get("finish_reason") or "stop"}
    yield _event(envelope | {"choices": [last], "pets": metadata})
    if outcome.poll.request.include_usage:
        yield _event(envelope | {"choices": [], "usage": _usage(outcome)})
    yield b"data: [DONE]\n\n"


def _choice(outcome: Outcome) -> dict[str, Any]:
    """The best trace's choice; its log-probabilities stay only where the client asked for them."""
    best = outcome.judgement.best
    choice = dict(best.drawn.choice) if best is not None and best.drawn is not None else {}
    if not outcome.poll.request.fields.get("logprobs"):
        choice["logprobs"] = None
    return choice


def _usage(outcome: Outcome) -> dict[str, int]:
    """Tokens over all traces of the vote."""
    completion, prompt = outcome.poll.tokens, outcome.poll.prompt_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": completion + prompt}


def _envelope(outcome: Outcome, kind: str) -> dict[str, Any]:
    poll = outcome.poll
    model = poll.request.fields["model"]
    return {"id": f"chatcmpl-{poll.id}", "object": kind, "created": int(time.time()), "model": model}


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"
