"""One budget instead of fixed epochs: PETS decides which epochs of an inspect_ai task are run.

inspect_ai goes through the samples of a task epoch after epoch and asks its early-stopping manager whether to run each.
:class:`TraceBudget` says yes where a trace is worth most: each pass over the samples has its share of the budget, and
the index at which the share ends is the price of the pass. :func:`vote` scores a sample by the vote over its epochs.

>>> from inspect_ai import Epochs, Task
>>> from inspect_ai.dataset import Sample
>>> from inspect_ai.scorer import match
>>> questions = [Sample(id="sum", input="2 + 2 = ?", target="4"), Sample(id="sea", input="9 * 7 = ?", target="63")]
>>> task = Task(questions, scorer=match(), epochs=Epochs(32, vote()), early_stopping=TraceBudget("8x"))

``inspect_ai.eval(task, model=...)`` then runs at most 16 epochs in all, 32 of one sample.
"""

from collections import Counter, defaultdict, deque
from functools import cache

import anyio
from anyio.to_thread import run_sync

import pets

try:
    from inspect_ai.dataset import Sample
    from inspect_ai.hooks import Hooks, RunEnd, SampleEnd, TaskEnd, hooks
    from inspect_ai.log import EvalSample, EvalSpec
    from inspect_ai.scorer import SampleScore, Score, ScoreReducer, score_reducer
    from inspect_ai.util import EarlyStop
    from pydantic import JsonValue
except ModuleNotFoundError:
    raise pets.InputError('inspect_ai is not installed. Try: pip install "pets-llm[inspect]"') from None

SampleId = str | int
SampleEpoch = tuple[str, int]
SPENDING_SHARE = 0.5  # of the epochs, in which the budget is spent; the rest is for samples that were granted several
FLIGHT_SHARE = 0.25  # traces per sample that may be in flight when a pass begins: it is decided by those that are back


class TraceBudget:
    """The early-stopping manager of one task: one budget for all its samples, spent where it changes their vote.

    ``budget`` is "8x" (traces per sample, on average) or a number of traces in all; the task's epochs are the most that
    one sample gets, and should be several times the mean. ``policy`` is any that looks at votes, ``answer`` the answer
    type that reads the scorer's answers, ``scorer`` the name of the scorer: the task's first if not given.

    An epoch that fails, or that its scorer reads no answer from, costs a trace and casts no vote. The log's
    ``results.early_stopping.metadata`` has the vote and the certificate of every sample.
    """

    def __init__(
        self,
        budget: str | int,
        *,
        policy: str | pets.Policy = "okg",
        answer: str | pets.AnswerType = "text",
        scorer: str | None = None,
    ) -> None:
        self._amount = pets.Amount.parse(str(budget))
        self._amount.traces(0)  # or refuses tokens and money
        self._policy = pets.make_policy(policy) if isinstance(policy, str) else policy
        if self._policy.sees == "traces" or self._policy.waves:
            raise pets.InputError(f"inspect_ai gives votes, one by one; {policy!r} needs more. Choose okg or price.")
        self._answer = _answer_type(answer)
        self._scorer = scorer
        self._votes: _TaskVotes | None = None

    async def start_task(self, task: EvalSpec, samples: list[Sample], epochs: int) -> str:
        """Begin with the task's samples; refuses settings under which the budget could not be kept."""
        before = None if self._votes is None else self._votes.task
        attempts = before is not None and (before.task_id, before.model) == (task.task_id, task.model)
        if before is not None and before.eval_id in _running and not attempts:
            raise pets.StateError("this TraceBudget is in use; give every task, and every model, one of its own.")
        if task.config.log_samples is False:
            raise pets.InputError("early stopping needs a log of samples; leave out log_samples=False.")
        if task.config.retry_on_error:
            raise pets.InputError(
                "retry_on_error would pay for epochs that no budget knows; leave it out and set fail_on_error=False: "
                "an epoch that fails costs a trace, and the next one takes its place."
            )
        budget = pets.Budget(self._amount.traces(len(samples)), cap=epochs)
        questions = []
        for sample in samples:
            choices = len(sample.choices or ())  # a closed set of answers
            questions.append(pets.Question(str(sample.id), options=choices if choices >= 2 else self._answer.options))
        self._votes = _TaskVotes(task, pets.Allocator(self._policy, budget, questions), self._answer, epochs)
        _running[task.eval_id] = self._votes
        _listen()
        return "pets"

    async def schedule_sample(self, id: SampleId, epoch: int) -> EarlyStop | None:
        """``None`` to run this epoch, paid from the budget; a pass waits for most of the earlier ones."""
        if await self._task.launch(str(id), epoch):
            return None
        return EarlyStop(id=id, epoch=epoch, reason="a trace is worth more elsewhere")

    async def complete_sample(self, id: SampleId, epoch: int, scores: dict[str, SampleScore]) -> None:
        """Count the vote of an epoch; one from an earlier log (``inspect eval-retry``) is used when due."""
        if self._scorer is not None and self._scorer not in scores:
            raise pets.InputError(f"there is no scorer {self._scorer!r}; this task has {', '.join(scores)}.")
        score = scores[self._scorer] if self._scorer is not None else next(iter(scores.values()), None)
        await self._task.complete(str(id), epoch, None if score is None else score.score.answer)

    async def complete_task(self) -> dict[str, JsonValue]:
        """The vote and the certificate of every sample, for the log."""
        return self._task.summary()

    @property
    def _task(self) -> "_TaskVotes":
        if self._votes is None:
            raise pets.StateError("this TraceBudget has no task; give it to Task(early_stopping=...).")
        return self._votes


@score_reducer(name="vote")
def vote(answer: str = "text") -> ScoreReducer:
    """Reduces epochs to the score of the answer that most of them gave; a tie goes to the answer that came first.

    ``answer`` is the answer type, as that of :class:`TraceBudget`. A sample without answers keeps its first score.

    >>> traces = [Score(value="I", answer="5"), Score(value="C", answer="4"), Score(value="C", answer="4.0")]
    >>> vote("number")(traces).value
    'C'
    """
    answer_type = _answer_type(answer)

    def reduce(scores: list[Score]) -> Score:
        forms = [None if score.answer is None else answer_type.extract(score.answer) for score in scores]
        labels = answer_type.labels(forms)
        votes = Counter(label for label in labels if label is not None).most_common(1)  # of equals the first
        return scores[labels.index(votes[0][0]) if votes else 0]

    return reduce


class _TaskVotes:
    """One evaluation: the allocator, and which of its launches runs as which epoch."""

    def __init__(self, task: EvalSpec, allocator: pets.Allocator, answer_type: pets.AnswerType, epochs: int) -> None:
        self.task, self.model, self.epochs = task, task.model, epochs
        self._allocator, self._answer_type = allocator, answer_type
        self._pass = 0  # the epoch that samples are asked for now
        self._size = len(allocator.verdicts())
        self._granted: defaultdict[str, deque[pets.Launch]] = defaultdict(deque)
        self._in_flight: dict[SampleEpoch, pets.Launch] = {}
        self._asked: set[SampleEpoch] = set()
        self._kept: defaultdict[str, deque[str | None]] = defaultdict(deque)  # answers of an earlier log, not used yet
        self._tokens: dict[SampleEpoch, int] = {}
        self._classes = {verdict.question: answer_type.classes() for verdict in allocator.verdicts()}
        self._comparing = anyio.Lock()
        self._changed = anyio.Event()

    async def launch(self, sample: str, epoch: int) -> bool:
        """Whether this epoch is run, and paid for."""
        while epoch > self._pass:
            if len(self._in_flight) <= FLIGHT_SHARE * self._size:
                self._begin(epoch)
            else:
                await self._changed.wait()
        self._asked.add((sample, epoch))
        self._tell(sample, epoch, None)  # an attempt whose end was not told
        if not self._granted[sample]:
            return False
        self._in_flight[sample, epoch] = self._granted[sample].popleft()
        return True

    def _begin(self, epoch: int) -> None:
        """Begin a pass over the samples: grant its share of the budget, the first trace of each sample first."""
        passes_left = self.epochs - epoch + 1
        for launches in self._granted.values():
            while len(launches) > passes_left:  # more than there are epochs for
                self._allocator.take_back(launches.pop())
        spending_passes = max(1, int(SPENDING_SHARE * self.epochs) - epoch + 1)
        share = -(-self._allocator.budget.free // spending_passes)
        self._grant(share if self._pass else max(share, self._size))
        self._pass = epoch

    def _grant(self, traces: int) -> None:
        """Grant that many traces, after those of an earlier log, which are paid for."""
        while launches := self._ask(min(traces, self._allocator.budget.free - self._unused)):
            traces = sum(map(self._use_kept, {launch.question for launch in launches}))
        asked = Counter(launch.question for launch in self._ask(self._unused))  # no budget is left beside the log's
        for sample, number in asked.items():
            for _ in range(number - self._use_kept(sample)):
                self._allocator.take_back(self._granted[sample].pop())

    def _ask(self, traces: int) -> list[pets.Launch]:
        launches = self._allocator.ask(max(0, traces))
        for launch in launches:
            self._granted[launch.question].append(launch)
        return launches

    @property
    def _unused(self) -> int:
        """Traces of an earlier log that have not been used yet."""
        return sum(map(len, self._kept.values()))

    def _use_kept(self, sample: str) -> int:
        """Tell what an earlier log has of the traces that are granted; how many those were."""
        kept, granted = self._kept[sample], self._granted[sample]
        used = min(len(kept), len(granted))
        for _ in range(used):
            self._count(granted.popleft(), kept.popleft(), tokens=0)
        return used

    async def complete(self, sample: str, epoch: int, answer: str | None) -> None:
        """Count what an epoch answered; one that was never asked about comes from an earlier log."""
        form = None if answer is None else self._answer_type.extract(answer)
        if form is not None:
            async with self._comparing:  # comparing formulas takes a while, so it is done in a thread
                for answer, into in await run_sync(self._classes[sample].add, form):
                    self._allocator.merge(sample, answer, into)
        if (sample, epoch) in self._asked:
            self._tell(sample, epoch, form)
        else:
            self._kept[sample].append(form)
            self._use_kept(sample)

    async def end(self, sample: EvalSample) -> None:
        """Note the tokens of an epoch that has ended; one that failed is told here: no scores will come."""
        key = str(sample.id), sample.epoch
        if usage := sample.model_usage.get(self.model):
            self._tokens[key] = usage.output_tokens
        if sample.error is not None or not sample.scores:
            self._tell(*key, None)

    def _tell(self, sample: str, epoch: int, form: str | None) -> None:
        """Tell the allocator of an epoch in flight, once."""
        if launch := self._in_flight.pop((sample, epoch), None):
            self._count(launch, form, self._tokens.pop((sample, epoch), 0))

    def _count(self, launch: pets.Launch, form: str | None, tokens: int) -> None:
        label = None if form is None else self._classes[launch.question].find(form)
        self._allocator.tell(pets.Trace(launch.question, launch.number, label, tokens=tokens))
        self._changed.set()
        self._changed = anyio.Event()

    def summary(self) -> dict[str, JsonValue]:
        """What was spent, the expected self-consistency with its 95 % interval, and every sample's vote."""
        allocator = self._allocator
        budget, (mean, low, high) = allocator.budget, allocator.expected_consistency()
        samples: dict[str, JsonValue] = {
            verdict.question: {
                "answer": verdict.answer,
                "votes": {answer: round(votes) for answer, votes in verdict.votes},
                "certificate": round(allocator.certificate(verdict.question), 6),
                "traces": verdict.traces,
                "no_answer": verdict.no_answer,
            }
            for verdict in allocator.verdicts()
        }
        consistency: dict[str, JsonValue] = {"expected": mean, "low": low, "high": high}
        return {"budget": budget.total, "spent": budget.spent, "consistency": consistency, "samples": samples}


_running: dict[str, _TaskVotes] = {}
"""Evaluations under way, by their id."""


@cache
def _listen() -> None:
    """Hear of every epoch that ends: early stopping itself is told only of those that have a score."""

    @hooks(name="pets", description="counts tokens, and epochs that fail, against a TraceBudget")
    class Ends(Hooks):
        async def on_sample_end(self, data: SampleEnd) -> None:
            if votes := _running.get(data.eval_id):
                await votes.end(data.sample)

        async def on_task_end(self, data: TaskEnd) -> None:
            _running.pop(data.eval_id, None)

        async def on_run_end(self, data: RunEnd) -> None:
            """Forget the tasks that failed or were stopped: their own end is not told."""
            for eval_id in [id for id, votes in _running.items() if votes.task.run_id == data.run_id]:
                del _running[eval_id]


def _answer_type(answer: str | pets.AnswerType) -> pets.AnswerType:
    """The answer type; one that must ask a model, or see traces first, is of no use here."""
    answer_type = pets.make_answer_type(answer) if isinstance(answer, str) else answer
    if answer_type.asks_model or answer_type.chosen_from_traces:
        raise pets.InputError(f"answers of inspect_ai are not read by {answer!r}; choose number, math, choice or text.")
    return answer_type
