"""The weighted belief of a tally, the scale learned from a batch, the terminal rule beside the weighted vote."""

import math

import numpy as np
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import View
from pets.core.tally import Tally, weighted_majority
from pets.core.weighted import Belief, p_argmax
from pets.errors import InputError
from pets.policies.okg_weighted import OKGWeighted
from pets.types import Question, Trace


def fixed(**options):
    return OKGWeighted(**{"scale": 2.0, "beta_0": 5.0, "v_0": 0.5, "learn": False, **options})


def test_the_belief_is_the_papers_updates_one_by_one():
    policy = fixed()
    tally = Tally.of(["A", "B", None, "A"], [12.0, 9.0, 3.0, 10.0], options=3)
    step = Belief((1.0, 1.0, 1.0), (5.0,) * 3, (0.5,) * 3).update(0, 6.0).update(1, 4.5).update(0, 5.0)
    belief = policy.belief_of(tally)
    assert belief.alpha == step.alpha
    assert belief.beta == pytest.approx(step.beta) and belief.v == pytest.approx(step.v)


def test_pending_traces_add_precision_and_leave_beta():
    tally = Tally.of(["A", "B"], [10.0, 8.0], options=2)
    flying = Tally.of(["A", "B"], [10.0, 8.0], options=2, pending=3)
    now, then = fixed().belief_of(tally), fixed().belief_of(flying)
    assert then.beta == now.beta
    assert sum(then.alpha) == pytest.approx(sum(now.alpha) + 3)
    assert all(b < a for a, b in zip(now.v, then.v, strict=True))


def test_the_scale_is_the_pooled_spread_within_answers():
    rng = np.random.default_rng(0)
    batch = {}
    for i in range(200):
        means = {"A": rng.normal(15, 1), "B": rng.normal(12, 1)}
        path = rng.choice(["A", "B"], size=6).tolist()
        batch[Tally.of(path, [float(rng.normal(means[a], 1.5)) for a in path], question=str(i))] = 1
    learned = OKGWeighted().refit(batch)
    assert learned.scale == pytest.approx(1.5, rel=0.08)
    assert learned.beta_0 == pytest.approx(13.5 / 1.5, rel=0.05)
    assert learned.v_0 == pytest.approx((1.0 + 1.5**2) / 1.5**2, rel=0.2)  # spread of means, of A against B included
    assert learned.refit(batch) is learned


@pytest.mark.parametrize("batch", [{}, {Tally.of([None], [None]): 1}, {Tally.of(["A", "A"], [3.0, 3.0]): 1}])
def test_a_batch_without_spread_teaches_nothing_yet(batch):
    assert OKGWeighted().refit(batch) == OKGWeighted()


def test_failed_traces_need_no_confidence_and_votes_do():
    allocator = Allocator(OKGWeighted(), Budget(12), [Question("a"), Question("b")])
    for number, launch in enumerate(allocator.ask(6)):
        failed = number % 3 == 2
        allocator.tell(Trace(*launch, None if failed else "A", None if failed else 8.0 + number))
    (launch,) = allocator.ask(1)
    with pytest.raises(InputError, match="voted without a confidence"):
        allocator.tell(Trace(*launch, "A"))
    assert allocator.tell(Trace(*launch, "A", 9.0))
    assert allocator.budget.spent == 7


def test_the_allocators_verdict_is_the_terminal_rule():
    allocator = Allocator(fixed(warmup=0), Budget(9), [Question("q", options=4)])
    for launch in allocator.ask(9):
        allocator.tell(Trace(*launch, *(("A", 4.0) if launch.number < 5 else ("B", 16.0))))
    assert allocator.verdict("q").answer == "B"


def test_without_weights_the_belief_is_as_sure_as_the_votes():
    """Eight equal votes and a failed trace: nearly certain, whatever the scale of the confidences that are missing."""
    tally = Tally.of(["A"] * 8 + [None], [None] * 9, options=4)
    assert p_argmax(fixed(missing="unweighted").belief_of(tally))[0] > 0.98


def test_a_confident_minority_can_win_the_terminal_rule_and_the_weighted_vote():
    answers, confidences = ["A"] * 5 + ["B"] * 4, [4.0] * 5 + [16.0] * 4
    assert weighted_majority(answers, confidences) == "B"
    assert fixed().answer(Tally.of(answers, confidences, options=4)) == "B"
    assert fixed().answer(Tally.of([None], [1.0])) is None


def test_equal_confidences_leave_the_majority():
    answers = ["A", "B", "A", "C", "A"]
    assert fixed().answer(Tally.of(answers, [10.0] * 5, options=4)) == "A"


def test_missing_confidences_follow_the_declared_choice():
    tally = Tally.of(["A", "A", "B"], [None, 9.0, 9.0], options=4)
    with pytest.raises(InputError, match="no confidence"):
        fixed().index(tally, View())
    assert fixed(missing="ignore").belief_of(tally).alpha == (2.0, 2.0, 1.0, 1.0)
    assert fixed(missing="unweighted").belief_of(tally).alpha == (3.0, 2.0, 1.0, 1.0)
    assert math.isfinite(fixed(missing="unweighted").index(tally, View()))


@pytest.mark.parametrize(
    "options", [{"scale": 0.0}, {"v_0": -1.0}, {"beta_0": math.nan}, {"missing": "guess"}, {"warmup": -1}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        OKGWeighted(**options)


def test_in_waves_it_spends_the_budget_where_answers_differ():
    allocator = Allocator(OKGWeighted(waves=4), Budget(60, 64), [Question(f"q{i}", 4) for i in range(10)])
    sizes = []
    while launches := allocator.ask(99):
        sizes.append(len(launches))
        for id, number in launches:
            answer = "AAB"[number % 3] if id < "q3" else "A"
            allocator.tell(Trace(id, number, answer, confidence=8.0 + number % 2, tokens=100))
    traces = [verdict.traces for verdict in allocator.verdicts()]
    assert sum(sizes) == 60 and len(sizes) == 4 and min(traces[:3]) > max(traces[3:])
    with pytest.raises(InputError, match="waves are 1 or more"):
        OKGWeighted(waves=-1)
