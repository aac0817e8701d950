"""The price rule to the last trace of a known horizon."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import View
from pets.core.tally import Tally
from pets.plans import StreamPrice
from pets.types import Question, Trace


@settings(max_examples=25)
@given(
    answers=st.lists(st.text("AB", min_size=24, max_size=24), min_size=1, max_size=8),
    mean=st.integers(4, 24),
    rounds=st.integers(1, 3),
)
def test_whatever_the_answers_the_budget_is_spent_to_the_last_trace(plan, one_shot, answers, mean, rounds):
    policy = (one_shot if rounds == 1 else plan).policy(use_up=True)
    total = mean * len(answers)
    allocator = Allocator(policy, Budget(total, 24), horizon=len(answers))
    for number, path in enumerate(answers):
        allocator.add(Question(str(number), options=4))
        while launches := allocator.ask(24):
            assert allocator.budget.spent + allocator.budget.reserved <= total
            for launch in launches:
                allocator.tell(Trace(launch.question, launch.number, path[launch.number]))
    assert allocator.budget.spent == total


def test_the_floor_is_what_no_other_question_can_use():
    view = View(budget_left=150, questions_left=3, cap=64)
    eager, plain = StreamPrice(rounds=1, use_up=True), StreamPrice(rounds=1)
    assert eager.quota(Tally((4,)), view) == max(150 - 128, plain.quota(Tally((4,)), view))
    assert eager.quota(Tally((4,)), View(150, 30, 64)) == plain.quota(Tally((4,)), View(150, 30, 64))
    assert eager.quota(Tally((4,)), View(150, 1, None)) == plain.quota(Tally((4,)), View(150, 1, None))
