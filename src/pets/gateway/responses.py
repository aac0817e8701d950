"""Responses to a voted request: one JSON body, or server-sent events."""

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pets.engine.progress import no_vote_words
from pets.engine.question import Answer
from pets.engine.submissions import VoteOutcome
from pets.gateway.ledger import GatewayLedger, RequestAccount
from pets.gateway.requests import ApiRequest

KEEPALIVE_EVENT = b": voting\n\n"
EVENT_CHARACTERS = 256  # of the text, in one event


@dataclass(frozen=True, slots=True)
class AnsweredVote:
    """A voted request and what came of it."""

    request: ApiRequest
    outcome: VoteOutcome
    account: RequestAccount
    answer: Answer
    seconds: float


def vote_metadata(vote: AnsweredVote, ledger: GatewayLedger) -> dict[str, Any]:
    """The ``pets`` object of a response: the answer's own fields and the gateway's; docs/gateway.md describes them."""
    outcome, account, charged, votes = vote.outcome, vote.account, vote.account.charged, vote.answer.votes or {}
    left, weighted = ledger.left(account.key), outcome.limits.weighted
    left_shown, unit = ledger.currency.shown(left or 0)
    spent, _ = ledger.currency.shown(charged.spent)
    return {
        **vote.answer.to_plain(),
        "cost": spent if unit == "usd" else None,
        "traces": charged.delivered + account.lost,  # all that were paid for, those that came too late as well
        "lost": account.lost,
        "reused": account.reused,
        **{name: getattr(charged, name) for name in ("cancelled", "estimated", "claimed_more")},
        "agreement": max(votes.values()) / sum(votes.values()) if votes else None,
        "weighted": weighted and outcome.question.verdict(weighted=True).weights is not None,
        "retries": outcome.retries,
        "remark": no_vote_words(
            vote.answer, outcome.limits.sampling.max_tokens, limit_option="max_tokens", answer_option="pets.answer"
        )
        or None,
        "stopped": "fallback" if account.kind == "fallback" else outcome.stopped,
        "price": None if outcome.log_price is None else math.exp(outcome.log_price),
        "mean_left": outcome.mean_left,
        "budget_left": None if left is None else left_shown,
        "unit": unit,
        "seconds": round(vote.seconds, 4),
        "upstream_seconds": round(account.upstream_s, 4),
    }


def completion_body(vote: AnsweredVote, metadata: Mapping[str, Any]) -> bytes:
    """The response in one piece: the choice of the best trace as the server gave it."""
    body = _envelope(vote, "chat.completion")
    body["choices"] = [{**_choice(vote), "index": 0}]
    return _serialized(body | {"usage": _usage(vote), "pets": metadata})


def sse_events(vote: AnsweredVote, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """The response as events: the text, then the end with the metadata, then the usage if it was asked for."""
    envelope = _envelope(vote, "chat.completion.chunk")
    choice = _choice(vote)
    message = dict(choice.get("message") or {})
    text = message.pop("content", None) or ""
    if calls := message.get("tool_calls"):
        message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    yield _event(envelope | {"choices": [_delta({"role": "assistant", **message, "content": ""})]})
    for start in range(0, len(text), EVENT_CHARACTERS):
        yield _event(envelope | {"choices": [_delta({"content": text[start : start + EVENT_CHARACTERS]})]})
    last = _delta({}) | {"finish_reason": choice.get("finish_reason") or "stop"}
    yield _event(envelope | {"choices": [last], "pets": metadata})
    if vote.request.include_usage:
        yield _event(envelope | {"choices": [], "usage": _usage(vote)})
    yield b"data: [DONE]\n\n"


def _choice(vote: AnsweredVote) -> dict[str, Any]:
    """The best trace's choice, else the first one's; log-probabilities stay only where the client asked for them."""
    raw, best = vote.outcome.question.raw, vote.outcome.question.best(vote.answer.canonical)
    choice = dict(raw.get(min(raw, default=0) if best is None else best.number) or {})
    if not vote.request.fields.get("logprobs"):
        choice["logprobs"] = None
    return choice


def _usage(vote: AnsweredVote) -> dict[str, int]:
    """Tokens over all traces of the vote."""
    completion, prompt = vote.answer.tokens, vote.answer.prompt_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": completion + prompt}


def _envelope(vote: AnsweredVote, object_type: str) -> dict[str, Any]:
    id, model = f"chatcmpl-{vote.answer.id}", vote.request.fields["model"]
    return {"id": id, "object": object_type, "created": int(time.time()), "model": model}


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + _serialized(data) + b"\n\n"


def _serialized(data: dict[str, Any]) -> bytes:
    """JSON; what a server sent as NaN or Infinity, which JSON has no word for, is null."""
    try:
        return json.dumps(data, allow_nan=False).encode()
    except ValueError:
        return json.dumps(json.loads(json.dumps(data), parse_constant=lambda name: None)).encode()
