"""Which policy runs as what, and the drivers' runs against plain loops over the allocator's own verdicts."""

from dataclasses import dataclass

import numpy as np
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import QuotaPolicy
from pets.core.queues.walk import Walk
from pets.core.tally import majority
from pets.errors import BudgetError, InputError, SpecError
from pets.lab.config import ReplayConfig
from pets.lab.contenders import (
    batch_order,
    contenders,
    hardest_first,
    online_sizes,
    split,
    stream_sizes,
)
from pets.lab.draws import draw_traces
from pets.lab.labelled import read_answers
from pets.lab.results import name_of
from pets.policies.asc import ASC
from pets.policies.okg import OKG
from pets.registry import make_policy, policies


def test_every_policy_has_its_setting():
    settings = {name: contenders([name])[0].setting for name in policies()}
    assert settings["okg"] == settings["uniform"] == settings["okg_weighted"] == "offline"
    assert settings["asc"] == settings["esc"] == settings["conf_guided"] == "stopping"
    assert settings["dsc"] == "ranked" and settings["price"] == settings["online_grid"] == "online"


def test_a_policy_with_waves_runs_at_each_mean_budget():
    (okg,) = contenders(["okg:waves=4"])
    assert (okg.setting, okg.option) == ("waves", "budget")
    assert okg.at(ReplayConfig(budgets=(1.0, 6.0, 32.0)), 20) == (1.0, 6.0)


def test_an_option_that_is_set_is_not_swept():
    assert len(contenders(["asc"])[0].values) > 3 and contenders(["asc:threshold=0.9"])[0].values == (0.9,)
    assert len(contenders(["asc:cap=30"])[0].values) > 3


def test_uniform_joins_the_stream_when_there_is_one():
    assert [c.setting for c in contenders(["uniform", "okg"])] == ["offline", "offline"]
    assert [(c.name, c.setting) for c in contenders(["uniform", "price"])][-1] == ("uniform", "online")


def test_a_cap_that_was_set_counts():
    for choice in ("asc:cap=10", ASC(cap=10)):
        (asc,) = contenders([choice])
        assert asc.rule(0.8, 24).cap == 10


def test_a_rule_is_capped_at_the_traces_there_are():
    (asc,) = contenders(["asc"])
    assert (asc.rule(0.8, 24).threshold, asc.rule(0.8, 24).cap) == (0.8, 24)


def test_budgets_lie_between_warmup_and_size():
    (price,) = contenders(["price:warmup=6"])
    assert price.at(ReplayConfig(budgets=(4.0, 6.0, 8.0, 32.0)), 20) == (6.0, 8.0)
    with pytest.raises(InputError, match="no budget between its warm-up of 6 and 5"):
        price.at(ReplayConfig(), 5)


def test_the_ranking_looks_at_traces_that_were_not_drawn(build):
    draw = draw_traces(read_answers(build(traces=40)), ReplayConfig(size=20), 0)
    shares = []
    for question, spare in zip(draw.pool.questions, draw.spare, strict=True):
        votes = [question.labels[j] for j in spare if question.labels[j] is not None]
        shares.append(max(votes.count(a) for a in set(votes)) / len(votes))
    assert hardest_first(draw) == np.argsort(shares, kind="stable").tolist()
    assert sorted(hardest_first(draw_traces(read_answers(build()), ReplayConfig(), 0))) == list(
        range(12)
    )  # nothing is spare


def test_unknown_and_missing_policies_are_told():
    with pytest.raises(SpecError, match="no policy 'magic'"):
        contenders(["magic"])
    with pytest.raises(InputError, match="at least one policy"):
        contenders([])


@dataclass(frozen=True, slots=True)
class Margin(QuotaPolicy):
    """A user's own: one trace at a time until the leader is ahead by ``lead``."""

    lead: int = 2

    def quota(self, tally, view):
        first, second = (*tally.counts, 0, 0)[:2]
        return tally.launched + (first - second < self.lead)


def test_a_policy_is_called_by_its_spec_or_by_its_class_and_options():
    assert [contender.name for contender in contenders(["okg:prior=1", OKG(prior=1.0)])] == [
        "okg:prior=1",
        "okg:prior=1.0",
    ]
    assert (name_of(Margin()), name_of(Margin(lead=3))) == ("Margin()", "Margin(lead=3)")
    assert name_of(OKG(edges=(100.0,))) == "OKG(...)"


def test_the_same_policy_twice_runs_once_and_two_of_one_name_are_refused():
    assert len(contenders([Margin(), Margin(), "okg", "okg"])) == 2
    with pytest.raises(InputError, match=r"both called OKG\(...\)"):
        contenders([OKG(edges=(100.0,)), OKG(edges=(200.0,))])


def test_an_object_whose_option_is_not_the_default_is_not_swept():
    assert len(contenders([ASC()])[0].values) > 3
    assert contenders([ASC(threshold=0.9)])[0].values == (0.9,)


@pytest.fixture
def parts(build):
    return split(read_answers(build(questions=20)), ReplayConfig(train=6), 2)


def test_training_questions_and_arrivals_share_nothing(parts, build):
    assert len(parts.train) == 6 and sorted(parts.train + parts.arrivals) == list(range(20))
    again = split(read_answers(build(questions=20)), ReplayConfig(train=6), 2)
    other = split(read_answers(build(questions=20)), ReplayConfig(train=6), 3)
    assert parts.arrivals == again.arrivals != other.arrivals


def test_a_stream_needs_a_question(build):
    with pytest.raises(InputError, match="12 questions are too few for 12 training"):
        split(read_answers(build()), ReplayConfig(train=12), 0)


def test_the_grid_and_the_prices_come_from_the_training_questions(parts):
    assert make_policy("online_grid").fit(parts.training).grids is not None
    assert make_policy("price").fit(parts.training).table is not None
    assert make_policy("uniform").fit(parts.training) == make_policy("uniform")


def test_the_oracle_knows_the_arriving_questions_alone(parts):
    ids = set(make_policy("oracle:K=2").fit(parts.training).labels)
    assert ids == {f"q{row}" for row in parts.arrivals}


def test_a_cold_start_takes_no_training(parts):
    assert make_policy("price:cold=true").fit(parts.training) == make_policy("price:cold=true")


@pytest.fixture
def draw(pool):
    return draw_traces(read_answers(pool), ReplayConfig(size=8), 1)


def test_the_curve_is_what_the_allocators_verdicts_say(draw):
    policy = make_policy("okg")
    result = contenders(["okg"])[0].run(draw, ReplayConfig(size=8), Walk(draw.traces), None)
    agree, correct = result.agree[0], result.correct[0]
    allocator = Allocator(policy, Budget(12 * 8, 8), draw.questions())
    targets = {q.id: max_vote(draw, row) for row, q in enumerate(draw.pool.questions)}
    for n in range(12 * 8 + 1):
        verdicts = {verdict.question: verdict.answer for verdict in allocator.verdicts()}
        assert agree[n] == sum(a is not None and a == targets[id] for id, a in verdicts.items())
        golds = [(verdicts[q.id], q.gold) for q in draw.pool.questions if q.gold is not None]
        assert correct[n] == sum(answer == gold for answer, gold in golds) and result.judged == len(golds)
        for launch in allocator.ask():
            allocator.tell(draw.traces[launch.question][launch.number])
    assert agree.size == 97 and result.tokens[0, -1] == draw.tokens[:, -1].sum()


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
    for total in (12, 31, 96):
        order, _ = batch_order(policy, draw, 0, total)
        assert order.size == total and np.bincount(order, minlength=12).max() <= draw.size
