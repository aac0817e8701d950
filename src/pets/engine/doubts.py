"""Why a question is uncertain, as far as something can be done about it."""

import math
from collections.abc import Mapping
from typing import Literal

from pets.engine.question import Answer, Outcome
from pets.engine.summary import NO_VOTE, outcome_words, remedy_words

Doubt = Outcome | Literal["spelling", "cap", "near tie", "few traces"]

CERTAIN = 0.95  # certificate from which a question is left alone
FEW_VOTES = 8  # with fewer than these a close vote is no near tie yet
WORD_LETTERS = 3  # of a word that two answers share, for them to look like one


def doubt_of(answer: Answer, cap: int | None) -> Doubt | None:
    """Why an answer is uncertain; ``None`` where it is not. No question gets more than ``cap`` traces.

    >>> doubt_of(Answer("q", "4", {"4": 9}, 0.99, traces=9), 64) is None
    True
    >>> doubt_of(Answer("q", "4", {"4": 1}, 0.6, traces=9, no_answer=8, cut=7, failed=1), 64)
    'cut'
    >>> doubt_of(Answer("q", "Mandarin", {"Mandarin": 9, "Mandarin Chinese": 8}, 0.6, traces=17), 64)
    'spelling'
    >>> [doubt_of(Answer("q", "4", {"4": n, "5": n - 1}, 0.6, traces=2 * n - 1), 17) for n in (2, 6, 9)]
    ['few traces', 'near tie', 'cap']
    """
    if answer.certificate >= CERTAIN:
        return None
    if 2 * answer.no_answer >= max(1, answer.traces):
        return max(NO_VOTE, key=lambda outcome: getattr(answer, outcome))
    (first, most), (second, next_most) = _leaders(answer.votes)
    if next_most and look_alike(first, second):
        return "spelling"
    if cap is not None and answer.traces >= cap:
        return "cap"
    if most + next_most >= FEW_VOTES and most - next_most <= math.sqrt(most + next_most):
        return "near tie"  # within what tosses of a coin differ by
    return "few traces"


def _leaders(votes: Mapping[str, float]) -> list[tuple[str, float]]:
    """The two answers with most votes; of fewer, with answers without any."""
    return [*sorted(votes.items(), key=lambda vote: -vote[1]), ("", 0.0), ("", 0.0)][:2]


def look_alike(answer: str, other: str) -> bool:
    """Whether all words of one answer are in the other, a longer one among them.

    >>> look_alike("mandarin", "Mandarin (Chinese)"), look_alike("12", "112"), look_alike("x + 1", "x")
    (True, False, False)
    """
    few, many = sorted((_words(answer), _words(other)), key=len)
    return few <= many and any(len(word) >= WORD_LETTERS and not word.isdecimal() for word in few)


def _words(answer: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in answer.casefold()).split())


def doubt_words(doubt: Doubt, max_tokens: int | None, cap: int | None, run: int) -> str:
    """The doubt of some questions, and what can be done about it.

    >>> doubt_words("cap", 512, 64, 3)
    'at the most traces that a question may get, 64; raise --max-traces'
    """
    words = {
        "spelling": f"split between spellings of what may be one answer; try pets runs reread {run} --answer text",
        "cap": f"at the most traces that a question may get, {cap}; raise --max-traces",
        "near tie": "a near tie; more traces settle some, --policy okg:zone=0.1 stops at those that none would",
        "few traces": "few traces so far; more budget settles most of them",
    }
    if doubt in words:
        return words[doubt]
    outcome: Outcome = doubt  # type: ignore[assignment]
    return f"most traces cast no vote, {outcome_words(outcome, max_tokens)}; {remedy_words(outcome, max_tokens)}"
