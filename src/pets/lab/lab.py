"""The lab: pools x policies x repetitions, over processes or the nodes of a Ray cluster.

A task is a block of repetitions of one pool under all policies. Everything random is seeded by (seed, pool,
repetition), so the number of workers and the order in which tasks end change nothing.
"""

import multiprocessing
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from pets.arguments import checked
from pets.cluster import RayCluster
from pets.core.policy import Policy
from pets.core.queues.walk import States, Walk
from pets.errors import InputError
from pets.lab.calibration import Certified, certify
from pets.lab.clock import timed
from pets.lab.config import ReplayConfig
from pets.lab.contenders import Contender, contenders, split
from pets.lab.draws import Draw, draw_traces, size_of, vote_accuracy, without_short
from pets.lab.labelled import LabelledPool, read_answers
from pets.lab.limit import attainable
from pets.lab.results import PoolResult, Result
from pets.pools import Pool

Progress = Callable[[int, int], None]

BLOCK_TRACES = 100_000  # about what a task draws: long enough to be worth sending, short enough to share out


@dataclass(frozen=True, slots=True)
class Task:
    """Some repetitions of one pool."""

    pool: LabelledPool
    config: ReplayConfig
    contenders: tuple[Contender, ...]
    repetitions: range

    @property
    def weight(self) -> int:
        """Traces drawn: what progress is counted in."""
        return len(self.repetitions) * len(self.pool.questions) * size_of(self.pool, self.config)


@dataclass(frozen=True, slots=True)
class Repetition:
    """What a task brings back of one repetition: a result of each contender, and what the draw itself says."""

    results: tuple[Result, ...]
    tied: int
    ceiling: float


@checked
def replay(
    pools: Sequence[Pool],
    policies: str | Policy | Sequence[str | Policy],
    *,
    config: ReplayConfig | None = None,
    answer: str | None = None,
    workers: int = 1,
    cluster: RayCluster | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> list[PoolResult]:
    """Run every policy, given as a spec or an object, on every pool; :func:`pets.read_pool` makes one of a file.

    ``settings`` are those of :class:`ReplayConfig` (``repetitions=30``, ``size=64``...). ``answer`` is the answer type
    that reads the recorded strings: by default each pool's own kind, else as recorded. ``progress`` is called with the
    traces drawn so far and in all. With more than one worker the calling script needs the usual
    ``if __name__ == "__main__":``. A ``cluster`` replays on its cores in their stead, with the same results.

    >>> from pets.pools import PooledQuestion
    >>> toy = Pool("toy", (PooledQuestion("q1", ("A", "B", "A", "A")), PooledQuestion("q2", ("B",) * 4)))
    >>> found, = replay([toy], ["uniform", "okg"], repetitions=2)
    >>> found.result("okg").consistency.shape, float(found.result("okg").consistency[:, -1].min())
    ((2, 9), 1.0)
    """
    known = [field.name for field in fields(ReplayConfig)]
    if unknown := set(settings).difference(known):
        raise InputError(f"there is no setting {min(unknown)!r}. Settings of a replay: {', '.join(known)}.")
    config = config or ReplayConfig(**settings)
    policies = [policies] if isinstance(policies, str | Policy) else policies
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names):
        raise InputError(f"two pools have the name {max(names, key=names.count)!r}; rename one of the files.")
    entrants = contenders(policies, clock=config.clock)
    workers = workers if cluster is None else cluster.cores
    if workers > 1:
        _check_sendable(entrants)
    labelled = [read_answers(_weighed_by(pool, config), answer) for pool in pools]
    read = [without_short(timed(pool) if config.clock else pool, config) for pool in labelled]
    for pool in read:
        _check(pool, config, entrants)
    outcomes: dict[tuple[str, int], Repetition] = {}
    tasks = _tasks(read, config, tuple(entrants), workers)
    total, done = sum(task.weight for task in tasks), 0
    for task, parts in _run(tasks, workers) if cluster is None else cluster.spread(run_task, tasks):
        outcomes |= {(task.pool.name, r): outcome for r, outcome in zip(task.repetitions, parts, strict=True)}
        done += task.weight
        if progress is not None:
            progress(done, total)
    repetitions = range(config.repetitions)
    return [_gathered(pool, config, [outcomes[pool.name, r] for r in repetitions]) for pool in read]


def _weighed_by(pool: Pool, config: ReplayConfig) -> Pool:
    """The pool with the kind of confidence that the config asks for, instead of its own."""
    wanted = config.confidence
    if wanted is None:
        return pool
    for question in pool.questions:
        if wanted not in question.confidences:
            names = ", ".join(question.confidences) or "none"
            raise InputError(f'pool "{pool.name}", question {question.id!r}: no confidence {wanted!r}; it has {names}.')
    return replace(pool, questions=tuple(replace(q, confidence=q.confidences[wanted]) for q in pool.questions))


def _check(pool: LabelledPool, config: ReplayConfig, entrants: Sequence[Contender]) -> None:
    """Refuse what would fail hours later."""
    size = size_of(pool, config)
    if config.weighted and any(question.confidence is None for question in pool.questions):
        raise InputError(f'pool "{pool.name}" has no confidences; the weighted vote needs them. Drop --weighted.')
    for contender in entrants:
        contender.at(config, size)
        if contender.trains:
            config.train_of(len(pool.questions))


def _check_sendable(entrants: Sequence[Contender]) -> None:
    """Refuse a policy that worker processes cannot be sent: they know only what they can import."""
    for contender in entrants:
        try:
            pickle.dumps(contender.policy)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"{contender.name} cannot be sent to worker processes ({error}). "
                "Define its class at the top of a module, or replay with one worker."
            ) from None


def _tasks(
    pools: Sequence[LabelledPool], config: ReplayConfig, entrants: tuple[Contender, ...], workers: int
) -> list[Task]:
    """Blocks of repetitions, the heaviest pools first: the last tasks to end are short ones."""
    tasks = []
    for pool in pools:
        traces = len(pool.questions) * size_of(pool, config)
        block = max(1, min(BLOCK_TRACES // traces, config.repetitions // workers))
        blocks = [range(config.repetitions)[first : first + block] for first in range(0, config.repetitions, block)]
        tasks += [Task(pool, config, entrants, repetitions) for repetitions in blocks]
    return sorted(tasks, key=lambda task: -task.weight)


def _run(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, list[Repetition]]]:
    if workers <= 1:
        yield from ((task, run_task(task)) for task in tasks)
        return
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    # Ctrl-C in the terminal reaches the workers too: they end without a word.
    quiet = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    executor = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context, initializer=quiet)
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


def run_task(task: Task) -> list[Repetition]:
    """Every contender on the same draws, repetition by repetition."""
    online = any(contender.trains for contender in task.contenders)
    states = States()
    outcomes = []
    for repetition in task.repetitions:
        draw = draw_traces(task.pool, task.config, repetition)
        parts = split(task.pool, task.config, repetition) if online else None
        walk = Walk(draw.traces, draw.pool.options, states)
        results = (contender.run(draw, task.config, walk, parts) for contender in task.contenders)
        certified = tuple(_with_certificates(result, draw, task.config) for result in results)
        outcomes.append(Repetition(certified, int(draw.tied.sum()), float(draw.outcomes.agree[:, -1].mean())))
    return outcomes


def _with_certificates(result: Result, draw: Draw, config: ReplayConfig) -> Result:
    """The result of an offline run with its certificates at each mean budget; any other as it is."""
    if result.setting != "offline":
        return result
    (allocation,) = result.allocations
    certified: list[Certified] = []
    for budget in config.certified:
        if budget <= draw.size:
            sizes = allocation.at(round(budget * allocation.questions)).astype(np.int64)
            certified += certify(draw, sizes, config, result.policy, budget)
    return replace(result, certified=tuple(certified))


def _gathered(pool: LabelledPool, config: ReplayConfig, outcomes: Sequence[Repetition]) -> PoolResult:
    limit, no_limit = (None, "") if config.clock else attainable(pool, config)
    zone_limit = attainable(pool, config, config.tolerance)[0] if config.tolerance and not config.clock else None
    return PoolResult(
        pool=pool.name,
        questions=len(pool.questions),
        size=size_of(pool, config),
        answer=pool.answer,
        options=pool.options,
        config=config,
        pass_at_1=pool.pass_at_1,
        vote_accuracy=vote_accuracy(pool, config.weighted),
        tied=np.array([outcome.tied for outcome in outcomes], dtype=np.float64),
        ceiling=np.array([outcome.ceiling for outcome in outcomes]),
        results=tuple(map(Result.joined, zip(*(outcome.results for outcome in outcomes), strict=True))),
        ids=tuple(question.id for question in pool.questions),
        note=pool.note,
        limit=limit,
        zone_limit=zone_limit,
        no_limit=no_limit,
    )
