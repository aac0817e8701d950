"""Every policy passes the public suite, and the suite fails what it should."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from pets.core.policy import IndexPolicy, QuotaPolicy, Training, View
from pets.core.tally import Tally
from pets.policies.oracle import Oracle
from pets.registry import make_policy, policies
from pets.testing import QUESTIONS, check_policy

SPECS = [
    "uniform",
    "okg",
    "okg:prior=0.1,unseen=3",
    "okg_weighted",
    "okg_weighted:missing=ignore,warmup=2",
    "online_grid",
    "online_grid:K=2,aggregation=loss",
    "price",
    "price:rounds=1",
    "price:rounds=3,warmup=2",
    "asc",
    "asc:threshold=0.8,cap=6",
    "esc",
    "esc:window=3,cap=10",
    "boinf",
    "boinf:threshold=100,unknown=0",
    "its_adaptive",
    "its_adaptive:threshold=1,cap=12",
    "dsc",
    "dsc:threshold=0.99,run=3,memory=2",
    "conf_guided:warmup=6",  # the suite's budget has no room for 16
    "conf_guided:warmup=4,keep=10,missing=unweighted",
]


@pytest.mark.parametrize("spec", SPECS)
def test_our_policies_conform(spec):
    check_policy(make_policy(spec))


@pytest.mark.parametrize("spec", ["okg", "online_grid", "price:rounds=1", "asc"])  # one of each setting
def test_they_conform_on_other_questions(spec):
    check_policy(make_policy(spec), seed=1)


def test_the_oracle_conforms():
    arriving = {
        question.id: ["A"] * (40 - i) + ["B"] * 12 + ["C"] * (12 + i) + [None] * (i % 3)
        for i, question in enumerate(QUESTIONS)
    }
    check_policy(Oracle(K=3).fit(Training(list(arriving.values()), arriving=arriving)))


NEEDS_MORE = {"oracle", "conf_guided"}  # must be fitted, or cannot warm up on the suite's budget


@pytest.mark.parametrize("name", sorted(set(policies()) - NEEDS_MORE - {spec.partition(":")[0] for spec in SPECS}))
def test_a_policy_that_nobody_listed_conforms_too(name):
    check_policy(make_policy(name))


def test_every_value_of_a_sweep_is_an_option():
    swept = {name: cls for name, cls in policies().items() if cls.sweep is not None}
    assert {"asc", "esc", "boinf", "its_adaptive", "dsc", "conf_guided"} <= set(swept)
    for cls in swept.values():
        option, values = cls.sweep
        assert [getattr(cls(**{option: value}), option) for value in values] == sorted(set(values))


@pytest.mark.parametrize("spec", [spec for spec in SPECS if policies()[spec.partition(":")[0]].solitary])
def test_solitary_policies_use_nothing_of_the_view_but_the_cap(spec):
    policy = make_policy(spec)
    paths = [[], ["A"], ["A", "B"], ["A"] * 4, ["A", "B", None, "A", "A"], [None] * 6, ["A", "B", "A", "C", "B", "B"]]
    tallies = [Tally.of(path, [8.0 + i for i in range(len(path))]) for path in paths]
    views = [View(), View(90, 10, coin=0.9, stops=(4,) * 64), View(3, 1, coin=0.1, stops=(40, 1))]
    for tally in tallies:
        assert len({policy.quota(tally, view) for view in views}) == 1


@dataclass(frozen=True, slots=True)
class ByLabel(IndexPolicy):
    sees = "traces"

    def index(self, tally, view):
        return tally.answers.count("A") - tally.launched


@dataclass(frozen=True, slots=True)
class Forgetful(QuotaPolicy):
    calls: ClassVar[list] = []

    def quota(self, tally, view):
        self.calls.append(tally)
        return len(self.calls)


@dataclass
class Thawed(IndexPolicy):
    weight: float = 1.0

    def index(self, tally, view):
        return -self.weight * tally.launched


@dataclass(frozen=True, slots=True, repr=False)
class Mute(IndexPolicy):
    weight: float = 1.0

    def __repr__(self):
        return "Mute(weight=2.0)"

    def index(self, tally, view):
        return -tally.launched


@dataclass(frozen=True, slots=True)
class Silent(QuotaPolicy):
    def quota(self, tally, view):
        return 0


@pytest.mark.parametrize(
    ("policy", "law"),
    [
        (ByLabel(), "depends on labels"),
        (Forgetful(), "not pure"),
        (Thawed(), "not frozen"),
        (Mute(), "repr does not round-trip"),
        (Silent(), "asked for nothing"),
    ],
)
def test_the_suite_fails_what_breaks_a_law(policy, law, monkeypatch):
    monkeypatch.setattr("pets.testing.importlib.import_module", lambda name: __import__("sys").modules[name])
    with pytest.raises(AssertionError, match=law):
        check_policy(policy)
