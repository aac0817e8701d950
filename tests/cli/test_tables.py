"""Tables in terminals of every width: no number is cut."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from pets.cli._tables import print_table, table_blocks


def make_table(columns=9, rows=3):
    table = Table(title="what it is", caption="what it means")
    table.add_column("policy", overflow="fold")
    for at in range(columns):
        table.add_column(f"self-consistency at {at}", justify="right")
    for row in range(rows):
        table.add_row(f"policy number {row} with a long name", *(f"{row}{at}.125 ± 0.{at}5" for at in range(columns)))
    return table


def text(table, width, **options):
    sink = io.StringIO()
    print_table(table, Console(file=sink, width=width), **options)
    return sink.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 240, 400])
def test_every_cell_is_there_whole_and_no_line_is_too_long(width):
    shown = text(make_table(), width)
    assert all(f"{row}{at}.125 ± 0.{at}5" in shown for row in range(3) for at in range(9))
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width


def test_a_table_that_fits_is_left_as_it_is():
    table = make_table(2)
    assert list(table_blocks(table, 120)) == [table]


def test_blocks_repeat_the_key_and_share_one_title_and_caption():
    blocks = list(table_blocks(make_table(), 80))
    assert len(blocks) > 1
    assert all(block.columns[0].header == "policy" for block in blocks)
    assert [block.title for block in blocks] == ["what it is"] + [None] * (len(blocks) - 1)
    assert [block.caption for block in blocks] == [None] * (len(blocks) - 1) + ["what it means"]


def test_two_keys_are_repeated():
    blocks = list(table_blocks(make_table(), 80, keys=2))
    assert len(blocks) > 1
    assert all(
        [column.header for column in block.columns[:2]] == ["policy", "self-consistency at 0"] for block in blocks
    )


def test_a_heading_folds_before_the_table_is_spread():
    shown = text(make_table(2), 60)
    assert shown.count("policy number 0") == 1 and "self-consistency at 0" not in shown


@given(st.lists(st.lists(st.integers(0, 10**12), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(24, 100))
def test_numbers_survive_any_width(rows, width):
    table = Table("a", "b", "c")
    for row in rows:
        table.add_row(*map(str, row))
    shown = re.findall(r"\d+", text(table, width, keys=0))
    assert sorted(shown) == sorted(str(number) for row in rows for number in row)
