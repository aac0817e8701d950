"""Every policy passes the public suite, and the suite fails what it should."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from pets.core.policy import IndexPolicy, QuotaPolicy
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
]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", [0, 1])
def test_our_policies_conform(spec, seed):
    check_policy(make_policy(spec), seed=seed)


def test_the_oracle_conforms():
    pools = {question.id: ((40 - i, 12, 12 + i), i % 3) for i, question in enumerate(QUESTIONS)}
    check_policy(Oracle(K=3).fit(pools, np.random.default_rng(0)))


def test_no_policy_is_left_out():
    assert {spec.partition(":")[0] for spec in SPECS} | {"oracle"} == set(policies())


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
