"""Replays on a clock: every trace takes its tokens as time, and a question's traces race as they would live.

One loop runs them all (:func:`race`); what differs is m, the fewest votes that could settle the question, and the
width. ``asc:hurry=0.5`` is :func:`pets.core.race.width`, ``asc:places=1`` one at a time, ``asc:batch=2`` batches of 2 m
that wait for their last trace, ``all:32`` the vote of 32 that go out at once. Two rivals that launch everything and
cancel: ``its_beta`` stops the 32 by asc's rule (its_hub), ``short_m:8/16`` takes the first 8 of 16. A batch under one
budget (``okg:hurry=0.5,places=64``) is run by the allocator of live runs (:func:`race_batch`).

A cancelled trace has written as many tokens as time has passed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from heapq import heapify, heappop, heappush

from pets.core.allocator import Allocator
from pets.core.budget import Budget, cancelled_part, mean_trace, whole_traces
from pets.core.policy import Policy, QuotaPolicy, View
from pets.core.queues.quotas import coin_of
from pets.core.queues.walk import States, with_traces
from pets.core.race import width
from pets.core.tally import Tally
from pets.errors import InputError
from pets.lab.draws import Draw
from pets.lab.labelled import LabelledPool
from pets.types import Launch, Trace

HURRIES = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Those that a policy runs at which names none."""
ALL = 1e9  # a hurry that launches everything at once
MEAN_BUDGET = 16.0  # traces per question of a price rule that is run over hurries

Fewest = Callable[[int, Sequence[int], float], int]
"""m, given the state of the votes that are back, their launch numbers in the order of return, and their tokens."""


@dataclass(frozen=True, slots=True)
class FixedVotes(QuotaPolicy):
    """The vote of so many traces: all that go out, or the first that come back."""

    solitary = True

    votes: int = 32

    def quota(self, tally: Tally, view: View) -> int:
        return self.votes


@dataclass(frozen=True, slots=True)
class RacePace:
    """How the traces of one question go out: ``hurry``, at most ``places`` in flight and ``launches`` in all; with a
    ``batch`` of b, b m together, and the next when all of them are back."""

    hurry: float = 0.0
    places: int = 1 << 30
    launches: int = 1 << 30
    batch: float = 0.0


@dataclass(frozen=True, slots=True)
class Finish:
    """How a race ended: launch numbers ``back``, in the order of return; its ``time`` and ``tokens``; and ``parts``,
    the tokens that each cancelled trace had written."""

    back: tuple[int, ...]
    time: float
    tokens: float
    parts: tuple[float, ...]


def race(path: Sequence[Trace], fewest: Fewest, pace: RacePace, states: States) -> Finish:
    """One question's race on the traces of its path, in launch order, until its vote is settled or the path ends.

    >>> path = [Trace("q", n, answer, tokens=tokens) for n, (answer, tokens) in enumerate(zip("ABAA", (9, 2, 3, 4)))]
    >>> race(path, lambda state, back, tokens: 2 - len(back), RacePace(hurry=0.5), States())
    Finish(back=(1, 2), time=3.0, tokens=8.0, parts=(3.0,))
    """
    cap = min(len(path), pace.launches)
    begun: list[float] = []  # when each launch was made
    flying: list[tuple[float, int]] = []
    back: list[int] = []
    votes: dict[str, int] = {}
    now, tokens, state = 0.0, 0, 0
    while True:
        if not (pace.batch and flying):
            n, m = len(back), fewest(state, back, tokens)
            if m == 0:
                break
            room = min(cap - n, math.ceil(pace.batch * m)) if pace.batch else width(n, m, pace.hurry, cap)
            for number in range(len(begun), min(cap, len(begun) + min(room, pace.places) - len(flying))):
                begun.append(now)
                heappush(flying, (now + path[number].tokens, number))
        if not flying:
            break
        now, number = heappop(flying)
        back.append(number)
        tokens += path[number].tokens
        state = states.after(state, path[number].answer, votes)
    parts = tuple(now - begun[number] for _, number in flying)
    return Finish(tuple(back), now, tokens + sum(parts), parts)


def timed(pool: LabelledPool) -> LabelledPool:
    """The pool without requests that failed, which have no tokens and took no time; refused without lengths."""
    if any(question.tokens is None for question in pool.questions):
        raise InputError(f'pool "{pool.name}" has no "tokens"; a clock needs the length of every trace. Drop --clock.')
    questions = [q.with_traces([j for j, tokens in enumerate(q.tokens or ()) if tokens > 0]) for q in pool.questions]
    empty = [question for question in questions if not question.labels]
    return replace(pool, questions=tuple(questions)).without(empty, "has no trace with tokens")


def by_state(policy: QuotaPolicy, states: States, options: int | None, view: View) -> Fewest:
    """m of a rule that sees counts, at one view: asked once for each state and length class."""
    known: dict[tuple[int, int], int] = {}
    mark = policy.belief.mark

    def fewest(state: int, back: Sequence[int], tokens: float) -> int:
        mean = tokens / max(1, len(back))
        key = state, mark(mean)
        if key not in known:
            known[key] = policy.fewest(Tally(*states.keys[state], options=options, mean_tokens=mean), view)
        return known[key]

    return fewest


def by_tally(policy: QuotaPolicy, path: Sequence[Trace], states: States, options: int | None, view: View) -> Fewest:
    """m of any other rule at one question and view; with a limit of rounds it counts them."""
    rounds = 0

    def fewest(state: int, back: Sequence[int], tokens: float) -> int:
        nonlocal rounds
        key, mean = states.keys[state], tokens / max(1, len(back))
        tally = Tally(*key, options=options, rounds=rounds, mean_tokens=mean, question=path[0].question)
        if policy.sees == "traces":
            tally = with_traces(tally, [path[number] for number in sorted(back)])
        m = policy.fewest(tally, view)
        rounds += m > 0 and len(back) >= policy.warmup
        return m

    return fewest


def race_alone(policy: QuotaPolicy, draw: Draw, pace: RacePace, states: States) -> list[Finish]:
    """Every question by itself, under a rule that looks at one question alone."""
    paths, options, view = draw.traces.values(), draw.pool.options, View(cap=draw.size)
    if policy.sees == "counts":
        fewest = by_state(policy, states, options, view)
        return [race(path, fewest, pace, states) for path in paths]
    return [race(path, by_tally(policy, path, states, options, view), pace, states) for path in paths]


def race_arrivals(
    policy: QuotaPolicy, draw: Draw, pace: RacePace, states: States, rows: Sequence[int], total: int, seed: int
) -> list[Finish]:
    """Questions that arrive one by one, each when the vote before it is settled, on a budget of ``total`` traces.

    The policy is told what is left for votes: without the share that races so far have spent on cancelled traces.
    """
    paths = list(draw.traces.values())
    left, voted, parts, tokens, finishes = total, 0, 0, 0.0, []
    for position, row in enumerate(rows):
        coming = len(rows) - position - 1
        most = max(policy.warmup, min(draw.size, left - policy.warmup * coming))
        for_votes = left * voted // (total - left) if voted else left
        view = View(for_votes, coming + 1, draw.size, coin_of(seed, position))
        fewest = by_tally(policy, paths[row], states, draw.pool.options, view)
        finish = race(paths[row], fewest, replace(pace, launches=min(pace.launches, most)), states)
        finishes.append(finish)
        own, back = finish.tokens - sum(finish.parts), len(finish.back)
        voted, tokens = voted + back, tokens + own
        mean = mean_trace(own, back, tokens / max(1, voted))
        parts += sum(cancelled_part(part, mean) for part in finish.parts)
        left = total - voted - whole_traces(parts)
    return finishes


def race_batch(policy: Policy, draw: Draw, pace: RacePace, total: int, seed: int) -> list[Finish]:
    """All questions at once under one budget of ``total`` traces, by the allocator of live runs with ``pace.places`` in
    flight over all of them; each has its answer when the run ends."""
    budget, paths = Budget(total, draw.size), draw.traces
    allocator = Allocator(policy, budget, draw.questions(), seed=seed, hurry=pace.hurry)
    begun: dict[Launch, float] = {}
    flying: list[tuple[float, Launch]] = []
    back: dict[str, list[int]] = {id: [] for id in paths}
    parts: dict[str, list[float]] = {id: [] for id in paths}
    now, tokens, returned = 0.0, 0, 0
    while True:
        while launches := allocator.ask(pace.places - len(flying)):
            for launch in launches:
                if launch.number < len(paths[launch.question]):
                    begun[launch] = now
                    heappush(flying, (now + paths[launch.question][launch.number].tokens, launch))
                else:  # nothing more is recorded
                    allocator.give_up(launch)
        if not flying:
            break
        now, launch = heappop(flying)
        id, trace = launch.question, paths[launch.question][launch.number]
        back[id].append(launch.number)
        tokens, returned = tokens + trace.tokens, returned + 1
        settled = allocator.settles(id, [trace])
        allocator.tell(trace)
        if allocator.is_hurried(id) and (settled or allocator.settles(id)):
            tally = allocator.tally(id)
            mean = mean_trace(tally.mean_tokens * tally.returned, tally.returned, tokens / returned)
            for cancelled in allocator.pending(id):
                parts[id].append(now - begun[cancelled])
                allocator.tell(Trace(*cancelled, part=cancelled_part(parts[id][-1], mean)))
            flying = [(end, other) for end, other in flying if other.question != id]
            heapify(flying)
    return [
        Finish(tuple(back[id]), now, sum(paths[id][j].tokens for j in back[id]) + sum(parts[id]), tuple(parts[id]))
        for id in paths
    ]


def paced(spec: str) -> tuple[str | Policy, RacePace | None]:
    """A spec without what is the clock's (hurry, places, batch, launches), or a rival's policy; and its pace.

    >>> paced("asc:threshold=0.9,hurry=0.5")
    ('asc:threshold=0.9', RacePace(hurry=0.5, places=1073741824, launches=1073741824, batch=0.0))
    """
    name, _, text = spec.partition(":")
    if name == "all":
        return FixedVotes(int(_number(spec, text or "32"))), RacePace()
    if name == "short_m":
        votes, _, launches = (text or "8/16").partition("/")
        return FixedVotes(int(_number(spec, votes))), RacePace(ALL, launches=int(_number(spec, launches)))
    names = {field.name for field in fields(RacePace)}
    parts = [part.partition("=") for part in text.split(",") if part]
    own = {key: _number(spec, value) for key, _, value in parts if key in names}
    if name == "its_beta":
        name, own = "asc", {"hurry": ALL, "launches": 32.0, **own}
    rest = ",".join("".join(part) for part in parts if part[0] not in names)
    whole = {key: value if key in ("hurry", "batch") else int(value) for key, value in own.items()}
    return f"{name}:{rest}" if rest else name, RacePace(**whole) if own else None  # type: ignore[arg-type]


def _number(spec: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < math.inf:
        raise InputError(
            f"{spec!r}: {text!r} is no number, 0 or more. On the clock: asc:hurry=0.5,places=8, all:32, short_m:8/16."
        )
    return number
