r"""Races: how many traces of one question are in flight, and when its vote is settled.

n traces of a question are back, in whatever order; m is the fewest further votes, all of them for today's leader, after
which its policy could want no more (:meth:`~pets.core.policy.Policy.fewest`; 0: the vote is settled). In flight are

    w = ceil(m + hurry (n + m)),      and with hurry > 0 what is still in flight at m = 0 is cancelled.

**A vote for the leader launches nothing**: m falls by one and n grows by one, so that w falls by one, as the traces in
flight do. Only a vote against the leader, or a trace without one, makes room.

**With hurry 0 nothing is wasted.** All m in flight must come back before the vote can be settled. One at a time would
stop at N traces; of these b are back, the other N - b settle the vote, hence so do N - b or fewer for the leader:
m <= N - b, and no more than N are launched. Launches, votes and answer are those of one at a time, for every rule to
which a vote for the leader is worth as much as any other (asc, lead, a fixed price).

For each question, with its tally over all that is back,

    m = policy.fewest(tally, view, price)                 # price: an index policy's alone
    if m == 0: cancel what is in flight, take the vote    # nothing to cancel with hurry 0
    launch while in_flight < width(n, m, hurry, cap)      # needed: while in_flight < m; the rest is speculative

and over all questions the needed go before the speculative ones.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from pets.core.tally import Tally

MOST_LOOKS = 64  # times that a policy is asked on the way to a settled vote


def width(n: int, m: int, hurry: float, cap: int | None = None) -> int:
    """w = ceil(m + hurry (n + m)): traces of a question in flight, when n are back and m more could settle it.

    None where the vote is settled (m = 0); with those that are back no more than ``cap``.

    >>> [width(2, 3, hurry) for hurry in (0, 0.5, 1, 2)], width(3, 2, 0.5), width(5, 0, 1), width(2, 3, 9, cap=16)
    ([3, 6, 8, 13], 5, 0, 14)
    """
    if m <= 0:
        return 0
    w = m + math.ceil(hurry * (n + m) - 1e-9)  # 0.1 * 30 is not to be 4
    return w if cap is None else max(0, min(w, cap - n))


def fewest(more: Callable[[Tally], int], tally: Tally) -> int:
    """m: how many votes for the leader it takes until ``more``, the traces that a tally gets next, says 0.

    >>> fewest(lambda tally: int(tally.counts[0] < 5), Tally((3, 2)))
    2
    """
    m, state = 0, replace(tally, pending=0) if tally.pending else tally
    for _ in range(MOST_LOOKS):
        votes = more(state)
        if votes <= 0:
            break
        m += votes
        state = with_leader_votes(state, votes)
    return m


def with_leader_votes(tally: Tally, votes: int) -> Tally:
    """The tally after so many more votes for its leader, each as long and as sure as the leader's others.

    >>> with_leader_votes(Tally.of(["A", "B", "A"]), 2).answers
    ('A', 'B', 'A', 'A', 'A')
    """
    first, *others = tally.counts or (0,)
    counts, before = (first + votes, *others), (tally.nulls, tally.pending, tally.options, tally.rounds, tally.mark)
    grown = Tally(counts, *before, tally.mean_tokens, tally.question, extra=tally.extra)
    if tally.counts and not tally.answers:
        return grown  # of a policy that sees counts
    leader, confidence = "A", 1.0
    if tally.answers:
        cast = [answer for answer in tally.answers if answer is not None]
        leader = max(cast, key=cast.count, default=leader)
        pairs = zip(tally.answers, tally.confidences, strict=False)
        if known := [value for answer, value in pairs if answer == leader and value is not None]:
            confidence = sum(known) / len(known)
    return replace(
        grown,
        answers=(*tally.answers, *[leader] * votes),
        confidences=(*tally.confidences, *[confidence] * votes),
        tokens=(*tally.tokens, *[round(tally.mean_tokens)] * votes),
    )
