"""Replies to a voted request: one JSON body, or server-sent events."""

import json
import math
import time
from collections.abc import Iterator
from typing import Any

from pets.gateway.ballots import Outcome
from pets.gateway.ledger import Ledger
from pets.gateway.verdicts import as_plain

__all__ = ["KEEPALIVE", "events", "pets_object", "whole"]

KEEPALIVE = b": voting\n\n"
PIECE = 256  # characters of the text in one event


def pets_object(outcome: Outcome, ledger: Ledger) -> dict[str, Any]:
    """What PETS has to say of an answer; see docs/gateway.md."""
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


def whole(outcome: Outcome, about: dict[str, Any]) -> bytes:
    """The reply in one piece: the choice of the best trace as the server gave it."""
    body = _head(outcome, "chat.completion")
    body["choices"] = [{**_choice(outcome), "index": 0}]
    return json.dumps(body | {"usage": _usage(outcome), "pets": about}).encode()


def events(outcome: Outcome, about: dict[str, Any]) -> Iterator[bytes]:
    """The same as events: the text, then the end with what PETS has to say, then the usage if it was asked for."""
    head = _head(outcome, "chat.completion.chunk")
    choice = _choice(outcome)
    message = dict(choice.get("message") or {})
    text = message.pop("content", None) or ""
    yield _event(head | {"choices": [_delta({"role": "assistant", **message, "content": ""})]})
    for start in range(0, len(text), PIECE):
        yield _event(head | {"choices": [_delta({"content": text[start : start + PIECE]})]})
    last = _delta({}) | {"finish_reason": choice.get("finish_reason") or "stop"}
    yield _event(head | {"choices": [last], "pets": about})
    if outcome.poll.asked.include_usage:
        yield _event(head | {"choices": [], "usage": _usage(outcome)})
    yield b"data: [DONE]\n\n"


def _choice(outcome: Outcome) -> dict[str, Any]:
    """The best trace's; log-probabilities go along only where the client asked for them."""
    best = outcome.judgement.best
    choice = dict(best.drawn.choice) if best is not None and best.drawn is not None else {}
    if not outcome.poll.asked.fields.get("logprobs"):
        choice["logprobs"] = None
    return choice


def _usage(outcome: Outcome) -> dict[str, int]:
    """What was really spent, over all traces."""
    said, read = outcome.poll.tokens, outcome.poll.prompt_tokens
    return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": said + read}


def _head(outcome: Outcome, kind: str) -> dict[str, Any]:
    poll = outcome.poll
    model = poll.asked.fields["model"]
    return {"id": f"chatcmpl-{poll.id}", "object": kind, "created": int(time.time()), "model": model}


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"
