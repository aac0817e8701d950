"""The lab: pools x policies x repetitions, over processes.

A task is a block of repetitions of one pool under all policies. Everything random is seeded by (seed, pool,
repetition), so the number of workers and the order in which tasks end change nothing.
"""

import multiprocessing
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pets.core.policy import Policy
from pets.errors import InputError
from pets.pools import Pool
from pets.replay.calibration import Certified, Floats, moment
from pets.replay.contenders import Contender, contenders, split
from pets.replay.draws import Draw, draw, size_of, vote_accuracy
from pets.replay.limit import attainable
from pets.replay.lines import Line
from pets.replay.protocol import Protocol
from pets.replay.readings import ReadPool, read_answers
from pets.replay.results import PoolResult, Result, stacked
from pets.replay.stopping import States

__all__ = ["Progress", "replay"]

Progress = Callable[[int, int], None]

KEPT = 3  # repetitions of which is kept what each question was given
BLOCK_TRACES = 100_000  # about what a task draws: long enough to be worth sending, short enough to share out


@dataclass(frozen=True, slots=True)
class Task:
    """Some repetitions of one pool."""

    pool: ReadPool
    place: int
    protocol: Protocol
    contenders: tuple[Contender, ...]
    repetitions: tuple[int, ...]

    @property
    def weight(self) -> int:
        """Traces drawn: what progress is counted in."""
        return len(self.repetitions) * len(self.pool.questions) * size_of(self.pool, self.protocol)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task brings back of one repetition: a line for each contender, and what the draw itself says.

    ``moments`` are certificates: for each contender one at each mean budget, none where it runs no batch.
    """

    lines: tuple[Line, ...]
    tied: int
    ceiling: float
    moments: tuple[dict[float, Floats], ...]


def replay(
    pools: Sequence[Pool],
    policies: Sequence[str | Policy],
    *,
    protocol: Protocol | None = None,
    answer: str | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    **settings: Any,
) -> list[PoolResult]:
    """Run every policy, given as a spec or an object, on every pool.

    ``settings`` are those of :class:`Protocol` (``repetitions=30``, ``size=64``...).
    ``answer`` is the answer type that reads the recorded strings: by default each pool's own kind, else as recorded.
    ``progress`` is called with the traces drawn so far and in all. With more than one worker, the calling script needs
    the usual ``if __name__ == "__main__":``, since workers are started afresh.

    >>> from pets.pools import PooledQuestion
    >>> toy = Pool("toy", (PooledQuestion("q1", ("A", "B", "A", "A")), PooledQuestion("q2", ("B",) * 4)))
    >>> found, = replay([toy], ["uniform", "okg"], repetitions=2)
    >>> found.result("okg").consistency.shape, float(found.result("okg").consistency[:, -1].min())
    ((2, 9), 1.0)
    """
    protocol = protocol or Protocol(**settings)
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names):
        raise InputError(f"two pools have the name {max(names, key=names.count)!r}; rename one of the files.")
    chosen = contenders(policies)
    if workers > 1:
        _check_sendable(chosen)
    read = [read_answers(pool, answer) for pool in pools]
    for pool in read:
        _check(pool, protocol, chosen)
    outcomes: dict[tuple[int, int], Outcome] = {}
    tasks = _tasks(read, protocol, tuple(chosen), workers)
    total, done = sum(task.weight for task in tasks), 0
    for task, found in _run(tasks, workers):
        outcomes |= {(task.place, r): outcome for r, outcome in zip(task.repetitions, found, strict=True)}
        done += task.weight
        if progress is not None:
            progress(done, total)
    repetitions = range(protocol.repetitions)
    return [
        _gathered(pool, protocol, chosen, [outcomes[place, r] for r in repetitions]) for place, pool in enumerate(read)
    ]


def _check(pool: ReadPool, protocol: Protocol, chosen: Sequence[Contender]) -> None:
    """Refuse what would fail hours later."""
    size = size_of(pool, protocol)
    if protocol.weighted and any(question.confidence is None for question in pool.questions):
        raise InputError(f'pool "{pool.name}" has no confidences; the weighted vote needs them. Drop --weighted.')
    for contender in chosen:
        if contender.setting == "online":
            protocol.train_of(len(pool.questions))
            contender.at(protocol, size)


def _check_sendable(chosen: Sequence[Contender]) -> None:
    """Refuse a policy that worker processes cannot be sent: they know only what they can import."""
    for contender in chosen:
        try:
            pickle.dumps(contender.policy)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"{contender.name} cannot be sent to worker processes ({error}). "
                "Define its class at the top of a module, or replay with one worker."
            ) from None


def _tasks(pools: Sequence[ReadPool], protocol: Protocol, chosen: tuple[Contender, ...], workers: int) -> list[Task]:
    """Blocks of repetitions, the heaviest pools first: the last tasks to end are short ones."""
    tasks = []
    for place, pool in enumerate(pools):
        traces = len(pool.questions) * size_of(pool, protocol)
        block = max(1, min(BLOCK_TRACES // traces, protocol.repetitions // workers))
        for first in range(0, protocol.repetitions, block):
            repetitions = tuple(range(first, min(first + block, protocol.repetitions)))
            tasks.append(Task(pool, place, protocol, chosen, repetitions))
    return sorted(tasks, key=lambda task: -task.weight)


def _run(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, list[Outcome]]]:
    """Tasks as they end."""
    if workers <= 1:
        yield from ((task, run_task(task)) for task in tasks)
        return
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context, initializer=_quiet)
    try:
        futures = {executor.submit(run_task, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BrokenProcessPool:
        raise InputError("a worker process ended early (killed, or out of memory). Try --workers 1.") from None
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    executor.shutdown()


def _quiet() -> None:
    """Ctrl-C in the terminal reaches the workers too: they end without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_task(task: Task) -> list[Outcome]:
    """Every contender on the same draws, repetition by repetition."""
    online = any(contender.setting == "online" for contender in task.contenders)
    states = States()
    outcomes = []
    for repetition in task.repetitions:
        drawn = draw(task.pool, task.protocol, repetition)
        parts = split(task.pool, task.protocol, repetition) if online else None
        lines = tuple(contender.run(drawn, task.protocol, states, parts) for contender in task.contenders)
        moments = tuple(_moments(line, drawn, task.protocol) for line in lines)
        if repetition >= KEPT:
            lines = tuple(replace(line, given=None) for line in lines)
        outcomes.append(Outcome(lines, int(drawn.tied.sum()), float(drawn.agree[:, -1].mean()), moments))
    return outcomes


def _moments(line: Line, drawn: Draw, protocol: Protocol) -> dict[float, Floats]:
    """Certificates at each mean budget of an offline run."""
    given = line.given
    if given is None or given.order is None:
        return {}
    within = [budget for budget in protocol.certified if budget <= drawn.size]
    return {budget: moment(drawn, given.at(round(budget * given.questions)).astype(np.int64)) for budget in within}


def _gathered(
    pool: ReadPool, protocol: Protocol, chosen: Sequence[Contender], outcomes: Sequence[Outcome]
) -> PoolResult:
    size = size_of(pool, protocol)
    results = []
    for place, contender in enumerate(chosen):
        lines = [outcome.lines[place] for outcome in outcomes]
        spent, agree, correct, tokens = stacked(lines, offline=contender.setting == "offline")
        results.append(
            Result(
                pool=pool.name,
                policy=contender.name,
                setting=contender.setting,
                option=contender.option,
                values=contender.at(protocol, size),
                questions=lines[0].questions,
                size=size,
                spent=spent,
                agree=agree,
                correct=correct,
                tokens=tokens,
                judged=np.array([line.judged for line in lines], dtype=np.float64),
                ceiling=np.array([line.ceiling for line in lines]),
                relative=protocol.target == "disjoint",
                given=tuple(line.given for line in lines if line.given is not None),
                certified=_certified(pool.name, contender.name, [outcome.moments[place] for outcome in outcomes]),
            )
        )
    limit, no_limit = attainable(pool, protocol)
    return PoolResult(
        pool=pool.name,
        questions=len(pool.questions),
        size=size,
        answer=pool.answer,
        options=pool.options,
        protocol=protocol,
        pass_at_1=pool.pass_at_1,
        vote_accuracy=vote_accuracy(pool, protocol.weighted),
        tied=np.array([outcome.tied for outcome in outcomes], dtype=np.float64),
        ceiling=np.array([outcome.ceiling for outcome in outcomes]),
        results=tuple(results),
        note=pool.note,
        limit=limit,
        no_limit=no_limit,
    )


def _certified(pool: str, policy: str, moments: Sequence[dict[float, Floats]]) -> tuple[Certified, ...]:
    return tuple(Certified.of(pool, policy, budget, [one[budget] for one in moments]) for budget in moments[0])
