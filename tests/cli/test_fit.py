"""``pets fit`` and ``pets fit --show`` from the shell."""

import json

import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import InputError, PetsError, StateError
from pets.plans import fit_plan, read_plan, write_plan
from pets.pools import Pool, PooledQuestion


def pets(*args):
    return CliRunner().invoke(cli, [*map(str, args)])


@pytest.fixture
def pool(tmp_path):
    path = tmp_path / "toy.jsonl"
    answers = {"easy": "AAAA" * 4, "middle": "AAAB" * 4, "hard": "ABCA" * 4}
    path.write_text("".join(json.dumps({"id": k, "gold": None, "answers": list(v)}) + "\n" for k, v in answers.items()))
    return path


def test_a_plan_is_written_and_says_where_it_comes_from(pool, tmp_path):
    output = tmp_path / "plan.json"
    result = pets("fit", pool, "--budget", "8x", "--policy", "price:rounds=2", "--max-traces", 16, "-o", output)
    assert result.exit_code == 0, result.output
    assert not result.stdout
    assert "3 questions with 48 traces" in result.stderr
    plan = read_plan(output)
    assert (plan.mean_budget, plan.rounds, plan.cap, plan.provenance.pool) == (8.0, 2, 16, "toy")


def test_without_a_file_the_plan_goes_to_stdout_and_the_same_seed_gives_the_same_plan(pool):
    first, again = (pets("fit", pool, "--policy", "price:rounds=1", "--budget", "6x") for _ in range(2))
    assert first.stdout == again.stdout
    assert json.loads(first.stdout)["format"] == "pets-plan"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--budget", "3x"], "mean budget of 3"),
        (["--answer", "poem"], "poem"),
        (["-o", "no/such/folder/plan.json"], "folder"),
    ],
)
def test_a_mistake_is_one_line(pool, options, said):
    result = pets("fit", pool, "--policy", "price:rounds=1", *options)
    assert isinstance(result.exception, PetsError)
    assert said in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_pool_that_is_not_there_is_one_line(tmp_path):
    result = pets("fit", tmp_path / "none.jsonl")
    assert isinstance(result.exception, PetsError)
    assert "none.jsonl" in str(result.exception)


def test_a_plan_has_the_zone_that_it_was_fitted_for(pool, tmp_path):
    output = tmp_path / "plan.json"
    assert pets("fit", pool, "--budget", "8x", "--policy", "price:rounds=2,zone=0.1", "-o", output).exit_code == 0
    assert read_plan(output).policy().zone == 0.1
    assert "zone 0.1" in pets("fit", "--show", output).stdout


def test_a_file_that_is_no_plan_is_not_written_over(pool, tmp_path):
    output = tmp_path / "runs.db"
    for content in (b"SQLite format 3\x00", b'{"format": "other"}', b"[1]"):
        output.write_bytes(content)
        result = pets("fit", pool, "--budget", "8x", "--policy", "price:rounds=1", "-o", output)
        assert isinstance(result.exception, InputError) and "runs.db" in str(result.exception)
        assert "\n" not in str(result.exception)
        assert output.read_bytes() == content


def test_a_plan_is_replaced_whatever_its_version_and_an_empty_file_is_filled(pool, tmp_path):
    output = tmp_path / "plan.json"
    for content in ("", '{"format": "pets-plan", "version": 99}'):
        output.write_text(content)
        assert pets("fit", pool, "--budget", "8x", "--policy", "price:rounds=1", "-o", output).exit_code == 0
        assert read_plan(output).mean_budget == 8


@pytest.fixture(scope="module")
def toy():
    answers = ("A" * 16, "AAAB" * 4, "AABC" * 4, "ABCD" * 4)
    tokens = (100, 200, 300, 400)
    return Pool(
        "toy", tuple(PooledQuestion(f"q{i}", tuple(a), tokens=(tokens[i],) * 16) for i, a in enumerate(answers))
    )


def shown(plan, path):
    write_plan(plan, path)
    result = CliRunner().invoke(cli, ["fit", "--show", str(path)])
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
    result = CliRunner().invoke(cli, ["fit", "--show", str(tmp_path / "plan.json")])
    assert isinstance(result.exception, StateError)
    assert "'grids' is missing" in str(result.exception)
