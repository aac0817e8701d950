"""The open questions of a driver: which they are, which wait for the policy, and how each is read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pets.answers.base import AnswerType
from pets.confidence import Kind
from pets.core.budget import Currency
from pets.engine.question import UNCOUNTED, OpenQuestion, QuestionTotals, answer_type_of
from pets.questions import Problem
from pets.registry import spec_of
from pets.types import Launch

MAX_IDLE_QUESTIONS = 4096  # of a batch, that stay open with nothing in flight; a batch may have millions


class InFlight:
    """The one counter of traces in flight, in all and by question; of submissions also those that wait for a place.

    >>> in_flight = InFlight()
    >>> in_flight.launched("q", 3); in_flight.back("q")
    2
    >>> in_flight.total, in_flight.of("q"), in_flight.of("other")
    (2, 2, 0)
    """

    def __init__(self) -> None:
        self.total = 0
        self._by_question: Counter[str] = Counter()

    def of(self, question: str) -> int:
        """How many of a question's traces are in flight."""
        return self._by_question[question]

    def launched(self, question: str, traces: int) -> None:
        """Traces of a question were launched."""
        self.total += traces
        self._by_question[question] += traces

    def back(self, question: str, traces: int = 1) -> int:
        """Traces of a question came back, or will not come any more; how many others of it are in flight."""
        self.total -= traces
        left = self._by_question[question] = self._by_question[question] - traces
        if not left:
            del self._by_question[question]
        return left


class OpenQuestions:
    """The questions that are asked, each with what has come back for it.

    ``answer`` replaces how questions say that they are read; ``options`` is the size of a closed answer set, by answer
    type, for questions that do not say. ``confidence`` is the kind by which a trace is sure, ``price`` what
    traces cost in money. ``keep_traces`` keeps every trace of an open question, ``keep_totals`` what answers need of
    each. ``problems`` are those of a batch: each
    is opened when it is first launched, and closed while nothing of it is in flight where there are very many.
    """

    def __init__(
        self,
        *,
        answer: str | AnswerType | None = None,
        options: Mapping[str, int | None] | None = None,
        confidence: Kind | None = None,
        price: Currency | None = None,
        keep_traces: bool = False,
        keep_totals: bool = False,
        problems: Sequence[Problem] = (),
    ) -> None:
        self.by_id: dict[str, OpenQuestion] = {}
        self.idle: set[str] = set()
        """Open questions of a stream or a gateway with nothing in flight."""
        self.totals: dict[str, QuestionTotals] = {}
        """What answers need of each question, where it is kept."""
        self.problems = list(problems)
        """Those of a batch, each with the answer type that was chosen for it, once it is."""
        self._positions = {problem.id: position for position, problem in enumerate(problems)}
        self._answer, self._options = answer, dict(options or {})
        self._confidence, self._price = confidence, price
        self._keep_traces, self._keep_totals = keep_traces, keep_totals

    @property
    def ids(self) -> Sequence[str]:
        """The ids of a batch's questions, in their order."""
        return list(self._positions)

    def make(self, problem: Problem, position: int, totals: QuestionTotals | None = None) -> OpenQuestion:
        """A question as this run reads it; it is open once it is given to :meth:`open`."""
        spec = self._answer if isinstance(self._answer, str) else problem.answer_type
        return OpenQuestion(
            problem,
            self._answer,
            position=position,
            options=self._options.get(spec),
            confidence_kind=self._confidence,
            price=self._price,
            totals=totals,
            keep_traces=self._keep_traces,
        )

    def open(self, question: OpenQuestion) -> None:
        """Have a question served; nothing of it is in flight yet."""
        self.by_id[question.id] = question
        self.idle.add(question.id)

    def get(self, id: str) -> OpenQuestion:
        """An open question; one of a batch is opened when it is first asked for."""
        question = self.by_id.get(id)
        if question is None:
            position = self._positions[id]
            totals = self.totals.setdefault(id, QuestionTotals()) if self._keep_totals else UNCOUNTED
            question = self.by_id[id] = self.make(self.problems[position], position, totals)
        return question

    def group(self, launches: Iterable[tuple[Launch, int]]) -> Iterator[tuple[OpenQuestion, range, list[int]]]:
        """Launches with what is held for each, by question; those of a question are numbered in a row."""
        first: dict[str, int] = {}
        holds: dict[str, list[int]] = {}
        for launch, hold in launches:
            first.setdefault(launch.question, launch.number)
            holds.setdefault(launch.question, []).append(hold)
        for id, start in first.items():
            yield self.get(id), range(start, start + len(holds[id])), holds[id]

    def rest(self, question: OpenQuestion) -> None:
        """Nothing of a question is in flight any more."""
        if not self.problems:
            self.idle.add(question.id)
        elif len(self.by_id) > MAX_IDLE_QUESTIONS and not question.answer_type.merges:
            del self.by_id[question.id]  # opened again when it is next launched

    def close(self, question: OpenQuestion) -> None:
        """A question is asked no more."""
        self.idle.discard(question.id)
        del self.by_id[question.id]

    def choose(self, question: OpenQuestion, problem: Problem) -> None:
        """Read a question as ``problem`` has it from now on; none of its traces has a vote yet."""
        question.take(problem)
        if self.problems:
            self.problems[question.position] = problem

    def labels_of(self, id: str, forms: list[str]) -> dict[str, str]:
        """Name the classes of a batch's answers of an earlier run; those of the traces to come will join them."""
        position = self._positions[id]
        question = self.make(self.problems[position], position, UNCOUNTED)
        if question.answer_type.merges:
            self.by_id[id] = question
        return question.restore(forms)

    def type_name(self, problem: Problem) -> str:
        """How a question's answers are read, as users name it."""
        answer_type = answer_type_of(problem, self._answer)
        return spec_of(answer_type) or type(answer_type).__name__
