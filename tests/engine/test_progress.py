"""Certificates while a run goes on, and the target that ends it."""

import sys

import numpy as np
import pytest
from IPython.core.formatters import HTMLFormatter

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.certificate import Decision, certificate
from pets.core.policy import Training
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally, weighted_majority
from pets.engine.progress import (
    SHOWN_ANSWERS,
    Certifier,
    Consistency,
    Snapshot,
    Solution,
    expected_of,
    expected_so_far,
    policy_certificate,
    sampled,
)
from pets.engine.question import Answer, QuestionTotals
from pets.engine.resume import answers
from pets.engine.spec import RunSpec
from pets.errors import InputError
from pets.lab.calibration import Certified, calibrate
from pets.policies.okg import OKG
from pets.pools import load
from pets.questions import Problem
from pets.registry import make_policy, policies
from pets.samplers import Prompt
from pets.types import Question, Trace


def allocator(votes, policy=None, cap=None):
    made = Allocator(
        policy or OKG(prior=1.0), Budget(10_000, cap), [Question(f"q{i}", options=4) for i in range(len(votes))]
    )
    made.adopt(Trace(f"q{i}", n, answer) for i, path in enumerate(votes) for n, answer in enumerate(path))
    return made


def test_expected_consistency_is_the_mean_certificate_and_names_the_hardest():
    run = allocator([list("AAAA")] * 20 + [list("AB")])
    ids = [f"q{i}" for i in range(21)]
    seen = expected_so_far(run, ids)
    decisions = [*map(run.decision, ids)]
    certify = Certifier(decisions)
    assert seen.consistency == pytest.approx(sum(map(certify, decisions)) / 21)
    assert expected_of(run, ids)[0] == pytest.approx(seen.consistency)
    assert seen.answered == 1.0 and seen.hardest[0][0] == "q20"


def test_a_policys_certificate_is_the_cores():
    tally = Tally((5, 2), 1, 0, 4)
    assert policy_certificate(OKG(), Decision(tally)) == certificate(tally, LearnedPrior())


def test_large_batches_are_sampled_evenly():
    assert list(sampled([f"q{i}" for i in range(100)], most=30)) == [f"q{i}" for i in range(0, 100, 4)]


def test_the_time_left_follows_from_the_rate():
    facts = {"questions": 1, "traces": 5, "failed": 0, "in_flight": 0, "spent": 5, "total": 15, "unit": "traces"}
    more = {"seconds": 1.0, "expected_left": 10, "faults": {}, "outage": None, "expected": None}
    assert Snapshot(**facts, **more, rate=5.0).seconds_left == 2.0
    assert Snapshot(**facts, **more, rate=0.0).seconds_left is None


def test_a_zone_makes_a_near_tie_certain_enough():
    tie = Decision(Tally((21, 20), options=2))
    assert policy_certificate(OKG(), tie) < 0.7 < policy_certificate(OKG(zone=0.2), tie)
    certify, zoned = Certifier([tie]), Certifier([tie], zone=0.2)
    assert certify(tie) < 0.7 < zoned(tie)


SURE_MINORITY = [("A", 2.0)] * 11 + [("B", 9.0)] * 7 + [("A", 3.0), ("B", 8.0)] * 2  # A has 13 votes, B more weight
UNSURE_MAJORITY = [("A", 5.0)] * 12 + [("B", 5.5), ("C", 4.0)] * 4


def rows_of(policy, paths, options=4):
    """The rows of a run in which every question has the same traces, and its allocator."""
    problems = [Problem(f"q{i}", Prompt("?"), "text", options=options) for i in range(len(paths))]
    run = Allocator(policy, Budget(10_000), [Question(problem.id, options=options) for problem in problems])
    run.adopt(
        Trace(f"q{i}", n, answer, confidence)
        for i, path in enumerate(paths)
        for n, (answer, confidence) in enumerate(path)
    )
    return list(answers(problems, run, [QuestionTotals() for _ in problems], RunSpec.of(), "", over=True)), run


def fitted(name):
    paths = [[answer for answer, _ in path] for path in (SURE_MINORITY, UNSURE_MAJORITY)] * 3
    arriving = {f"q{i}": path for i, path in enumerate(paths)}
    return make_policy(name).fit(Training(paths, arriving=arriving, options=4))


@pytest.mark.parametrize("name", [*sorted(policies()), "okg_weighted:verdict=vote", "conf_guided:keep=50"])
def test_a_certificate_is_that_of_the_rows_own_answer_whatever_the_policy(name):
    rows, run = rows_of(fitted(name), [SURE_MINORITY, UNSURE_MAJORITY] * 3)
    leaders = [certificate(run.tally(row.id), Certifier(map(run.decision, ["q0", "q1"])).fit.prior) for row in rows]
    decisions = [run.decision(row.id) for row in rows]
    certify = Certifier(decisions)
    for row, decision, leader in zip(rows, decisions, leaders, strict=True):
        counts = dict(row.votes)
        assert decision.tally.counts[decision.index] == (
            counts[row.answer] if not decision.weights else len(decision.weights[decision.index])
        )
        assert row.certificate == pytest.approx(certify(decision), abs=1e-6)
        others = [certify(Decision(decision.tally, place, decision.weights)) for place in range(len(counts))]
        assert sum(others) <= 1 + 1e-6 and row.certificate == pytest.approx(others[decision.index], abs=1e-6)
        if row.answer != max(counts, key=counts.__getitem__):
            assert abs(row.certificate - leader) > 0.05
    if make_policy(name).sees == "traces" and not name.startswith("esc"):
        assert rows[0].answer == "B" and rows[1].answer == "A"  # or the last lines were never tried
    expected = sum(row.certificate for row in rows) / len(rows)
    assert expected_of(run, [row.id for row in rows])[0] == pytest.approx(expected, abs=1e-6)
    assert expected_so_far(run, [row.id for row in rows]).consistency == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("name", "traces"), [("okg_weighted", 8), ("conf_guided", 16)])
def test_weighted_certificates_are_what_they_say_on_the_starter_pool(name, traces):
    """Each question is answered by some of its traces; right is the weighted vote of 64 others.

    The error of a calibrated forecaster is below ``null_questions`` 95 times in 100; the vote of 64 errs, too.
    """
    rng, policy, paths, targets = np.random.default_rng(0), make_policy(name), [], []
    for question in load("starter").questions[::3]:
        confidences = question.confidence["tail"] if isinstance(question.confidence, dict) else question.confidence
        order = rng.permutation(len(question.answers))
        drawn = [(question.answers[j], confidences[j]) for j in order]
        paths.append(drawn[:traces])
        targets.append(drawn[-64:])
    rows, run = rows_of(policy, paths, options=None)
    wins = [weighted_vote(run.policy, path) for path in targets]
    right = np.array([row.answer is not None and row.answer == win for row, win in zip(rows, wins, strict=True)])
    stated = np.array([row.certificate for row in rows])
    made = calibrate([Certified("starter", name, traces, stated, stated, right)], bins=5)
    assert abs(made.certificate - made.right) < 0.05
    assert made.error < made.null_questions + 0.03, made
    assert made.brier < 0.75 * made.brier_constant


def weighted_vote(policy, path):
    tally = Tally.of(*zip(*path, strict=True))
    return weighted_majority(tally.answers, policy.weights(tally))


def solution(answers, **numbers):
    settings = dict.fromkeys(("failed", "lost", "tokens", "prompt_tokens", "spent", "total", "zone"), 0)
    settings |= {"run": None, "questions": len(answers), "answered": len(answers), "traces": 8 * len(answers)}
    settings |= {"cost": None, "unit": "traces", "consistency": Consistency(0.9, 0.85, 0.95), "faults": {}}
    return Solution(**settings | {"complete": True, "answers": tuple(answers)} | numbers)


def many_answers(count, **more):
    return [
        Answer(f"q{i}", "<b>", {"<b>": 6, "c": 2}, 0.97, traces=8, text="because " * 50, **more) for i in range(count)
    ]


def test_a_solution_names_the_parts_of_its_consistency():
    consistency = solution(many_answers(1)).consistency
    assert (consistency.mean, consistency.low, consistency.high) == consistency == (0.9, 0.85, 0.95)


def test_a_solution_is_short_to_look_at_however_many_answers_it_has():
    shown = repr(solution(many_answers(500, gold="<b>", right=True), run=3))
    assert shown == (
        "<Solution of run 3: 500 of 500 questions answered with 4,000 traces, "
        "expected self-consistency 0.900 (0.850 to 0.950), accuracy 1.000>"
    )
    assert "because" not in repr(many_answers(1)[0])


def test_accuracy_is_of_the_questions_with_gold_and_none_without():
    half = [*many_answers(1, right=True), *many_answers(1, right=False), *many_answers(3)]
    assert solution(half).accuracy == 0.5 and solution(many_answers(3)).accuracy is None


def test_a_notebook_shows_the_first_answers_as_a_table_of_escaped_cells():
    notebook = HTMLFormatter()
    page = notebook(solution(many_answers(SHOWN_ANSWERS + 7)))
    assert page.count("<tr>") == 1 + SHOWN_ANSWERS and "and 7 more" in page
    assert "<td>6 x &lt;b&gt;, 2 x c</td>" in page and "<b>" not in page and "right" not in page
    judged = notebook(solution(many_answers(2, right=False)))
    assert "<th>right</th>" in judged and judged.count("<td>no</td>") == 2 and "more" not in judged


def test_answers_become_a_data_frame(monkeypatch):
    frame = solution(many_answers(2)).to_pandas()
    assert list(frame["id"]) == ["q0", "q1"] and list(frame.columns[:3]) == ["id", "answer", "votes"]
    assert solution([]).to_pandas().empty
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pandas is not installed"):
        solution(many_answers(2)).to_pandas()
