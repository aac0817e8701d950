"""Soft votes read from log-probabilities: which token decides a trace's answer, and what else it might have been."""

import math
from collections.abc import Sequence
from functools import lru_cache

from pets.answers.base import AnswerType
from pets.prompts import TokenAlternatives
from pets.types import SoftVote

__all__ = ["soft_vote"]

SURE = 0.95  # of a token that leaves nothing to decide
SMALLEST_SHARE = 5e-4  # of a token that is kept


def soft_vote(
    alternatives: Sequence[TokenAlternatives], form: str, answer_type: AnswerType, temperature: float
) -> SoftVote | None:
    """What a trace with the answer ``form`` might have said at its deciding token; ``None`` where none is known.

    The deciding token is the first that was not sure from what stands before it, or that spells the answer: all traces
    of a question have it in common, up to words that they share. Servers report probabilities before the temperature
    is applied (vLLM, llama.cpp), so it is applied here.

    >>> from pets.answers.choice import Choice
    >>> logprobs = {" B": math.log(0.6), " C": math.log(0.3), " Both": math.log(0.1)}
    >>> soft_vote([TokenAlternatives(" B", logprobs)], "B", Choice(), temperature=1.0)
    SoftVote(token='B', shares=(('B', 0.6), ('C', 0.3), ('', 0.1)))
    """
    if temperature <= 0.0 or answer_type.merges:
        return None
    for token, logprobs in alternatives:
        finite = {word: value for word, value in logprobs.items() if math.isfinite(value)}
        if len(finite) < 2:
            continue
        top = max(finite.values())
        weights = {word: math.exp((value - top) / temperature) for word, value in finite.items()}
        total = math.fsum(weights.values())
        spelled = _spelled(answer_type, token)
        if 1.0 / total >= SURE and spelled != form:
            continue
        shares: dict[str, float] = {}
        for word, weight in weights.items():
            answer = _spelled(answer_type, word)
            shares[answer] = shares.get(answer, 0.0) + weight / total
        kept = {word: round(share, 4) for word, share in shares.items() if share > SMALLEST_SHARE or word == spelled}
        return SoftVote(spelled, tuple(sorted(kept.items(), key=lambda item: -item[1])))
    return None


@lru_cache(maxsize=1 << 16)
def _spelled(answer_type: AnswerType, token: str) -> str:
    """The answer that a token spells by itself; empty where it is none."""
    return answer_type.canonical(token) or ""
