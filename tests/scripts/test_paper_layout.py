"""The paper's tables on a terminal: their columns and cells."""

import csv

from scripts.paper.layout import clock_table, sweep_table, write_csv
from scripts.paper.tables import bin_sweep, wall_clock

from pets.lab import ReplayConfig, read_answers

CONFIG = ReplayConfig(2, 16, budgets=(8.0,))


def test_a_sweep_is_a_csv_file_and_a_table(pool, tmp_path):
    rows = bin_sweep([pool], CONFIG)
    written = list(csv.DictReader(write_csv(tmp_path / "sweep.csv", rows).read_text().splitlines()))
    assert [float(line["consistency"]) for line in written] == [row.consistency for row in rows]
    table = sweep_table(rows, "oracle", "Oracle")
    assert [column.header for column in table.columns] == ["pool", "K = 2", "K = 3", "K = 5", "K = 8"]
    assert list(table.columns[2].cells) == [f"{rows[1].accuracy:.4f} / {rows[1].consistency:.4f}"]


def test_the_clock_has_a_column_for_each_method(pool):
    rows = wall_clock(read_answers(pool), CONFIG)
    headers = [column.header for column in clock_table(rows, "Wall clock").columns]
    assert headers == ["pool", "online grid, fit + assign", "online uniform", "offline okg:prior=1"]
