"""``pets replay`` from the shell: data on stdout, words on stderr, exit 2 for a mistake."""

import csv
import io
import json

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from pets.cli.main import cli

from ..command import pets

POLICIES = ("--policy", "uniform", "--policy", "okg", "--policy", "asc")
FEW = ("--repetitions", "2", "--pool-size", "12", "--workers", "1")


@pytest.fixture(autouse=True)
def _a_person_reads(monkeypatch):
    monkeypatch.setattr("pets.cli._output.is_for_people", lambda form: form in (None, "table"))


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for q in range(14):
        answers = [f"({'ABCD'[rng.choice(4, p=[0.5, 0.3, 0.1, 0.1])]})" for _ in range(16)]
        lines.append({"id": f"q{q}", "gold": "A", "answers": answers, "tokens": rng.integers(1, 99, 16).tolist()})
    (tmp_path / "toy.model.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "bad.jsonl").write_text(json.dumps(lines[0]) + "\n{\n")
    (tmp_path / "MANIFEST.json").write_text('[{"pool": "toy.model", "kind": "choice"}]')
    return tmp_path


def run(*args):
    return CliRunner().invoke(cli, ["replay", *map(str, args)], catch_exceptions=False)


def test_a_table_has_a_row_a_policy(folder):
    result = run(folder / "toy.model.jsonl", *POLICIES, *FEW)
    assert result.exit_code == 0
    title, head, *lines = (line for line in result.stdout.splitlines() if line[0] not in "┏┡└")
    assert title.startswith("toy.model: 14 questions x 12 traces, 2 repetitions, pass@1")
    assert "first 1" in head and "tokens first 1" in head
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line[0] == "│"]
    assert [row[:2] for row in cells] == [["uniform", "offline"], ["okg", "offline"], ["asc", "stopping"]]
    assert cells[1][11] == "1.000 ± 0.000"  # okg, at the spend where it reaches 1


def test_json_csv_and_parquet_tell_the_same(folder):
    pool = folder / "toy.model.jsonl"
    objects = [json.loads(line) for line in run(pool, *POLICIES, *FEW, "--format", "jsonl").stdout.splitlines()]
    rows = list(csv.DictReader(io.StringIO(run(pool, *POLICIES, *FEW, "--format", "csv").stdout)))
    assert rows == [{key: "" if value is None else str(value) for key, value in row.items()} for row in objects]
    written = run(pool, *POLICIES, *FEW, "-o", folder / "rows.parquet")
    assert "first 1" in written.stdout and f"{len(objects)} rows written" in written.stderr
    assert pyarrow.parquet.read_table(folder / "rows.parquet").to_pylist() == objects


def test_defaults_leave_online_policies_out_of_small_pools(folder):
    result = run(folder / "toy.model.jsonl", *FEW, "--train", "14")
    assert result.exit_code == 0 and "Online policies are left out: 14 questions are too few" in result.stderr
    assert "boinf" in result.stdout and "price" not in result.stdout
    assert "price:rounds=3" in run(folder / "toy.model.jsonl", *FEW).stdout


def test_sizes_and_bad_lines_are_told(folder):
    result = run(folder, "--skip-bad", "--policy", "uniform", "--repetitions", "1", "--workers", "1")
    assert "bad: skipped 1 bad line." in result.stderr
    assert "toy.model: 16 traces per question, its shortest question has no more." in result.stderr
    assert "bad: 1 questions x 16 traces" in result.stdout


def test_the_answer_type_is_the_manifests_or_the_users(folder):
    table = run(folder / "toy.model.jsonl", "--policy", "uniform", *FEW).stdout
    assert "pass@1 0.000" not in table
    assert "pass@1 0.000" in run(folder / "toy.model.jsonl", "--policy", "uniform", *FEW, "--answer", "raw").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--policy", "magic"), "there is no policy 'magic'"),
        (("--weighted",), "has no confidences"),
        (("--policy", "price", "--train", "20"), "too few for 20 training questions"),
        (("-o", "rows.xlsx"), "ends in none of"),
        (("-o", "nowhere/rows.csv"), 'no folder "nowhere"'),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(folder, args, said):
    result = pets("replay", folder / "toy.model.jsonl", *FEW, *args)
    assert result.returncode == 2 and said in result.stderr and result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_missing_pool_is_named(folder):
    result = pets("replay", folder / "none.jsonl")
    assert result.returncode == 2 and "there is no file" in result.stderr


def test_certificates_are_checked_when_asked_for(folder):
    result = run(folder / "toy.model.jsonl", *POLICIES, *FEW, "--certificates")
    unasked = run(folder / "toy.model.jsonl", *POLICIES, *FEW)
    assert "calibration error" in result.stdout and "calibration error" not in unasked.stdout
    lines = run(folder / "toy.model.jsonl", *POLICIES, *FEW, "--certificates", "--format", "jsonl").stdout.splitlines()
    scores = [row for row in map(json.loads, lines) if row["metric"] == "certificate_count"]
    assert [(row["policy"], row["mean"]) for row in scores] == [("uniform", 56.0), ("okg", 56.0)]  # at 4 and 8 of 12
    refused = pets("replay", folder / "toy.model.jsonl", *FEW, "--certificates", "--weighted")
    assert refused.returncode == 2 and "majority vote" in refused.stderr


def test_plots_of_disjoint_halves_have_no_certificates(folder):
    few = ("--policy", "okg", "--repetitions", "1", "--workers", "1", "--reference", "disjoint")
    result = run(folder / "toy.model.jsonl", *few, "--plots", folder / "plots")
    assert result.exit_code == 0
    assert sorted(path.name for path in (folder / "plots").iterdir()) == [
        f"toy.model.{name}.{suffix}" for name in ("curves", "difficulty") for suffix in ("pdf", "png", "svg")
    ]


def test_the_attainable_limit_stands_in_the_table_or_why_not(folder):
    disjoint = run(folder / "toy.model.jsonl", *POLICIES, *FEW, "--reference", "disjoint")
    assert "No attainable limit is given: it is known for the unweighted vote of the whole pool" in disjoint.stdout
    rng = np.random.default_rng(1)
    crowd = [
        {"id": f"q{q}", "gold": None, "answers": rng.choice(["0", "1"], 12, p=[0.7, 0.3]).tolist()} for q in range(14)
    ]
    (folder / "crowd.jsonl").write_text("\n".join(map(json.dumps, crowd)))
    (folder / "MANIFEST.json").write_text('[{"pool": "crowd", "kind": "choice"}]')
    result = run(folder / "crowd.jsonl", *POLICIES, *FEW)
    assert "Attainable limit at 0.95 and 0.99: " in result.stdout and "limit 0.99" in result.stdout
    assert "as recorded" not in result.stderr


def test_three_pictures_are_drawn_per_pool(folder):
    plots = folder / "plots"
    few = ("--repetitions", 1, "--pool-size", 8, "--workers", 1, "--policy", "uniform", "--policy", "asc")
    result = run(folder / "toy.model.jsonl", *few, "--plots", plots)
    assert "toy.model: 14 questions x 8 traces" in result.stdout
    for name in ("toy.model.curves.png", "toy.model.difficulty.png", "toy.model.reliability.png"):
        assert (plots / name).read_bytes().startswith(b"\x89PNG")
        assert str(plots / name) in result.stderr


def test_a_pool_without_gold_has_no_accuracy_and_a_short_question_does_not_cut_it(tmp_path):
    rows = [{"id": f"q{q}", "answers": list("ABAA" * 4)} for q in range(12)] + [{"id": "short", "answers": ["A"]}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(tmp_path / "p.jsonl", "--policy", "uniform", "--policy", "okg", *FEW)
    assert "p: 1 question is left out: it has fewer than 6 traces." in result.stderr
    assert result.stdout.startswith("p: 12 questions x 12 traces, 2 repetitions") and "pass@1" not in result.stdout
    cells = [line for line in result.stdout.splitlines() if line.startswith("│ okg")]
    assert cells and " - " in cells[0]


def test_a_mixture_is_replayed_and_stands_beside_its_models(folder):
    rows = [json.loads(line) for line in (folder / "toy.model.jsonl").read_text().splitlines()]
    (folder / "toy.other.jsonl").write_text("\n".join(json.dumps(row | {"answers": row["answers"][::-1]})
                                                      for row in rows[:13]))  # fmt: skip
    (folder / "MANIFEST.json").write_text(
        json.dumps([{"pool": f"toy.{name}", "kind": "choice"} for name in ("model", "other")])
    )
    mixture = f"{folder / 'toy.model.jsonl'}=2+{folder / 'toy.other.jsonl'}"
    result = run(mixture, "--policy", "uniform", "--policy", "okg", *FEW)
    assert result.exit_code == 0 and "1 question left out that not all of its pools have." in result.stderr
    words = " ".join(result.stdout.split())
    assert "toy.model=2+other=1: 13 questions x 12 traces" in words
    assert "toy.model+other: 13 questions with gold" in words
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in result.stdout.splitlines()]
    assert [row[0] for row in cells if row[0] in ("model", "other", "model=2+other=1")] == [
        "model", "other", "model=2+other=1"]  # fmt: skip
    assert [row[0] for row in cells if row[0] in ("1", "2", "4", "8")] == ["1", "2", "4", "8"]
    assert "chosen among 5 on one half, scored on the other" in words
    assert (
        "different kinds" in pets("replay", f"{folder / 'toy.model.jsonl'}+{folder / 'bad.jsonl'}", "--skip-bad").stderr
    )
    assert "not of folders" in pets("replay", f"{folder / 'toy.model.jsonl'}+{folder}", "--skip-bad").stderr


def test_a_rule_of_ones_own_is_compared_with_a_column_of_its_own_spend(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_replayed.py").write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\nfrom pets import QuotaPolicy\n"
        "@dataclass(frozen=True, slots=True)\nclass Two(QuotaPolicy):\n    solitary: ClassVar[bool] = True\n"
        "    def quota(self, tally, view):\n        return 2\n"
    )
    own = ("--policy", "python:own_replayed:Two", "--policy", "uniform", "--workers", "1")
    rows = [
        json.loads(line)
        for line in run(folder / "toy.model.jsonl", *own, *FEW, "--format", "jsonl").stdout.splitlines()
    ]
    spent = {row["policy"]: row["mean"] for row in rows if row["metric"] == "own_traces"}
    assert spent == {"Two()": 2.0}


def test_on_the_clock_a_table_has_tokens_and_time_of_every_hurry_and_a_picture(folder):
    result = run(folder / "toy.model.jsonl", *FEW, "--clock", "--train", "14", "--plots", folder / "plots")
    assert result.exit_code == 0
    cells = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in result.stdout.splitlines() if "│" in line
    ]
    hurries = [row for row in cells if row[0] == "asc"]
    assert [row[1] for row in hurries] == [f"hurry {hurry:g}" for hurry in (0, 0.25, 0.5, 1, 2)]
    alone = next(row for row in cells if row[0] == "asc:places=1")
    assert alone[2] == alone[3] == hurries[0][2] and float(hurries[0][3]) < float(alone[3])  # tokens and time
    assert {row[0] for row in cells} >= {"lead", "all:32", "its_beta", "short_m:8/16", "asc:batch=2"}
    assert sorted(path.name for path in (folder / "plots").iterdir())[1] == "toy.model.clock.png"


def test_a_pool_without_lengths_has_no_clock(tmp_path):
    (tmp_path / "toy.jsonl").write_text(json.dumps({"id": "q", "answers": ["A", "B", "A"]}))
    result = pets("replay", tmp_path / "toy.jsonl", "--clock", "--policy", "asc")
    assert (
        result.returncode == 2
        and 'pool "toy" has no "tokens"; a clock needs the length of every trace' in result.stderr
    )
