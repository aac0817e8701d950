"""The sans-I/O allocator: ``ask()`` says what to sample next, ``tell()`` takes what came back.

It holds tallies, pending traces, the budget and a policy, and knows no clock, socket, file or event loop. Its laws:

- ``ask`` reserves before it answers: spent + reserved never exceeds the total, nor a question its cap;
- a trace counts once, whatever is told twice, late or out of order (``tell`` then returns False);
- beliefs see only the launch-order prefix of a question that has fully come back (those that finish first are
  short, and short traces vote differently); the rest is pending;
- the same questions, seed, asks and tells give the same launches.

>>> from pets.policies.okg import OKG
>>> allocator = Allocator(OKG(), Budget(total=3), [Question("q1", options=2), Question("q2", options=2)])
>>> launch, = allocator.ask()
>>> allocator.tell(Trace(launch.question, launch.number, answer="A"))
True
>>> allocator.ask(9)
[Launch(question='q2', number=0), Launch(question='q1', number=1)]
>>> allocator.verdict("q1").answer, allocator.budget.free
('A', 0)
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pets.core.budget import Budget, Window
from pets.core.certificate import Decision, decision_certificate, expected_share
from pets.core.policy import IndexPolicy, Policy, QuotaPolicy, View
from pets.core.queues import Queue, ReplicaTotals
from pets.core.queues.index import RankQueue, StateQueue
from pets.core.queues.quotas import QuotaQueue
from pets.core.queues.waves import WaveQueue
from pets.core.record import Record, VoteCount
from pets.core.tally import Tally, weights_by_answer
from pets.errors import BudgetError, InputError, StateError
from pets.types import Launch, Question, Trace, Verdict

MAX_DEBT = 10_000  # traces; a server that only times out would make it grow for as long as it does
GOLDEN_RATIO = (1 + math.sqrt(5)) / 2
PAST_QUESTIONS = 4096  # questions withdrawn that a policy still learns from


class Allocator:
    """Spends ``budget`` over the questions as ``policy`` says; questions may also arrive later through :meth:`add`.

    ``horizon`` is the number of questions to expect when they arrive one by one (a budget by windows needs none).
    ``votes`` says how votes are counted: one for each trace, or several with :class:`~pets.core.soft.SoftVoteCount`.
    With a ``hurry``, also of 0, the traces of a question are raced (:mod:`pets.core.race`) and each counts when it
    comes back, but under a policy that plans rounds or waves.
    """

    def __init__(
        self,
        policy: Policy,
        budget: Budget,
        questions: Iterable[Question] = (),
        *,
        horizon: int | None = None,
        seed: int = 0,
        votes: VoteCount | None = None,
        hurry: float | None = None,
    ) -> None:
        if hurry is not None and hurry < 0:
            raise InputError(f"a hurry is 0 or more; got {hurry}.")
        if seed < 0 or (horizon is not None and horizon < 1):
            raise InputError(f"the seed is 0 or more and the horizon at least 1; got {seed} and {horizon}.")
        self.budget = budget
        self.horizon = horizon
        self.seed = seed
        self.votes = VoteCount() if votes is None else votes
        """How votes are counted."""
        self.told = 0  # traces counted so far
        self._records: dict[str, Record] = {}
        self._arrived = 0  # questions ever added
        self._leaving: set[str] = set()  # withdrawn, with traces in flight
        self._given_up: set[str] = set()  # asked no more, their votes kept
        self._debt: deque[Trace] = deque(maxlen=MAX_DEBT)  # paid for beside the plan, to be made up for
        self._past: deque[Tally] = deque(maxlen=PAST_QUESTIONS)
        self.votes.check(policy)
        self.hurry = None if policy.waves or getattr(policy, "rounds", 0) else hurry
        """How much wider traces are raced than they must be; ``None`` where they are not raced."""
        self._keep_traces = policy.sees == "traces"
        self._refit_at = math.inf
        self._fitted = False
        self._queue = self._new_queue(policy)
        # A budget must warm up every question of a window, or of the declared horizon.
        if (window := budget.window) is not None:
            _check_warmup(policy, window.questions, window.amount // budget.currency.hold)
        elif horizon is not None and budget.free == budget.total:
            _check_warmup(policy, horizon, budget.affordable)
        self.add(*questions)

    @property
    def policy(self) -> Policy:
        """The policy in force: the given one, or its latest refit."""
        policy: Policy = self._queue.policy
        return policy

    def add(self, *questions: Question) -> None:
        """Let questions in. Where an index policy is indifferent it serves them spread over the file.

        Refused as a whole when one of them does not fit or the budget left cannot warm them up.
        """
        self._queue.cover_warmups(len(questions))
        self.check(*questions)
        records = []
        for position, question in enumerate(questions, self._arrived):
            hurry = self.hurry
            if hurry is not None:
                own = hurry if question.hurry is None else question.hurry
                hurry = 0.0 if self.policy.blind else own  # which goes on whatever traces say
            records.append(self.votes.new_record(question.id, position, question.options, self._keep_traces, hurry))
        if self.budget.window is not None:
            self.budget.grow(self._allowance(self.budget.window, len(records)))
        for record in records:
            self._records[record.id] = record
        self._arrived += len(records)
        self._enqueue(records)
        if self.policy.learns and records and not self._fitted:
            before = 0.0 if self._refit_at == math.inf else self._refit_at
            self._refit_at = before + self._first_refit_traces * len(records)

    def ask(self, n: int = 1) -> list[Launch]:
        """Up to n traces to sample now, most valuable first, their cost reserved; fewer when no more can be had."""
        while self._debt and self.spare > 0:
            self.budget.charge(self._debt.popleft())
        if self._queue.wave_is_due:
            self._learn()
        launches = self._queue.take(min(n, self.budget.affordable))
        self.budget.reserve(len(launches))
        return launches

    def hurry_by(self, hurry: float) -> None:
        """Hurry questions by so much from now on, those that are there too, but for one that says itself how much.

        >>> from pets.policies.okg import OKG
        >>> allocator = Allocator(OKG(), Budget(total=9), [Question("q1"), Question("q2", hurry=1)], hurry=0.5)
        >>> allocator.hurry_by(0.0)
        >>> allocator.is_hurried("q1"), allocator.is_hurried("q2")
        (False, True)
        """
        if self.hurry is None or self.policy.blind:
            return
        before, self.hurry = self.hurry, hurry
        for record in self._records.values():
            record.hurry = hurry if record.hurry == before else record.hurry
        self._queue.hurry_by(hurry)

    def is_hurried(self, question: str) -> bool:
        """Whether traces of a question may be in flight that turn out not to be needed, and are cancelled then."""
        return bool(self._record(question).hurry)

    def settles(self, question: str, traces: Iterable[Trace] = ()) -> bool:
        """Whether the vote on a raced question is settled, once these traces of it are told too.

        >>> from pets.policies.lead import Lead
        >>> allocator = Allocator(Lead(votes=2), Budget(total=9), [Question("q1")], hurry=1)
        >>> first, *others = allocator.ask(9)
        >>> allocator.tell(Trace(*first, "A")), allocator.settles("q1"), len(others)
        (True, False, 3)
        >>> allocator.settles("q1", [Trace(*others[2], "A")]), allocator.settles("q1", [Trace(*others[2], "B")])
        (True, False)
        """
        record = self._record(question)
        return record.hurry is not None and self._is_served(record) and not self._queue.fewest(record.grown(traces))

    @property
    def wave(self) -> int:
        """The number of the wave under way, from 0 on; 0 where the policy has none."""
        return self._queue.wave

    @property
    def waves_left(self) -> int:
        """Waves that have not begun; 0 where the policy has none."""
        return self._queue.waves_left

    def next_wave(self, extra: bool = False) -> bool:
        """Begin the next wave although traces are in flight: they count as pending. False where no wave is left.

        What the wave under way has not launched yet is planned anew. An ``extra`` wave spends what the last one has
        left: the part of a question that was given up, traces that cost less than expected.
        """
        if not (self.waves_left or (extra and self.policy.waves)):
            return False
        self._learn()
        self._queue.next_wave()
        return True

    def adopt(self, traces: Iterable[Trace], waves: int = 0, pending: Iterable[Launch] = ()) -> None:
        """Take in traces that an earlier run has paid for, each question's in launch order, before the first ask.

        They count as launched, told and spent, whatever the budget. ``pending`` launches are still on their way; any
        other number that is left out was taken back. ``waves`` were begun by the earlier run.

        >>> from pets.policies.okg import OKG
        >>> allocator = Allocator(OKG(), Budget(total=3), [Question("q1", options=2), Question("q2", options=2)])
        >>> allocator.adopt([Trace("q1", 0, "A"), Trace("q1", 1, "A")])
        >>> allocator.ask(9), allocator.verdict("q1").traces
        ([Launch(question='q2', number=0)], 2)
        """
        if self.told or self.budget.reserved or self._arrived > len(self._records):
            raise StateError("traces are adopted before the first launch; this allocator has begun.")
        waiting: dict[str, list[int]] = {}
        for id, number in sorted(pending, reverse=True):
            waiting.setdefault(id, []).append(number)
        self.budget.reserved += self.budget.currency.hold * sum(map(len, waiting.values()))
        for trace in traces:
            record = self._record(trace.question)
            _check_trace(trace)
            if trace.number < record.launched:
                raise InputError(
                    f"trace {trace.number} of {record.id!r} is adopted where number {record.launched} is next; "
                    "give each question's traces in launch order, a lost one with answer=None."
                )
            if self._keep_traces and trace.part is None:
                self.policy.check(trace)
            numbers = waiting.get(record.id, [])
            while numbers and numbers[-1] < trace.number:
                record.relaunch(numbers.pop())
            record.adopt(trace)
            self.budget.charge(trace)
            self.told += trace.part is None
        for id, numbers in waiting.items():
            for number in reversed(numbers):
                self._record(id).relaunch(number)
        self._queue = self._new_queue(self.policy)
        self._enqueue(list(self._records.values()))
        self._queue.skip_waves(waves)
        self.learn_worth()
        if self.told >= self._refit_at:
            self._refit()

    @property
    def totals(self) -> ReplicaTotals:
        """What this allocator has taken of a stream by windows, for others that share the stream."""
        return self._queue.totals()

    def sync_replicas(self, others: ReplicaTotals) -> None:
        """Plan as one with the allocators that took ``others`` in all of the same stream: one budget, one price."""
        self._queue.sync_replicas(others)

    def learn_worth(self) -> None:
        """Learn what votes are worth from all that came back, and count every question's anew."""
        for record in self.votes.learn(self.told):
            if self._is_served(record):
                self._queue.merged(record)

    @property
    def votes_per_trace(self) -> float | None:
        """The votes that a trace with an answer counts as, on average; ``None`` where each is one by construction."""
        return self.votes.per_trace()

    def tell(self, trace: Trace) -> bool:
        """Take what came back for a launch, in any order; False if that launch has been told or taken back before.

        A trace that failed is told with ``answer=None``: it was paid for. One that was cancelled has a ``part``: it is
        charged for that, casts no vote and teaches nothing.

        >>> from pets.policies.okg import OKG
        >>> allocator = Allocator(OKG(), Budget(total=3), [Question("q1")])
        >>> [allocator.tell(Trace(*launch, part=300)) for launch in allocator.ask(3)], allocator.budget.spent
        ([True, True, True], 1)
        >>> allocator.told, allocator.verdict("q1").traces, allocator.ask()
        (0, 0, [Launch(question='q1', number=3)])
        """
        record = self._record(trace.question)
        _check_trace(trace)
        if not record.is_in_flight(trace.number):
            return False
        if self._keep_traces and trace.part is None:
            self.policy.check(trace)
        self.budget.settle(trace)
        if trace.part is None:
            self._count(record, trace)
            return True
        record.cancel(trace.number)
        if self._is_served(record):
            self._queue.cancelled(record)
        self._drain(record)
        return True

    def _count(self, record: Record, trace: Trace) -> None:
        """A trace came back: what follows from it, but for its price."""
        self.told += 1
        served, before = self._is_served(record), record.tell(trace)
        if served and before is not None:
            self._queue.told(record, before)
        if not served or (record.late and trace.number < record.told):
            self._drain(record)
        if self.told >= self.votes.learn_at:
            self.learn_worth()
        if self.told >= self._refit_at:
            self._refit()

    def take_back(self, launch: Launch) -> bool:
        """Take back a launch that was never sent and so never paid for; False if it has been told or taken back."""
        record = self._record(launch.question)
        if not record.is_in_flight(launch.number):
            return False
        self.budget.refund()
        record.keep(launch.number, None)
        record.taken_back += 1
        if self._is_served(record):
            self._queue.taken_back(record)
        self._drain(record)
        return True

    def give_up(self, launch: Launch, *, paid: bool = False, for_good: bool = True) -> bool:
        """Take back a launch that will never be paid for, and ask no more of its question; its votes stay.

        ``paid`` where attempts at it were charged (:meth:`charge`): they count as a trace without an answer. Not
        ``for_good``, the question may be asked again. False if the launch has been told or taken back before.
        """
        record = self._record(launch.question)
        if for_good and self._is_served(record):
            self._queue.remove(record)
            self._given_up.add(record.id)
        if not paid:
            return self.take_back(launch)
        if not record.is_in_flight(launch.number):
            return False
        self.budget.refund()
        self._count(record, Trace(*launch))
        return True

    def charge(self, traces: Sequence[Trace]) -> bool:
        """Count traces that were paid for and came to nothing, from what nobody was promised.

        False, and nothing counted, where that does not pay for them; with windows they are counted as soon as it does.
        """
        if self.budget.window is not None:
            self._debt.extend(traces)
            return True
        if self.spare < len(traces):
            return False
        for trace in traces:
            self.budget.charge(trace)
        return True

    @property
    def spare(self) -> int:
        """Traces that the budget pays for beyond what was promised to questions here and to come."""
        return max(0, self.budget.affordable - self._queue.promised)

    @property
    def debt(self) -> int:
        """Traces that were paid for beside the plan and that it has yet to make up for."""
        return len(self._debt)

    def merge(self, question: str, answer: str, into: str) -> None:
        """Count the votes of ``answer`` as votes for ``into``; traces that are told later must say ``into``."""
        record = self._record(question)
        if answer != into:
            record.merge(answer, into)
            if self._is_served(record):
                self._queue.merged(record)

    def withdraw(self, question: str) -> None:
        """Ask no more of a question, and forget it as soon as nothing of it is in flight; its spend stays counted.

        For streams without end, when the verdict has been taken or its reader has gone. The policy goes on learning
        from the last 4,096 such questions.
        """
        record = self._record(question)
        if question not in self._leaving:
            if self._is_served(record):
                self._queue.remove(record)
            self._given_up.discard(question)
            if self.policy.learns:
                self._past.append(record.tally())
            self.votes.withdraw(record)
            self._leaving.add(question)
            self._drain(record)

    def pending(self, question: str) -> list[Launch]:
        """The launches of one question that have neither been told nor taken back."""
        record = self._record(question)
        return [Launch(question, number) for number in record.in_flight()]

    def stopped(self, question: str) -> bool:
        """Whether the policy asks no more of this question."""
        record = self._record(question)
        return not self._is_served(record) or self._queue.stopped(record)

    def complete(self, question: str, *, over: bool = False) -> bool:
        """Whether the policy had all that it wanted of a question: traces came, none is missing, it asks for no more.

        A policy that looks at one question alone says itself when it has enough. Any other plans with the budget: it
        has had all when it ends the question, or when the whole run is ``over``.
        """
        record = self._record(question)
        if not record.returned or record.pending or question in self._given_up:
            return False
        enough = not self._is_served(record) or self._queue.has_enough(record)
        return enough or (over and not self.policy.solitary)

    def view(self, question: str) -> View:
        """What the policy would know if it were asked about this question now."""
        return self._queue.view(self._record(question))

    def tally(self, question: str) -> Tally:
        """What the policy sees of a question now."""
        return self._record(question).tally()

    def verdict(self, question: str) -> Verdict:
        """The vote over the prefix, by the policy's own rule where it sees traces. A tie goes to the first launched."""
        record = self._record(question)
        answer, groups = max(record.votes, key=record.votes.__getitem__, default=None), None
        if self._keep_traces and answer is not None:
            tally = record.tally()
            answer, weights = self.policy.answer(tally), self.policy.weights(tally)
            groups = None if weights is None else weights_by_answer(tally.answers, weights)
        votes = tuple(zip(record.votes, map(float, record.votes.values()), strict=True))
        return Verdict(record.id, answer, votes, record.returned, record.nulls, groups)

    def decision(self, question: str) -> Decision:
        """The votes that decide a question as they stand, which its certificate is about."""
        record = self._record(question)
        return Decision.of(self.verdict(question), record.options, record.mean_tokens)

    def certificate(self, question: str) -> float:
        """P(the question's answer is the vote over infinitely many traces) under the policy's own belief and zone."""
        return decision_certificate(self.decision(question), self.policy.belief, zone=self.policy.zone)

    def expected_consistency(self) -> tuple[float, float, float]:
        """The expected share of answers that are the vote over infinitely many traces, and its 95 % interval."""
        return expected_share(map(self.certificate, self._records))

    def verdicts(self) -> list[Verdict]:
        """Every question's verdict, in the order of arrival."""
        return [self.verdict(question) for question in self._records]

    def _record(self, question: str) -> Record:
        if (record := self._records.get(question)) is None:
            raise InputError(f"there is no question {question!r}; add it first.")
        return record

    def _drain(self, record: Record) -> None:
        """Traces that came back before their turn join the prefix; a withdrawn question goes with its last trace."""
        late = record.late
        while late and record.told in late:
            trace = late.pop(record.told)
            if trace is None:
                record.told += 1
            elif (before := record.tell(trace)) is not None and self._is_served(record):
                self._queue.told(record, before)
        if record.id in self._leaving and record.told == record.launched:
            self._leaving.remove(record.id)
            del self._records[record.id]
            if not self._fitted:  # the first lesson does not wait for what will not come
                self._refit_at -= max(0.0, self._first_refit_traces - record.returned)
                if 0 < self.told >= self._refit_at:
                    self._refit()

    def _is_served(self, record: Record) -> bool:
        return record.id not in self._leaving and record.id not in self._given_up

    def _learn(self) -> None:
        if self.policy.learns and self.told:
            self._refit()

    def _refit(self) -> None:
        self._refit_at = self.policy.refit_growth * self.told
        self._fitted = True
        self._queue.only_warmup = False
        self._queue.refit(self._past)

    @property
    def _first_refit_traces(self) -> float:
        """Traces per question before the policy learns for the first time."""
        return self.policy.warmup or self.policy.refit_growth

    def _new_queue(self, policy: Policy) -> Queue[Any]:
        """The queue that serves this kind of policy; the warm-up alone where the policy has yet to learn from it."""
        queue: Queue[Any]
        if isinstance(policy, QuotaPolicy):
            queue = QuotaQueue(policy, self.budget, self.horizon, self.seed)
        elif not isinstance(policy, IndexPolicy):
            raise InputError(
                f"{policy!r} is neither an index nor a quota policy; derive it from IndexPolicy or QuotaPolicy."
            )
        elif policy.waves:
            queue = WaveQueue(policy, self.budget, self.horizon)
        elif self.votes.alike and policy.sees == "counts":
            queue = StateQueue(policy, self.budget, self.hurry)
        else:
            queue = RankQueue(policy, self.budget, self.hurry)
        queue.only_warmup = policy.learns and policy.warmup > 0 and not self._fitted
        return queue

    def _enqueue(self, records: Sequence[Record]) -> None:
        """Let questions into the queue; where the last of them is served first, so that those served so far are spread
        evenly over the file: files are often sorted by difficulty, and a policy learns from what it has served."""
        places = np.arange(len(records))
        if self._queue.newest_first:
            places = np.argsort(-(places * GOLDEN_RATIO % 1.0), kind="stable")
        for place in places.tolist():
            self._queue.add(records[place])

    def _allowance(self, window: Window, arriving: int) -> int:
        """What the windows that the next ``arriving`` questions begin add to the budget."""
        arrived = self._arrived + self._queue.others.arrived
        return window.amount * (-(-(arrived + arriving) // window.questions) - -(-arrived // window.questions))

    def check(self, *questions: Question) -> None:
        """Refuse questions that do not fit, or that the budget left cannot warm up; changes nothing."""
        seen: set[str] = set()
        for question in questions:
            if question.id in self._records or question.id in seen:
                raise InputError(f"question {question.id!r} is there already; every question needs an id of its own.")
            if question.options is not None and question.options < 2:
                raise InputError(f"question {question.id!r} has {question.options} options; give 2 or more, or None.")
            seen.add(question.id)
        window = self.budget.window
        coming = 0 if window is None else self._allowance(window, len(questions))
        _check_warmup(self.policy, len(questions), self.budget.expected + coming // self.budget.currency.hold)


def _check_warmup(policy: Policy, questions: int, traces: int) -> None:
    """Refuse to promise N questions a warm-up that the traces there are cannot pay for."""
    need = policy.warmup * questions
    if need > traces:
        raise BudgetError(
            f"a warm-up of {policy.warmup} traces for {questions} questions needs {need} traces, there are "
            f"{traces}. Raise the budget, ask fewer questions, declare the horizon of a stream, or take a policy "
            "without warm-up (okg, uniform)."
        )


def _check_trace(trace: Trace) -> None:
    """Refuse what no model can have returned."""
    confidence = trace.confidence
    if trace.answer == "":
        fault = "answers ''; a trace without an answer has answer=None."
    elif confidence is not None and not 0.0 <= confidence < math.inf:
        fault = f"has confidence {confidence}; it is finite and not negative, or None."
    elif trace.tokens < 0 or trace.prompt_tokens < 0:
        fault = "has a negative number of tokens."
    else:
        return
    raise InputError(f"trace {trace.number} of {trace.question!r} {fault}")
