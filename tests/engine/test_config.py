"""The configuration of a run: its domain, what JSON keeps of it, and objects in place of specs."""

from dataclasses import dataclass

import pytest

from pets.core.policy import IndexPolicy
from pets.engine import config as module
from pets.engine.config import RunConfig, rebudgeted
from pets.errors import BudgetError, InputError
from pets.policies.okg import OKG
from pets.store import RunSettings


@dataclass(frozen=True, slots=True)
class Fewest(IndexPolicy):
    """Not registered anywhere."""

    def index(self, tally, view):
        return -tally.launched


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_traces": 0}, "at least 1 trace per question"),
        ({"concurrency": 0}, "in flight"),
        ({"tries": 0}, "tried at least once"),
        ({"backoff": 61}, "0 to 60 seconds"),
        ({"rpm": 0}, "limits are 1 or more"),
        ({"timeout": 0.0}, "more than 0 seconds"),
        ({"overshoot": 2}, "share from 0 to 1"),
        ({"target_consistency": 1.0}, "between 0 and 1"),
        ({"confidence": "loud"}, "confidence is one of"),
    ],
)
def test_what_is_outside_its_domain_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        RunConfig(**options)


def test_an_option_that_was_renamed_names_its_successor():
    with pytest.raises(InputError, match="max_per_question is now max_traces"):
        RunConfig().with_options({"max_per_question": 3})


def test_options_reach_the_sampling_too():
    config = RunConfig().with_options({"budget": 40, "temperature": 0.5, "price": "in=1,out=2", "stop": ["x"]})
    assert (config.budget, config.sampling.temperature, config.price.output) == ("40", 0.5, 2.0)
    assert config.sampling.stop == ("x",)


def test_a_policy_object_is_kept_as_its_spec_and_an_unknown_one_not_at_all():
    assert RunConfig.from_plain(RunConfig(policy=OKG(prior=1.0)).to_plain()).make_policy() == OKG(prior=1.0)
    with pytest.raises(InputError, match="run without a store"):
        RunConfig(policy=Fewest()).to_plain()


def test_the_kind_of_confidence_is_worked_out_once(monkeypatch):
    made = []
    monkeypatch.setattr(module, "as_policy", lambda policy: made.append(policy) or OKG())
    config = RunConfig(policy="okg:unseen=3")
    made.clear()
    assert {config.confidence_kind for _ in range(100)} == {None} and len(made) <= 1


def test_seeds_are_enough_for_every_question():
    assert RunConfig().seeds(1000).bits == 32
    assert RunConfig().seeds(5_000_000).questions >= 5_000_000
    assert RunConfig(max_traces=4096).seeds(5_000_000).bits == 63


@pytest.mark.parametrize(("text", "total"), [("+2x", 120), ("=12x", 120), ("+5", 105), ("=60", 60)])
def test_a_budget_is_added_to_or_is_the_new_total(text, total):
    assert rebudgeted(RunSettings("okg", 100), text, questions=10, spent=60).total == total


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("+1Mtok", "counts traces"),
        ("2000", r"Write \+2000 to add .* or =2000"),
        ("=59", "has spent 60 traces: a total of 59 traces is less"),
        ("-5", "no budget"),
        ("=", "no budget"),
    ],
)
def test_a_budget_that_may_mean_two_things_or_is_spent_already_is_refused(text, message):
    with pytest.raises(BudgetError, match=message):
        rebudgeted(RunSettings("okg", 100), text, questions=10, spent=60)
