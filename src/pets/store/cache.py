"""The store as a cache of traces: what an earlier run has paid for, found by what was asked and of whom.

A trace belongs to its launch number and the key of its question: a digest of all that a model is asked and how its
traces are drawn, without gold, answer type, instruction, policy, budget and order. Its run's ``sources`` name model and
server. A trace that failed is not reused, nor is one behind a launch that was cancelled: what was broken off was longer
than the rest.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from pets.prompts import Message, Sampling
from pets.questions import Problem
from pets.store.database import SQL, Database
from pets.store.records import RunRecord, StoredTrace, read_rows, trace_of

KEYS_PER_QUERY = 500
KEY_DIGITS = 32


def trace_keys(problems: Iterable[Problem], sampling: Sampling, system: str | None, seed: int) -> dict[str, str]:
    """The key of each question, by its id; a prompt that comes again has a key of its own, by its count.

    >>> from pets.prompts import Prompt
    >>> twice = [Problem(id, Prompt.question("2 + 2?")) for id in "ab"]
    >>> keys = trace_keys(twice, Sampling(), None, seed=0)
    >>> keys["a"] == keys["b"], keys["a"] == trace_keys(twice[:1], Sampling(temperature=1), None, seed=0)["a"]
    (False, True)
    """
    return dict(content_keys(map(attrgetter("id", "prompt.own.content"), problems), sampling, system, seed))


def content_keys(
    contents: Iterable[tuple[str, str | tuple[Message, ...]]], sampling: Sampling, system: str | None, seed: int
) -> Iterator[tuple[str, str]]:
    """As :func:`trace_keys`, of ids and what their prompts say without an instruction."""
    usual = asdict(Sampling())
    drawn = {name: value for name, value in asdict(sampling).items() if value != usual[name]}
    terms = json.dumps([drawn, system, seed], sort_keys=True)
    copies: Counter[str] = Counter()
    for id, content in contents:
        plain: Any = content if isinstance(content, str) else list(map(attrgetter("role", "content"), content))
        text = f"{terms}\n{json.dumps(plain)}"
        key = sha256(text.encode()).hexdigest()[:KEY_DIGITS]
        copy = copies[key]
        copies[key] += 1
        yield id, key if not copy else sha256(f"{copy}\n{text}".encode()).hexdigest()[:KEY_DIGITS]


@dataclass(slots=True)
class CachedCounts:
    """What a cache holds for a run: the traces of each question that has any, their tokens, and how many launches
    before them are not there (``gaps``). Some were asked under ``instructions`` that are not the run's;
    ``without_texts`` could be reused, had their texts been kept."""

    by_question: list[int] = field(default_factory=list)
    gaps: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    instructions: Counter[str] = field(default_factory=Counter)
    without_texts: int = 0

    @property
    def traces(self) -> int:
        """The traces of all questions."""
        return sum(self.by_question)

    def most_to_pay(self, budget: int, questions: int, cap: int | None, asked_once: int) -> int:
        """How many of ``budget`` traces are to be paid for at most, for so many ``questions``.

        A question's traces are taken in launch order, so what it holds is taken before it costs anything, but for the
        ``gaps``. At the worst ``asked_once`` of those that hold any get one trace, and the questions that hold the
        least are asked to their ``cap``.

        >>> held = CachedCounts([4] * 200)
        >>> held.most_to_pay(804, 201, cap=4, asked_once=200), held.most_to_pay(804, 201, cap=64, asked_once=200)
        (4, 577)
        """
        new = questions - len(self.by_question)
        left, paid = budget - new - asked_once, new + self.gaps
        for traces in [0] * new + sorted(self.by_question):
            room = left if cap is None else min(left, cap - 1)
            if room <= 0:
                break
            paid += max(0, room - max(0, traces - 1))
            left -= room
        return paid


class TraceCache:
    """The traces of a store that the questions of a run can have for nothing; see the module.

    They are no longer than ``token_limit`` and of the run's own ``sources``, one for each of its endpoints; with
    ``any_server`` of the same model at any server. ``run`` is the run itself, whose traces are left out. Reads on a
    connection of its own, from one thread.
    """

    def __init__(
        self,
        database: Database,
        problems: Iterable[Problem],
        keys: Mapping[str, str],
        sources: Sequence[str],
        token_limit: int,
        *,
        any_server: bool = False,
        run: int | None = None,
    ) -> None:
        self.held = CachedCounts()
        self._database, self._token_limit, self._any_server = database, token_limit, any_server
        self._sources = list(map(self._source_key, sources))
        self._endpoints: dict[int, list[list[int]]] = {}  # of this run, by run and its endpoint
        # Of each question the runs that have traces, the latest first: its position there, and its last usable number.
        self._places: dict[str, list[tuple[int, int, int]]] = {}
        self._texts: dict[int, bool] = {}  # whether a run kept them
        asked = {keys[p.id]: (p.id, p.prompt.instruction) for p in problems if p.id in keys}
        every = list(asked)
        with ExitStack() as undo:
            undo.callback(self.close)
            for first in range(0, len(every), KEYS_PER_QUERY):
                some = every[first : first + KEYS_PER_QUERY]
                places = ", ".join(f"?{number}" for number in range(2, len(some) + 2))
                rows = database.all(SQL.CACHED.format(keys=places), run or 0, *some)
                for key, own in groupby(rows, itemgetter(0)):
                    self._add(*asked[key], own)
            undo.pop_all()

    def _add(self, question: str, instruction: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Take note of the traces of a question; an earlier run counts for the numbers that later ones lack."""
        numbers: set[int] = set()
        for (run, position), own in groupby(rows, itemgetter(1, 2)):
            last = -1
            for *_, asked_with, number, endpoint, tokens, prompt_tokens, wasted in own:
                if number in numbers or not (self._fits(tokens, wasted) and self._endpoints_of(run, endpoint)):
                    continue
                if not self._texts[run]:
                    self.held.without_texts += 1
                    continue
                numbers.add(number)
                last = number
                self.held.tokens += tokens
                self.held.prompt_tokens += prompt_tokens
                if (asked_with or "") != instruction:
                    self.held.instructions[asked_with or ""] += 1
            if last >= 0:
                self._places.setdefault(question, []).append((run, position, last))
        if numbers:
            self.held.by_question.append(len(numbers))
            self.held.gaps += max(numbers) + 1 - len(numbers)

    def _fits(self, tokens: int, wasted: int) -> bool:
        """Whether a trace is short enough. Where tries were ``wasted`` before it, their cost is among its tokens and
        its length is not known; it was drawn under this limit, which its key has."""
        return wasted > 0 or tokens <= self._token_limit

    def _source_key(self, source: str) -> str:
        return source.rpartition(" at ")[0] or source if self._any_server else source

    def _endpoints_of(self, run: int, endpoint: int) -> list[int]:
        """The endpoints of this run that have the source of another run's endpoint."""
        if run not in self._endpoints:
            row = self._database.one(SQL.GET_RUN, run)
            record = RunRecord(0) if row is None else RunRecord.from_json(row[5])
            self._texts[run] = record.keeps_texts
            self._endpoints[run] = [
                [place for place, own in enumerate(self._sources) if source and own == self._source_key(source)]
                for source in record.trace_sources
            ]
        own = self._endpoints[run]
        return own[endpoint] if endpoint < len(own) else []

    def find(self, question: str, number: int, endpoints: Collection[int]) -> StoredTrace | None:
        """The trace of a launch, with its text, as of the one of ``endpoints`` that has its source, if any."""
        for run, position, last in self._places.get(question, ()):
            rows = self._database.all(SQL.CACHED_TRACE, run, position, number) if number <= last else []
            for trace in read_rows("a trace", trace_of, rows):
                own = [place for place in self._endpoints_of(run, trace.endpoint) if place in endpoints]
                if own and self._fits(trace.tokens, trace.wasted):
                    return replace(trace, endpoint=own[0], reused_from=trace.reused_from or run)
        return None

    def close(self) -> None:
        """Close the connection."""
        self._database.close()
