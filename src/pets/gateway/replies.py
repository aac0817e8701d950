"""What the server behind says: traces, each with the choice it came as."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pets.errors import ReplyError
from pets.openai.response import ABANDONED, ChoiceReader, error_message, token_count
from pets.samplers import Completion, Sampling

__all__ = ["TOP", "Drawn", "Reply", "read_reply"]

TOP = 20  # log-probabilities a token, for weighted votes
PLAIN, WEIGHTED = Sampling(), Sampling(top_logprobs=TOP)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One trace, and the choice as the server gave it."""

    completion: Completion
    choice: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """Traces of one request and what they took."""

    drawn: tuple[Drawn, ...]
    tokens: int
    prompt_tokens: int


def read_reply(body: bytes, n: int, weighted: bool, counted: bool = False) -> Reply:
    """The traces of a whole body; ``counted`` takes their tokens from the log-probabilities instead of the usage.

    >>> said = b'{"choices": [{"message": {"content": "B"}}], "usage": {"completion_tokens": 5, "prompt_tokens": 9}}'
    >>> reply = read_reply(said, n=1, weighted=False)
    >>> reply.drawn[0].completion.text, reply.tokens, reply.prompt_tokens
    ('B', 5, 9)
    """
    try:
        data = json.loads(body)
        choices = data["choices"][:n]
        usage = data.get("usage") or {}
        tokens, prompt_tokens = (token_count(usage, name) or 0 for name in ("completion_tokens", "prompt_tokens"))
        share = None if counted else tokens // max(1, len(choices))
        drawn = tuple(_drawn(choice, share, weighted) for choice in choices)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        words = error_message(body[:400].decode(errors="replace"))
        raise ReplyError(f"the server's reply cannot be read: {words}") from error
    if not drawn:
        raise ReplyError("the server's reply has no choices; at least one was expected.")
    if counted:
        tokens = sum(one.completion.tokens or 0 for one in drawn)
    return Reply(drawn, tokens, prompt_tokens)


def _drawn(choice: Mapping[str, Any], share: int | None, weighted: bool) -> Drawn:
    read = ChoiceReader(WEIGHTED if weighted else PLAIN)
    read.add(dict(choice))
    if read.finish in ABANDONED:
        raise ReplyError(f'the server gave a trace up (finish_reason "{read.finish}").')
    confidence = read.meter.result() if read.meter else None
    tokens = read.logprob_tokens if share is None else share
    return Drawn(Completion("".join(read.text), read.finish or "", tokens, None, confidence), choice)
