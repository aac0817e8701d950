"""``python -m scripts.paper`` and ``make paper`` from the shell."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts.paper.__main__ import main

PNG = b"\x89PNG\r\n\x1a\n"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path):
    path, rng = tmp_path / "toy.jsonl", np.random.default_rng(0)
    thetas = rng.dirichlet([0.5] * 3, size=14)
    lines = [
        {"id": f"q{q}", "gold": "ABC"[theta.argmax()], "answers": list(rng.choice(list("ABC"), 24, p=theta))}
        for q, theta in enumerate(thetas)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the script with these arguments; its exit code, what it printed and what it said."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["paper", *map(str, args)])
        code = main()
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def undrawn(monkeypatch):
    """No figure: the first test draws them, in every format."""
    monkeypatch.setattr("scripts.paper.__main__.save", lambda figure, path: [])


def test_without_pools_two_figures_are_written_and_named(run, tmp_path):
    code, out_text, said = run("--output", tmp_path / "new" / "out", "--batches", 2)
    out = tmp_path / "new" / "out"
    written = {path.name for path in out.iterdir()}
    suffixes = ("png", "svg", "pdf", "csv")
    assert written == {f"{name}.{suffix}" for name in ("voting_curves", "budget_plan") for suffix in suffixes}
    assert all(f"{out / name} written." in said for name in written)
    assert (code, out_text) == (0, "") and "No pools" in said
    assert all(path.read_bytes().startswith(PNG) for path in out.glob("*.png"))


def test_with_pools_the_tables_are_printed_and_written(run, undrawn, file, tmp_path):
    options = ("--mean-budget", 8, "--repetitions", 2, "--workers", 1, "--batches", 2)
    code, tables, _ = run("--output", tmp_path / "out", file, *options)
    assert code == 0 and all(word in tables for word in ("Oracle", "Predictor", "Wall clock"))
    for name, count in (("bin_sweeps.csv", 8), ("wall_clock.csv", 3)):
        assert len(list(csv.DictReader((tmp_path / "out" / name).read_text().splitlines()))) == count


def test_a_pool_that_is_too_small_is_left_out_and_named(run, undrawn, file, tmp_path):
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    short = file.with_name("short.jsonl")
    short.write_text("\n".join(json.dumps({**line, "answers": line["answers"][:6]}) for line in lines))
    file.write_text("\n".join(map(json.dumps, lines[:9])))
    code, _, said = run("--output", tmp_path / "out", file, short, "--mean-budget", 8, "--batches", 2)
    assert code == 0 and "toy is left out of the tables: 9 questions are too few to train" in said
    why = "6 traces per question are fewer than the mean budget of 8."
    assert f"short is left out of the tables: {why}" in said
    assert not (tmp_path / "out" / "bin_sweeps.csv").exists()


def test_a_missing_drawing_library_is_one_line_and_exit_2(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    code, out_text, said = run("--output", tmp_path / "out")
    assert (code, out_text) == (2, "") and not (tmp_path / "out").exists()
    assert said == 'pets: vl_convert is not installed. Try: pip install "pets-llm[plots]"\n'


@pytest.mark.parametrize("pools", ["", "one.jsonl two.jsonl"])
def test_make_paper_says_what_it_would_run(pools):
    made = ["make", "--dry-run", "--assume-old=.venv/.ready", "paper", "OUT=o", *([f"POOLS={pools}"] if pools else [])]
    said = subprocess.run(made, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert ("pets replay one.jsonl two.jsonl --plots o -o o/rows.csv" in said) == bool(pools)
    assert ("No recorded pools" in said) == (not pools)
    assert f"-m scripts.paper --output o {pools}" in said
