"""The benchmark of races on a toy folder: its JSON, what it says of pools without lengths, and hurry 0."""

import json

import numpy as np
import pytest

from benchmarks import race


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for q in range(8):
        answers = rng.choice(["A", "B", "C"], size=70, p=[0.6, 0.3, 0.1]).tolist()
        lines.append({"id": f"q{q}", "gold": "A", "answers": answers, "tokens": rng.integers(10, 99, 70).tolist()})
    (tmp_path / "gpqa.toy.jsonl").write_text("\n".join(map(json.dumps, lines)))
    bare = [{key: value for key, value in line.items() if key != "tokens"} for line in lines]
    (tmp_path / "exams.toy.jsonl").write_text("\n".join(map(json.dumps, bare)))
    return tmp_path


def printed(capsys, monkeypatch, *args):
    monkeypatch.setattr("sys.argv", ["race", *map(str, args)])
    race.main()
    out = capsys.readouterr()
    return json.loads(out.out), out.err


def test_every_rule_of_every_aim_has_its_figures_and_hurry_0_those_of_one_at_a_time(folder, capsys, monkeypatch):
    found, words = printed(capsys, monkeypatch, folder, "--repetitions", "2")
    assert 'exams.toy: left out, it has no lengths ("tokens").' in words
    assert words.count("hurry 0 differs from one at a time in 0 of 16 races") == 2
    assert list(found) == ["gpqa"] and list(found["gpqa"]) == ["0.95", "0.99"]
    for rules in found["gpqa"].values():
        assert list(rules) == [
            "sequential", "hurry 0", "hurry 0.5", "hurry 1", "hurry 2", "all 32", "all 32 cancel"
        ]  # fmt: skip
        alone, free = rules["sequential"], rules["hurry 0"]
        assert list(alone) == ["tokens", "time", "p95_time", "consistency", "accuracy"]
        assert free["time"] < alone["time"] == alone["tokens"]
        assert {**free, "time": 0, "p95_time": 0} == {**alone, "time": 0, "p95_time": 0}
        assert rules["all 32"]["tokens"] == pytest.approx(32, rel=0.05)


def test_thresholds_reach_the_aims_where_they_were_chosen(folder, capsys, monkeypatch):
    found, _ = printed(capsys, monkeypatch, folder, "--choose", "--repetitions", "2")
    assert 0.5 < found["gpqa"]["0.95"] <= found["gpqa"]["0.99"] < 1.0


def test_certificates_are_lower_where_more_was_cancelled(folder, capsys, monkeypatch):
    found, _ = printed(capsys, monkeypatch, folder, "--certificates", "--repetitions", "1")
    at = found["gpqa"]["0.95"]
    assert at["hurry 0"]["plain"] == at["hurry 0"]["raced"] and at["hurry 2"]["raced"] < at["hurry 2"]["plain"]


def test_the_standard_error_counts_questions_not_races():
    question = np.repeat(np.arange(50), 20)
    values = np.repeat(np.random.default_rng(1).normal(size=50), 20)
    assert race.standard_error(values, question) == pytest.approx(values.std() / np.sqrt(50), rel=0.05)
