"""What the report of a run shows, read from its store once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pets.core.allocator import Allocator
from pets.core.certificate import expected_share
from pets.engine.config import RunConfig
from pets.engine.progress import Certifier, decisions_of
from pets.engine.question import Answer, OpenQuestion, answer_type_of, group_by_question
from pets.engine.resume import config_of, restored, results
from pets.errors import InputError
from pets.questions import Problem
from pets.report.budget_curves import BudgetCurves, RunQuestion, budget_curves
from pets.store import RunView, StoredTrace

__all__ = ["LOOKED_AT", "RunData", "least_certain", "read_run"]

LOOKED_AT = 12  # questions, the least certain ones
TRACES_READ = 6  # of each of them
CURVE_QUESTIONS = 1_000  # whose traces make the run's curve, evenly spread over the run
HORIZON = 8  # times the traces of the run: how far uniform is followed
MIN_HORIZON, MAX_HORIZON = 32, 256


@dataclass(frozen=True, slots=True)
class RunData:
    """A run with its answers. ``consistency`` is expected, with a 95 % interval; ``spent`` is its curve, if it has one.

    ``samples`` are the first traces of the questions that are looked at.
    """

    view: RunView
    config: RunConfig
    problems: Sequence[Problem]
    answers: Sequence[Answer]
    consistency: tuple[float, float, float]
    uniform: BudgetCurves
    spent: BudgetCurves | None
    samples: Mapping[str, Sequence[StoredTrace]]

    @property
    def mean_traces(self) -> float:
        """Traces per question."""
        return sum(answer.traces for answer in self.answers) / len(self.answers)

    @property
    def zone(self) -> float:
        """By how much another answer may be ahead."""
        return next((answer.zone for answer in self.answers if answer.zone), 0.0)


def read_run(view: RunView) -> RunData:
    """All of it; a run at work is read as it stands."""
    config, problems, allocator = config_of(view.settings, view.code), list(view.problems()), restored(view)
    answers = list(results(view, allocator, texts=False))
    if not any(answer.traces for answer in answers):
        raise InputError(f"run {view.id} has no trace yet; there is nothing to report.")
    decisions = decisions_of(allocator, [problem.id for problem in problems])
    certify = Certifier(decisions, allocator.policy.zone)
    mean = sum(answer.traces for answer in answers) / len(answers)
    most = min(MAX_HORIZON, max(MIN_HORIZON, round(HORIZON * mean)))
    questions = _questions(view, config, problems, allocator)
    uniform, spent = budget_curves(questions, certify.prior, allocator.policy, most=most, zone=certify.zone)
    return RunData(
        view,
        config,
        problems,
        answers,
        expected_share(map(certify, decisions)),
        uniform,
        None if config.soft else spent,
        _samples(view, problems, answers),
    )


def least_certain(answers: Sequence[Answer]) -> list[int]:
    """Places of the questions that were sampled, the least certain first."""
    sampled = [place for place, answer in enumerate(answers) if answer.traces]
    return sorted(sampled, key=lambda place: answers[place].certificate)


def _questions(
    view: RunView, config: RunConfig, problems: Sequence[Problem], allocator: Allocator
) -> list[RunQuestion]:
    """The questions with their votes in launch order, some of them where they are many."""
    chosen = {problem.id: problem for problem in problems[:: max(1, -(-len(problems) // CURVE_QUESTIONS))]}
    groups = {id: group for id, group in group_by_question(view.traces(texts=False)) if id in chosen}
    questions = []
    for id, problem in chosen.items():
        traces = groups.get(id, [])
        question = OpenQuestion(problem, answer_type_of(problem, config.answer))
        names = question.restore(trace.answer for trace in traces if trace.answer is not None)
        classes = dict.fromkeys(names.values())
        right = [name for name in classes if question.is_right(name)]
        known = question.is_right(None) is not None
        questions.append(
            RunQuestion(
                allocator.tally(id),
                tuple(None if trace.answer is None else names[trace.answer] for trace in traces),
                tuple(trace.tokens for trace in traces),
                frozenset(right) if known else None,
            )
        )
    return questions


def _samples(view: RunView, problems: Sequence[Problem], answers: Sequence[Answer]) -> dict[str, list[StoredTrace]]:
    """The first traces of the questions that are looked at."""
    samples: dict[str, list[StoredTrace]] = {}
    for place in least_certain(answers)[:LOOKED_AT]:
        id = problems[place].id
        traces: list[StoredTrace] = []
        for trace in view.traces(first=place):
            if trace.question != id or len(traces) == TRACES_READ:
                break
            traces.append(trace)
        samples[id] = traces
    return samples
