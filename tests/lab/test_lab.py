"""The whole lab on small pools: pairing, workers, targets, budgets."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from pets.core.policy import QuotaPolicy
from pets.core.tally import majority
from pets.errors import InputError
from pets.lab import ReplayConfig, read_answers, replay, rows
from pets.lab.contenders import split
from pets.policies.asc import ASC
from pets.policies.okg import OKG
from pets.policies.uniform import Uniform
from pets.pools import Pool, PooledQuestion, read_pools

EVERYTHING = ["uniform", "okg", "asc", "esc", "boinf", "its_adaptive", "dsc", "online_grid", "price:rounds=2", "oracle"]
ARRAYS = ("spent", "agree", "good", "correct", "tokens", "judged", "ceiling")
SHARED = Path(os.environ.get("PETS_POOLS") or "no folder named")


def same(left, right):
    for name in ARRAYS:
        assert np.array_equal(getattr(left, name), getattr(right, name)), name


def test_workers_change_nothing(build):
    pools = [build("one", questions=6), build("two", questions=7, seed=1)]
    alone = replay(pools, EVERYTHING, repetitions=2, size=6, train=3)
    shared = replay(pools, EVERYTHING, repetitions=2, size=6, train=3, workers=2)
    for pool, again in zip(alone, shared, strict=True):
        for left, right in zip(pool.results, again.results, strict=True):
            same(left, right)
    assert rows(alone) == rows(shared)


def test_what_each_question_was_given_is_kept(build):
    (pool_result,) = replay(
        [build(questions=10)], ["uniform", "okg", "asc", "dsc", "price"], repetitions=3, size=12, train=4
    )
    for result in pool_result.results:
        assert len(result.allocations) == 3
        for repetition, allocation in enumerate(result.allocations):
            for point in (0, result.agree.shape[1] - 1):
                sizes = allocation.at(point)
                assert np.nansum(sizes) == pytest.approx(result.traces[repetition, point] * result.questions)
                assert np.isnan(sizes).sum() == (4 if result.setting == "online" else 0)


def test_company_and_more_repetitions_change_nothing(pool):
    (long,) = replay([pool], ["uniform", "okg", "asc", "price", "online_grid"], repetitions=3, size=10, train=4)
    (short,) = replay([pool], ["price", "asc"], repetitions=2, size=10, train=4)
    for spec in ("asc", "price"):
        assert np.array_equal(long.result(spec).agree[:2], short.result(spec).agree)
        assert np.array_equal(long.result(spec).spent[:2], short.result(spec).spent)


def test_all_policies_see_the_same_draws(pool):
    (pool_result,) = replay([pool], ["okg", "uniform", "okg:unseen=2"], repetitions=2, size=12)
    ends = [(result.correct[:, -1].tolist(), result.tokens[:, -1].tolist()) for result in pool_result.results]
    assert ends[0] == ends[1] == ends[2]


def test_the_whole_target_is_met_in_the_end_and_the_disjoint_one_is_bounded(pool):
    (whole,) = replay([pool], ["okg"], repetitions=2, size=12)
    (disjoint,) = replay([pool], ["okg"], repetitions=2, size=12, reference="disjoint")
    assert (whole.result("okg").consistency[:, -1] == whole.ceiling).all() and whole.ceiling.min() == 1.0
    assert (disjoint.result("okg").consistency[:, -1] == disjoint.ceiling).all() and disjoint.ceiling.mean() < 1.0


def test_online_policies_spend_within_their_budgets(build):
    (pool_result,) = replay(
        [build(questions=30)], ["uniform", "price", "online_grid"], repetitions=3, size=24, train=10
    )
    for result in pool_result.results[1:]:
        assert result.setting == "online" and result.questions == 20
        assert (result.budget_used <= 1.0).all()
        assert (result.budget_used[:, 0] > 0.5).all()


def test_waves_run_at_each_mean_budget_beside_the_others(build):
    (found,) = replay([build()], ["okg", "okg:waves=2"], repetitions=2, size=16, budgets=(2.0, 5.0, 9.0, 16.0))
    result = found.result("okg:waves=2")
    assert (result.setting, result.questions, result.values) == ("waves", 12, (2.0, 5.0, 9.0, 16.0))
    assert (result.traces == result.values).all() and (result.consistency[:, -1] == 1.0).all()


def test_weighted_votes(build):
    specs = ["okg_weighted:verdict=vote", "uniform", "okg", "conf_guided:warmup=8", "okg_weighted"]
    (pool_result,) = replay([build(confidence=True)], specs, repetitions=2, weighted=True)
    for result in pool_result.results[:3]:
        assert (result.consistency[:, -1] == 1.0).all()
    terminal, proxy = pool_result.result("okg_weighted"), pool_result.result("okg_weighted:verdict=vote")
    assert np.array_equal(terminal.allocations[0].order, proxy.allocations[0].order)
    assert not np.array_equal(terminal.agree, proxy.agree)
    assert pool_result.result("conf_guided:warmup=8").option == "threshold"


def test_a_policys_own_verdict_is_what_is_scored():
    sure, unsure = 9.0, 1.0
    answers, confidences = ("A", "A", "A", "B", "B"), (unsure, unsure, unsure, sure, sure)
    pool = Pool("p", (PooledQuestion("q", answers, gold="B", confidence=confidences),))
    spec = "conf_guided:warmup=5,keep=40,threshold=0.9"
    own, vote = replay([pool], [spec, "uniform"], repetitions=3)[0].results
    assert own.spent.tolist() == [[5]] * 3 and own.accuracy.tolist() == [[1.0]] * 3  # the two sure ones say B
    assert own.consistency.max() == 0.0 and own.zone_consistency.max() == 0.0  # the vote says A, by three to two
    assert vote.consistency[:, -1].min() == 1.0 and vote.accuracy[:, -1].max() == 0.0
    near = replay([pool], [spec], repetitions=1, tolerance=0.2)[0].results[0]
    assert near.consistency.max() == 0.0 and near.zone_consistency.min() == 1.0


def test_the_kind_of_confidence_can_be_chosen():
    kinds = {"lowest": (9.0, 1.0, 1.0), "tail": (1.0, 2.0, 2.0)}
    question = PooledQuestion("q", ("B", "A", "A"), confidence=kinds["tail"], confidences=kinds, gold="B")
    pool = Pool("p", (question,))
    accuracy = {
        kind: replay([pool], ["uniform"], repetitions=1, weighted=True, confidence=kind)[0].vote_accuracy
        for kind in (None, "tail", "lowest")
    }
    assert accuracy == {None: 0.0, "tail": 0.0, "lowest": 1.0}
    with pytest.raises(InputError, match="no confidence 'mean'; it has lowest, tail"):
        replay([pool], ["uniform"], weighted=True, confidence="mean")


def test_mistakes_are_told_before_anything_runs(build):
    with pytest.raises(InputError, match='"toy" has no confidences'):
        replay([build()], ["okg"], weighted=True)
    with pytest.raises(InputError, match="two pools have the name 'toy'"):
        replay([build(), build()], ["okg"])
    with pytest.raises(InputError, match="8 questions are too few for 10"):
        replay([build(questions=8)], ["price"])
    with pytest.raises(InputError, match="expected one of 'whole', 'disjoint'"):
        ReplayConfig(reference="half")


def test_a_cap_in_a_spec_bounds_what_is_spent(pool):
    capped, free = replay([pool], ["asc:threshold=0.99,cap=5", "asc:threshold=0.99"], repetitions=2)[0].results
    assert capped.traces.max() < free.traces.max()
    assert max(allocation.at(0).max() for allocation in capped.allocations) == 5


def test_progress_ends_at_its_total(pool):
    seen = []
    replay([pool], ["uniform"], repetitions=2, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == 2 * 12 * 24


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no recorded pools ({SHARED}). Set PETS_POOLS to their folder.")
def test_okg_beats_uniform_on_recorded_answers():
    (pool_result,) = replay(read_pools([SHARED / "gpqa.EXAONE-Deep-32B.jsonl"]), ["uniform", "okg"], repetitions=2)
    means = {row.policy: row.mean for row in rows([pool_result]) if row.metric == "traces_first_1"}
    assert means["okg"] < 0.5 * means["uniform"]


def test_what_a_stream_is_served_by_can_be_replayed(build):
    spec = "price:rounds=2,use_up=true,cold=true"
    (pool_result,) = replay([build(questions=20)], [spec], repetitions=2, size=16, train=4, budgets=(8.0,))
    assert pool_result.result(spec).budget_used.min() == 1.0


@dataclass(frozen=True, slots=True)
class Typical(QuotaPolicy):
    """A user's own, in no registry: after one trace, what a training question needed for its vote to stay."""

    needed: int = 0

    def fit(self, training):
        stay = [
            max((n for n in range(len(path)) if majority(path[:n]) != majority(path)), default=0)
            for path in training.paths
        ]
        return replace(self, needed=1 + sum(stay) // len(stay))

    def quota(self, tally, view):
        return max(1, self.needed)


def test_the_lab_trains_a_policy_of_ones_own(build):
    pool = build(questions=20)
    (pool_result,) = replay([pool], [Typical(), "uniform"], repetitions=2, size=16, train=4, budgets=(8.0,))
    result = pool_result.result(Typical())
    parts = [split(read_answers(pool), ReplayConfig(2, 16, train=4), repetition) for repetition in range(2)]
    assert result.policy == "Typical()" and result.setting == "online"
    assert result.spent[:, 0].tolist() == [min(16 * Typical().fit(left.training).needed, 128) for left in parts]


def test_objects_and_specs_give_the_same_results(build):
    (left,) = replay([build()], [OKG(), Uniform(), ASC(threshold=0.9)], repetitions=2, size=8)
    (right,) = replay([build()], ["okg", "uniform", "asc:threshold=0.9"], repetitions=2, size=8)
    for ours, theirs in zip(left.results, right.results, strict=True):
        assert ours.policy == theirs.policy
        same(ours, theirs)


def test_a_policy_that_workers_cannot_import_is_refused(build):
    @dataclass(frozen=True, slots=True)
    class Local(Typical):
        pass

    with pytest.raises(InputError, match="cannot be sent to worker processes"):
        replay([build()], [Local()], repetitions=2, workers=2)


def test_a_policy_with_a_verdict_of_its_own_is_scored_on_it_with_waves_too(build):
    pool, size = build(confidence=True), 16
    config = ReplayConfig(2, size, weighted=True, budgets=(float(size),))
    (result,) = replay([pool], ["okg_weighted", "okg_weighted:waves=1"], config=config)
    steady, waves = result.result("okg_weighted"), result.result("okg_weighted:waves=1")
    assert waves.agree[:, -1].tolist() == steady.agree[:, -1].tolist()  # all traces of all questions are in
