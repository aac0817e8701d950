"""The paper's two result tables: PETS-Offline and PETS-Online against their baselines, on pools of one's own.

Traces are totals at the first self-consistency of 1, and consistency and accuracy those of each method at the spend at
which PETS itself first reaches 1: offline at PETS-Offline's (okg with Dir(1)), online at PETS-Online's (the one-shot
grid). Rows "(conf)" weigh votes by confidence, and need pools that have it. :func:`not_given` says what pools lack.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from pets.errors import InputError
from pets.lab import PoolResult, ReplayConfig, at_spend, reached, replay
from pets.lab.draws import Floats
from pets.lab.lab import Progress
from pets.lab.results import Result
from pets.pools import Pool
from pets.registry import make_policy

OFFLINE = {"PETS-Offline": "okg:prior=1", "okg (this library's default)": "okg", "Uniform": "uniform"}
OFFLINE_CONF = {
    "PETS-Offline (conf)": "okg_weighted:verdict=vote",
    "PETS-Offline (conf), terminal rule": "okg_weighted",
    "Uniform (conf)": "uniform",
    "Conf. guided, keep 10 %": "conf_guided:keep=10",
    "Conf. guided, keep 90 %": "conf_guided:keep=90",
}
ONLINE = {"PETS-Online": "online_grid", "PETS-Oracle": "oracle", "Uniform": "uniform"}
BUDGETS = tuple(float(budget) for budget in range(4, 65, 2))


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One method on one pool; means and deviations over the repetitions that reach 1, of the first of which there are
    ``reached``. Consistency and accuracy are those at PETS's spend."""

    pool: str
    setting: str
    method: str
    questions: int
    traces: float | None
    traces_sd: float | None
    reached: int
    repetitions: int
    consistency: float | None
    consistency_sd: float | None
    accuracy: float | None
    accuracy_sd: float | None

    def row(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


def paper_results(
    pools: Sequence[Pool], config: ReplayConfig, *, workers: int = 1, progress: Progress | None = None
) -> list[ResultRow]:
    """Both tables, row by row, pool by pool; (conf) rows where a pool has confidences."""
    rows = []
    for pool in pools:
        size = min(config.size, *(len(question.answers) for question in pool.questions))
        plain = replace(config, budgets=tuple(budget for budget in BUDGETS if budget <= size))
        streams = _streams(pool, plain)
        specs = dict.fromkeys([*OFFLINE.values(), *(ONLINE.values() if streams else ())])
        (result,) = replay([pool], list(specs), config=plain, workers=workers, progress=progress)
        rows += [*_rows(result, "offline", OFFLINE), *(_rows(result, "online", ONLINE) if streams else ())]
        if _has_confidences(pool):
            weighted = replace(plain, weighted=True)
            conf = {method: spec for method, spec in OFFLINE_CONF.items() if make_policy(spec).warmup <= size}
            specs = dict.fromkeys([*conf.values(), *(ONLINE.values() if streams else ())])
            (result,) = replay([pool], list(specs), config=weighted, workers=workers, progress=progress)
            online = {f"{method} (conf)": spec for method, spec in ONLINE.items()}
            rows += [*_rows(result, "offline", conf), *(_rows(result, "online", online) if streams else ())]
    return rows


def not_given(pools: Sequence[Pool], config: ReplayConfig) -> list[str]:
    """What these pools do not allow, a sentence each."""
    bare = [pool.name for pool in pools if not _has_confidences(pool)]
    small = [pool.name for pool in pools if not _streams(pool, config)]
    sentences = []
    if bare:
        sentences.append(f"The (conf) rows and Conf. guided need confidences, which are not in {', '.join(bare)}.")
    if small:
        sentences.append(f"The online table needs more questions than train it has; too few are in {', '.join(small)}.")
    return sentences


def _has_confidences(pool: Pool) -> bool:
    return all(question.confidence is not None for question in pool.questions)


def _streams(pool: Pool, config: ReplayConfig) -> bool:
    try:
        config.train_of(len(pool.questions))
    except InputError:
        return False
    return bool(config.budgets)


def _rows(pool: PoolResult, setting: str, methods: Mapping[str, str]) -> Iterator[ResultRow]:
    """One row per method, all at the spend at which the first one, PETS, reaches 1."""
    results = {method: _result(pool, spec, setting) for method, spec in methods.items()}
    spends = reached(next(iter(results.values())), 1.0).first
    for method, result in results.items():
        first = reached(result, 1.0).first * result.questions
        yield ResultRow(
            pool.pool,
            setting,
            method,
            result.questions,
            *_mean_and_sd(first),
            int(np.isfinite(first).sum()),
            result.repetitions,
            *_mean_and_sd(at_spend(result, result.consistency, spends)),
            *_mean_and_sd(at_spend(result, result.accuracy, spends)),
        )


def _result(pool: PoolResult, spec: str, setting: str) -> Result:
    """The result of a policy in a setting; a stopping rule stands among the offline ones."""
    online = setting == "online"
    return next(r for r in pool.results if r.policy == spec and (r.setting == "online") == online)


def _mean_and_sd(values: Floats) -> tuple[float | None, float | None]:
    good = values[np.isfinite(values)]
    if not good.size:
        return None, None
    return float(good.mean()), float(good.std(ddof=1)) if good.size > 1 else 0.0
