"""The drivers and the curves read off their runs, against plain loops over the allocator's own verdicts."""

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.queues.walk import Walk
from pets.core.tally import majority
from pets.errors import BudgetError
from pets.lab.config import ReplayConfig
from pets.lab.curves import curve_of_order
from pets.lab.draws import draw_traces
from pets.lab.drivers import batch_order, online_sizes, stream_sizes, wave_sizes
from pets.lab.labelled import read_answers
from pets.registry import make_policy


@pytest.fixture
def draw(pool):
    return draw_traces(read_answers(pool), ReplayConfig(size=8), 1)


def test_the_curve_is_what_the_allocators_verdicts_say(draw):
    policy = make_policy("okg")
    curve = curve_of_order(batch_order(policy, draw, 5)[0], draw)
    allocator = Allocator(policy, Budget(12 * 8, 8), draw.questions(), seed=5)
    targets = {q.id: max_vote(draw, row) for row, q in enumerate(draw.pool.questions)}
    for n in range(12 * 8 + 1):
        verdicts = {verdict.question: verdict.answer for verdict in allocator.verdicts()}
        assert curve.agree[n] == sum(a is not None and a == targets[id] for id, a in verdicts.items())
        golds = [(verdicts[q.id], q.gold) for q in draw.pool.questions if q.gold is not None]
        assert curve.correct[n] == sum(answer == gold for answer, gold in golds) and curve.judged == len(golds)
        for launch in allocator.ask():
            allocator.tell(draw.traces[launch.question][launch.number])
    assert curve.traces[-1] == 96 and curve.tokens[-1] == draw.tokens[:, -1].sum()


def max_vote(draw, row):
    return majority([trace.answer for trace in draw.traces[f"q{row}"]])


def test_uniform_is_breadth_first_at_every_prefix(draw):
    order, _ = batch_order(make_policy("uniform"), draw, 0)
    assert order.tolist() == list(range(12)) * 8


def test_a_blind_policy_is_served_as_if_it_had_been_asked_one_by_one(draw):
    allocator = Allocator(make_policy("uniform"), Budget(12 * 8, 8), draw.questions())
    served = []
    while launches := allocator.ask():
        allocator.tell(draw.traces[launches[0].question][launches[0].number])
        served.append(int(launches[0].question[1:]))
    assert batch_order(make_policy("uniform"), draw, 0)[0].tolist() == served


def test_a_stream_keeps_to_its_budget(draw):
    arrivals = [5, 1, 9, 0]
    sizes = stream_sizes(make_policy("uniform"), draw, arrivals, 13, 0)
    assert sizes.sum() == 13 and sizes.max() <= 4


@pytest.mark.parametrize("spec", ["uniform", "price:rounds=2", "esc:window=2,cap=8", "price:cold=true"])
def test_a_stream_on_the_fast_path_is_that_of_the_allocator(draw, spec):
    """What sees whole traces, or learns on its way, is left to the allocator itself."""
    policy, walk = make_policy(spec), Walk(draw.traces, draw.pool.options)
    expected = stream_sizes(policy, draw, [5, 1, 9, 0], 24, 3)
    assert online_sizes(policy, draw, walk, [5, 1, 9, 0], 24, 3).tolist() == expected.tolist()


def test_a_budget_that_cannot_warm_all_up_is_refused_as_the_allocator_does(draw):
    with pytest.raises(BudgetError, match="warm-up of 4 traces for 4 questions"):
        online_sizes(make_policy("price"), draw, Walk(draw.traces), [5, 1, 9, 0], 15, 0)


@pytest.mark.parametrize("waves", [1, 3])
def test_waves_spend_each_budget_anew_and_to_the_trace(draw, waves):
    policy = make_policy(f"okg:waves={waves}")
    rows = [5, 1, 9, 0, 3]
    for total in (5, 13, 40):
        sizes, _ = wave_sizes(policy, draw, rows, total, 0)
        assert sizes.shape == (5,) and sizes.sum() == total and sizes.max() <= draw.size
