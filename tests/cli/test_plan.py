"""``pets plan show``: all that a plan holds, drawn."""

import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import StateError
from pets.plans import fit_plan, write_plan
from pets.pools import Pool, PooledQuestion


@pytest.fixture(scope="module")
def toy():
    answers = ("A" * 16, "AAAB" * 4, "AABC" * 4, "ABCD" * 4)
    tokens = (100, 200, 300, 400)
    return Pool(
        "toy", tuple(PooledQuestion(f"q{i}", tuple(a), tokens=(tokens[i],) * 16) for i, a in enumerate(answers))
    )


def shown(plan, path):
    write_plan(plan, path)
    result = CliRunner().invoke(cli, ["plan", "show", str(path)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_grids_curves_budgets_prices_and_prior_are_drawn(toy, tmp_path):
    plan = fit_plan(toy, 8, rounds=2, cap=16)
    text = shown(plan, tmp_path / "plan.json")
    for name, share in zip(("4", "3-1", "2-2", "2-1-1", "1-1-1-1"), plan.grid.shares, strict=True):
        row = next(line for line in text.splitlines() if line.startswith(f"│ {name} "))
        assert f"{share:.1%}" in row
    assert "8 traces per question on average, 16 at most, 2 rounds" in text
    assert 'pool "toy": 4 questions, 64 traces' in text
    assert "self-consistency against traces" in text
    assert "price" in text
    assert "mean tokens of a trace" in text
    assert "\x1b" not in text  # no colours where no terminal is


def test_a_plan_of_one_round_has_no_prices(toy, tmp_path):
    assert "price" not in shown(fit_plan(toy, 8, rounds=1, cap=16), tmp_path / "plan.json")


def test_a_damaged_plan_is_one_line(tmp_path):
    (tmp_path / "plan.json").write_text('{"format": "pets-plan", "version": 1}')
    result = CliRunner().invoke(cli, ["plan", "show", str(tmp_path / "plan.json")])
    assert isinstance(result.exception, StateError)
    assert "'grids' is missing" in str(result.exception)
