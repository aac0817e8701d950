"""A replay's page: from any file of rows, policies side by side."""

import html
import json
import math
from dataclasses import asdict

import pytest

from pets.errors import InputError
from pets.lab import ReplayConfig, replay, rows
from pets.lab.metrics import traces_at_mean
from pets.report.replay_report import read_rows, replay_page
from pets.tabular import write_rows


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_rows_are_read_as_they_were_written(pool_result, tmp_path, suffix):
    table = rows([pool_result])
    write_rows(map(asdict, table), tmp_path / f"rows.{suffix}")
    again = read_rows(tmp_path / f"rows.{suffix}")
    assert [(row.policy, row.metric, row.option) for row in again] == [(r.policy, r.metric, r.option) for r in table]
    assert [row.mean for row in again] == [None if row.mean is None else pytest.approx(row.mean) for row in table]


def test_the_page_has_every_policy_and_its_curves(pool_result):
    page = replay_page(rows([pool_result]))
    for policy in ("uniform", "okg:prior=1", "asc", "dsc", "online_grid"):
        assert f"<td>{policy}</td>" in page
    assert (
        page.partition("</main>")[0].count("<svg") == 4 and "Questions one by one" in page and "pets replay toy" in page
    )


def test_another_file_is_refused(tmp_path):
    (tmp_path / "answers.jsonl").write_text('{"id": "q1"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match=r"pets replay POOL -o rows\.jsonl\. "):  # never over what the user has
        read_rows(tmp_path / "answers.jsonl")
    with pytest.raises(InputError, match="pets replay POOL -o"):
        read_rows(tmp_path / "empty.jsonl")


ROW = {"pool": "p", "policy": "okg", "setting": "offline", "metric": "consistency", "mean": 0.5, "repetitions": 2}
ROW |= {"reached": 2, "questions": 5}
POINT = {**ROW, "option": "budget", "value": 2.0}


def page_of(path, *records):
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return replay_page(read_rows(path))


@pytest.mark.parametrize(("name", "value"), [("mean", "abc"), ("sd", [1]), ("questions", "many"), ("pool", ["a"])])
def test_a_wrong_value_is_told_with_its_place(tmp_path, name, value):
    with pytest.raises(InputError, match=f'line 2: "{name}" is '):
        page_of(tmp_path / "rows.jsonl", ROW, {**ROW, name: value})


@pytest.mark.parametrize(
    "missing",
    [
        [{**POINT, "value": None}],
        [{**POINT, "value": 0.0}],
        [{**POINT, "mean": math.nan}],
        [{**POINT, "value": 7.0}, {**POINT, "value": 7.0, "metric": "traces", "mean": None}],
    ],
)
def test_a_point_without_its_numbers_is_left_out(tmp_path, missing):
    alone = page_of(tmp_path / "rows.jsonl", *missing)
    assert "<svg" not in alone.partition("</main>")[0]
    page = page_of(tmp_path / "rows.jsonl", POINT, {**POINT, "value": 3.0}, *missing)
    assert "<svg" in page.partition("</main>")[0]


def test_counts_that_are_missing_are_not_shown(tmp_path):
    page = page_of(tmp_path / "rows.jsonl", {name: ROW[name] for name in ("pool", "policy", "metric", "mean")}, ROW)
    assert "5 questions, 2 draws" in page and "None" not in page.partition("</main>")[0]


def test_nothing_is_compared_with_zero_traces(tmp_path):
    level = {**ROW, "metric": "traces_at_mean_0.95", "mean": 3.0}
    equal = {**level, "policy": "uniform"}
    assert "the same votes for" in page_of(tmp_path / "rows.jsonl", level, equal)
    assert "the same votes for" not in page_of(tmp_path / "rows.jsonl", level, {**equal, "mean": 0.0})


@pytest.mark.parametrize("others", [(), ("online_grid",), ("online_grid", "asc", "okg:waves=4")])
def test_the_headline_compares_okg_with_the_uniform_of_its_own_setting(pool, others):
    (result,) = replay([pool], ["okg", "uniform", *others], config=ReplayConfig(2, 16, train=4))
    table = rows([result])
    ours, equal = (traces_at_mean(result.result(policy, "offline"), 0.95) for policy in ("okg", "uniform"))
    if others:
        assert traces_at_mean(result.result("uniform", "online"), 0.95) != equal
    for ordered in (table, table[::-1]):
        page = replay_page(ordered)
        assert f"{ours:.1f} per question with okg, {equal:.1f} with uniform" in page
        assert f"{ours / equal:.0%} of the traces" in page


def test_the_command_that_makes_it_again_names_the_files(tmp_path):
    rows = [{**ROW, "files": "my pools/p.jsonl\n$(rm).jsonl"}, {**POINT, "files": "my pools/p.jsonl\n$(rm).jsonl"}]
    assert "pets replay 'my pools/p.jsonl' '$(rm).jsonl' --policy okg" in html.unescape(
        page_of(tmp_path / "rows.jsonl", *rows)
    )


def test_the_command_that_makes_it_again_is_quoted_for_a_shell(tmp_path):
    page = page_of(tmp_path / "rows.jsonl", {**ROW, "pool": "my pool; rm.jsonl", "repetitions": 7})
    command = "pets replay 'my pool; rm.jsonl' --policy okg --repetitions 7 -o rows.jsonl"
    assert command in html.unescape(page)


def test_the_command_that_makes_it_again_has_the_seed_where_it_is_not_the_default(tmp_path):
    page = page_of(tmp_path / "rows.jsonl", {**ROW, "seed": 3})
    assert "--repetitions 2 --seed 3 -o rows.jsonl" in html.unescape(page)
