"""``pets forecast`` from the shell; of a run, in ``test_solve.py``."""

import json

import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import InputError


def pets(*args):
    return CliRunner().invoke(cli, [*map(str, args)])


@pytest.fixture
def pool(tmp_path):
    path = tmp_path / "pool.jsonl"
    answers = ["A"] * 6 + ["B"] * 2
    path.write_text("".join(json.dumps({"id": f"q{i}", "gold": "A", "answers": answers}) + "\n" for i in range(12)))
    return path


def test_a_pool_is_forecast_by_replaying_it(pool):
    result = pets("forecast", pool, "--max-budget", "8x", "--target-consistency", 0.9)
    plain = json.loads(result.stdout)
    assert plain["curve"][-1] == [8.0, 1.0] and 1 <= plain["mean_budget_for"]["0.9"] < 8
    assert "self-consistency 0.9: " in result.stderr and "mean traces per question" in result.stderr


def test_a_forecast_has_the_formats_of_every_verb(pool):
    line = ("forecast", pool, "--max-budget", "8x", "--target-consistency", 0.9, "--format")
    table, rows, csv = (pets(*line, form) for form in ("table", "json", "csv"))
    assert table.stdout.startswith("self-consistency 0.9: ") and "self-consistency 0.9" not in table.stderr
    assert json.loads(rows.stdout)[0]["questions"] == 12 and csv.stdout.startswith(
        "questions,mean_budget_for,curve\n12,"
    )


def test_a_target_out_of_reach_has_no_budget(pool):
    result = pets("forecast", pool, "--max-budget", "2x", "--target-consistency", 0.999)
    assert json.loads(result.stdout)["mean_budget_for"] == {"0.999": None}
    assert "self-consistency 0.999: more than 2x" in result.stderr


def test_a_mistake_is_one_line(pool, tmp_path):
    gone = pets("forecast", tmp_path / "none.jsonl").exception
    assert isinstance(gone, InputError) and "there is no pool" in str(gone)
    stopping = pets("forecast", pool, "--policy", "asc").exception
    assert isinstance(stopping, InputError) and "has no curve over budgets" in str(stopping)
    for budget, said in (("8", "such as 16x; got '8'"), ("0.5x", "at least 1x")):
        assert said in str(pets("forecast", pool, "--max-budget", budget).exception)


@pytest.mark.parametrize(
    ("former", "now"),
    [("--target", "--target-consistency"), ("--up-to", "--max-budget 24x")],
)
def test_a_renamed_option_names_its_successor(pool, former, now):
    result = pets("forecast", pool, former, 1)
    assert result.exit_code == 2 and f"{former} is now {now}." in result.stderr
