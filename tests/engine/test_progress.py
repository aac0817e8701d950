"""Certificates while a run goes on, and the target that ends it."""

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.certificate import certificate
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally
from pets.engine.progress import (
    Certifier,
    Snapshot,
    TargetMonitor,
    expected_so_far,
    policy_certificate,
    tallies_of,
)
from pets.policies.okg import OKG
from pets.types import Question, Trace


def allocator(votes):
    made = Allocator(OKG(prior=1.0), Budget(10_000), [Question(f"q{i}", options=4) for i in range(len(votes))])
    made.adopt(Trace(f"q{i}", n, answer) for i, path in enumerate(votes) for n, answer in enumerate(path))
    return made


def test_expected_consistency_is_the_mean_certificate_and_names_the_hardest():
    run = allocator([list("AAAA")] * 20 + [list("AB")])
    ids = [f"q{i}" for i in range(21)]
    seen = expected_so_far(run, ids)
    certify = Certifier([run.tally(id) for id in ids])
    assert seen.consistency == pytest.approx(sum(certify(run.tally(id)) for id in ids) / 21)
    assert seen.answered == 1.0 and seen.hardest[0][0] == "q20"


def test_a_policys_certificate_is_the_cores():
    tally = Tally((5, 2), 1, 0, 4)
    assert policy_certificate(OKG(), tally) == certificate(tally, LearnedPrior())


def test_the_target_is_looked_at_as_the_run_grows():
    ids = [f"q{i}" for i in range(20)]
    monitor = TargetMonitor(0.9)
    assert not monitor.met(allocator([["A"]] * 10 + [[]] * 10), ids)  # some have no vote yet
    assert monitor.met(allocator([list("AAAAAAAA")] * 20), ids)


def test_large_batches_are_sampled_evenly():
    run = allocator([["A"]] * 100)
    assert len(tallies_of(run, [f"q{i}" for i in range(100)], most=30)) == 25


def test_the_time_left_follows_from_the_rate():
    facts = {"questions": 1, "traces": 5, "failed": 0, "in_flight": 0, "spent": 5, "total": 15, "unit": "traces"}
    more = {"seconds": 1.0, "expected_left": 10, "faults": {}, "outage": None, "expected": None}
    assert Snapshot(**facts, **more, rate=5.0).seconds_left == 2.0
    assert Snapshot(**facts, **more, rate=0.0).seconds_left is None


def test_a_zone_makes_a_near_tie_certain_enough():
    tie = Tally((21, 20), options=2)
    assert policy_certificate(OKG(), tie) < 0.7 < policy_certificate(OKG(zone=0.2), tie)
    certify, zoned = Certifier([tie]), Certifier([tie], zone=0.2)
    assert certify(tie) < 0.7 < zoned(tie) and certify(tie, 50) < zoned(tie, 50)
