"""``pets pools`` from the shell: data on stdout, words on stderr, exit 2 for a bad pool."""

import csv
import io
import json
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import InputError
from pets.pools import load, read_pool, write_pool
from pets.questions import named_sets

from ..command import pets

GOOD = {"id": "a", "gold": "A", "answers": ["A", "B", "A", None], "tokens": [10, 1200, 30, 0]}
PAPER = {"id": 1, "answer": "7", "answers": ["7", ""], "trace_confidence": [{"mean_confidence": 4.5}, None]}


@pytest.fixture(autouse=True)
def _a_person_reads(monkeypatch):
    monkeypatch.setattr("pets.cli._output.is_for_people", lambda form: form in (None, "table"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "good.model.jsonl").write_text(json.dumps(GOOD) + "\n")
    empty, failed = {**GOOD, "id": "b", "answers": []}, {**GOOD, "id": "c", "answers": [None] * 4}
    (tmp_path / "some-bad.jsonl").write_text("\n".join(map(json.dumps, [GOOD, empty, failed])) + "\n{\n")
    (tmp_path / "MANIFEST.json").write_text('[{"pool": "good.model", "kind": "choice"}]')
    return tmp_path


def run(*args):
    return CliRunner().invoke(cli, ["pools", *map(str, args)], catch_exceptions=False)


def test_show_prints_a_row_a_pool(folder):
    result = run("show", folder, "--skip-bad")
    assert result.exit_code == 0 and result.stderr == "some-bad: skipped 3 bad lines.\n"
    head, *rows = (line for line in result.stdout.splitlines() if line[0] in "┃│")
    assert "pass@1" in head and "tokens" in head and "confidence" not in head
    cells = [cell.strip() for cell in rows[0].strip("│").split("│")]
    assert cells == ["good.model", "choice", "1", "4", "2.0", "0.500", "1.000", "0.000", "0.667", "0.250", "310, 1,024"]
    assert len(rows) == 2


def test_show_as_json_and_csv_tell_the_same(folder):
    objects = [json.loads(line) for line in run("show", folder, "--skip-bad", "--format", "jsonl").stdout.splitlines()]
    rows = list(csv.DictReader(io.StringIO(run("show", folder, "--skip-bad", "--format", "csv").stdout)))
    assert [row["pool"] for row in objects] == ["good.model", "some-bad"]
    assert objects[0]["pass_at_1"] == 0.5 and objects[0]["confidence_mean"] is None and objects[1]["skipped"] == 3
    assert rows == [{key: "" if value is None else str(value) for key, value in row.items()} for row in objects]


def test_show_takes_a_pools_name_as_it_stands(tmp_path):
    (tmp_path / "[red]:boom:.jsonl").write_text(json.dumps({**GOOD, "gold": None, "confidence": [1, 3, None, None]}))
    out = run("show", tmp_path).stdout
    assert "[red]:boom:" in out and "2.00 ± 1.00 (50.0%)" in out


def test_a_bad_pool_is_one_line_and_exit_2(folder):
    bad = pets("pools", "show", folder)
    assert bad.returncode == 2 and bad.stdout == ""
    message = '"answers" is empty; every question needs at least one trace. Drop the line or sample it again.'
    assert bad.stderr == f'pets: pool "some-bad.jsonl" line 2: {message}\n'
    gone = pets("pools", "convert", folder / "gone.jsonl", folder / "x.jsonl")
    assert gone.returncode == 2 and "there is no file" in gone.stderr and "Traceback" not in gone.stderr
    assert pets("pools", "show").returncode == 2


def test_check_tells_every_problem(folder):
    result = run("check", folder, folder / "gone.jsonl")
    assert result.exit_code == 2 and result.stderr == "Checked 3 pools: 4 problems.\n"
    starts = ["line 2: ", "line 3: all 4 traces failed", "line 4: this is not JSON"]
    *lines, gone = result.stdout.splitlines()
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(f'pool "some-bad.jsonl" {start}')
    assert gone.startswith('pool "gone.jsonl": there is no file')


def test_check_is_content_with_a_good_pool(folder):
    result = run("check", folder / "good.model.jsonl")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Checked 1 pool: no problems.\n")


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".json", ".parquet"])
def test_convert_changes_the_format(folder, suffix):
    target = folder / f"other{suffix}"
    result = run("convert", folder / "some-bad.jsonl", target, "--skip-bad")
    assert result.exit_code == 0 and result.stdout == ""
    assert "skipped 3 bad lines" in result.stderr and f"{target}: 1 question written." in result.stderr
    assert read_pool(target).questions == read_pool(folder / "good.model.jsonl").questions


def test_convert_brings_in_the_papers_records(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps([PAPER]))
    assert run("convert", tmp_path / "in.json", tmp_path / "out.jsonl", "--confidence", "mean").exit_code == 0
    record = {"id": "1", "gold": "7", "answers": ["7", None], "confidence": [4.5, None]}
    assert json.loads((tmp_path / "out.jsonl").read_text()) == record


def test_help_teaches():
    assert "the paper's own code" in " ".join(run("--help").output.split())
    assert "as `pets replay` reads them" in " ".join(run("show", "--help").output.split())


def said(number):
    thought = f"Let's think about it, step by step. {'Hm. ' * 30}"
    return [f"{thought}The answer is \\boxed{{{17 + (n % 3 == 0)}}}." for n in range(number)]


@pytest.fixture
def texts(tmp_path):
    rows = ({"id": f"q{q}", "answers": said(12), "gold": "17"} for q in range(3))
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "mine.jsonl"


def test_whole_texts_are_never_zeros_in_silence(texts):
    for verb in (("pools", "show"), ("replay",), ("fit",)):
        result = pets(*verb, texts)
        assert result.returncode == 2 and "look like whole texts" in result.stderr and "--answer auto" in result.stderr
    (row,) = (
        json.loads(line) for line in run("show", texts, "--answer", "number", "--format", "jsonl").stdout.splitlines()
    )
    assert (row["kind"], row["vote_accuracy"], round(row["pass_at_1"], 3)) == ("number", 1.0, 0.667)


def test_show_and_replay_mean_the_same_by_pass_at_1_and_vote(tmp_path):
    starter = load("starter")
    pool = tmp_path / "few.jsonl"
    write_pool(replace(starter, questions=starter.questions[:16]), pool)
    row = json.loads(run("show", pool, "--format", "jsonl").stdout)
    few = ("--repetitions", "1", "--policy", "uniform", "--workers", "1", "--format", "jsonl")
    rows = CliRunner().invoke(cli, ["replay", str(pool), *few], catch_exceptions=False).stdout.splitlines()
    means = {row["metric"]: row["mean"] for row in map(json.loads, rows) if not row["policy"]}
    assert (row["pass_at_1"], row["vote_accuracy"]) == pytest.approx((means["pass_at_1"], means["vote_accuracy"]))


def test_answers_are_read_anew_and_kept(texts, tmp_path):
    long = tmp_path / "long.csv"
    long.write_text("id,response,gold\n" + "".join(f'q,"{text}",17\n' for text in said(4)))
    result = run("convert", long, tmp_path / "read.jsonl", "--answer", "number")
    assert result.exit_code == 0 and "1 question written" in result.stderr
    (question,) = read_pool(tmp_path / "read.jsonl").questions
    assert question.answers == ("18", "17", "17", "18") and question.texts == tuple(said(4))
    run("convert", tmp_path / "read.jsonl", tmp_path / "short.parquet", "--no-texts")
    (question,) = read_pool(tmp_path / "short.parquet").questions
    assert question.answers == ("18", "17", "17", "18") and question.texts is None


def test_check_groups_what_is_alike_and_takes_fields(tmp_path):
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"id": n, "said": ["A"]}) + "\n" for n in range(3000)))
    result = run("check", tmp_path / "p.jsonl")
    (line,) = result.stdout.splitlines()
    assert line.endswith("And 2,999 more like it: line 2, line 3, line 4, line 5, ....") and result.exit_code == 2
    assert run("check", tmp_path / "p.jsonl", "--field", "answers=said").exit_code == 0
    wrong = pets("pools", "check", tmp_path / "p.jsonl", "--field", "said=answers")
    assert wrong.returncode == 2 and "NAME one of id, gold, answers, texts" in wrong.stderr


def test_skipped_lines_are_reported_on_stderr(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": "a", "gold": "B", "answers": ["B"]}\n{\n{\n')
    assert run("show", tmp_path / "p.jsonl", "--skip-bad").stderr == "p: skipped 2 bad lines.\n"


def test_a_plan_needs_four_traces_and_says_what_it_leaves_out(tmp_path):
    rows = [{"id": f"q{q}", "answers": list("ABAACABA")} for q in range(5)] + [{"id": "short", "answers": ["A"]}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = CliRunner().invoke(cli, ["fit", str(tmp_path / "p.jsonl"), "--budget", "5x", "--max-traces", "8"])
    assert result.exit_code == 0 and "p: 1 question is left out: it has fewer than 4 traces." in result.stderr


ROW = {"question": "Two pens and two?", "answer": "So 4.\n#### 4"}


def printed(*args):
    return CliRunner().invoke(cli, ["pools", "questions", *map(str, args)])


def test_the_sets_are_listed_without_asking_the_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    lines = printed().stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == named_sets() and "(openai/gsm8k)" in printed().stdout


def test_a_copy_is_printed_as_lines(tmp_path):
    (tmp_path / "test.jsonl").write_text(json.dumps(ROW) + "\n")
    result = printed("gsm8k", "--from", tmp_path / "test.jsonl")
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["gold"] == "4" and result.exit_code == 0


def test_a_missing_copy_is_a_users_mistake(tmp_path):
    result = printed("gsm8k", "--from", tmp_path / "none.jsonl")
    assert result.exit_code == 2 and "does not exist" in result.stderr and result.stdout == ""


def test_a_file_of_ones_own_is_printed_as_it_is_read(tmp_path):
    (tmp_path / "exam.csv").write_text("body;answer\n2 + 2?;4\n3 + 3?;6\n")
    result = printed(tmp_path / "exam.csv", "--field", "question=body", "--first", 1)
    assert result.exit_code == 0, result.stderr
    (row,) = map(json.loads, result.stdout.splitlines())
    assert row["prompt"] == [{"role": "user", "content": "2 + 2?"}] and row["gold"] == "4"
    wrong = printed(tmp_path / "exam.csv", "--from", tmp_path / "exam.csv")
    assert isinstance(wrong.exception, InputError) and "is a copy of a named set" in str(wrong.exception)


def test_questions_come_through_a_pipe():
    result = CliRunner().invoke(cli, ["pools", "questions", "-"], input="What is 2 + 2?\n")
    assert json.loads(result.stdout)["prompt"][0]["content"] == "What is 2 + 2?"


def test_files_of_nemo_skills_that_are_named_together_are_one_pool(tmp_path):
    folder = tmp_path / "sums"
    folder.mkdir()
    for seed, answer in enumerate("445"):
        row = {"id": "a", "generation": f"It is {answer}.", "predicted_answer": answer, "expected_answer": "4"}
        (folder / f"output-rs{seed}.jsonl").write_text(json.dumps(row) + "\n")
    files = sorted(folder.glob("*.jsonl"))
    for named in ([folder], files):
        (shown,) = map(json.loads, pets("pools", "show", *named, "--format", "jsonl").stdout.splitlines())
        assert (shown["pool"], shown["questions"], shown["traces"], shown["vote_accuracy"]) == ("sums", 1, 3, 1.0)
        replayed = pets(
            "replay", *named, "--policy", "uniform", "--repetitions", 2, "--workers", 1, "--format", "jsonl"
        )
        assert {json.loads(line)["pool"] for line in replayed.stdout.splitlines()} == {"sums"}, replayed.stderr
    assert "Name the folder" in pets("pools", "show", *files[:2]).stderr
