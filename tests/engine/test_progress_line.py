"""Words and progress on stderr, for people who run PETS from Python."""

import sys
from dataclasses import replace

import pytest

from pets.engine.fetch import Outage
from pets.engine.progress import Snapshot
from pets.engine.progress_line import ProgressLine, snapshot_words
from pets.errors import UnreachableError

RUN = Snapshot(
    questions=200, traces=1200, failed=0, in_flight=64, spent=1264, total=3200, unit="traces", seconds=60.0, rate=20.0,
    expected_left=1936, faults={}, outage=None, expected=None,
)  # fmt: skip


def test_words_are_said_and_the_line_is_drawn_only_where_it_is_wanted(capsys):
    for shown in (None, False, True):
        with ProgressLine(shown) as line:
            line.say("Words.")
            line.draw("1 of 2")
    assert capsys.readouterr().err == "Words.\nWords.\n\r1 of 2\r      \r"


def test_a_line_is_written_over_itself_and_words_stand_above_it(capsys):
    with ProgressLine(True) as line:
        count = line.counter("questions")
        count(1000, 2000)
        count(9, 20)
        line.say("Words.")
    long, short = "\r1,000 of 2,000 questions", "\r9 of 20 questions       "
    assert capsys.readouterr().err == f"{long}{short}\r{' ' * 17}\rWords.\n"


@pytest.mark.parametrize("place", ["terminal", "notebook", "neither"])
def test_the_line_is_for_terminals_and_notebooks(place, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: place == "terminal")
    if place == "notebook":
        monkeypatch.setitem(sys.modules, "ipykernel", object())
    else:
        monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    ProgressLine().draw("1 of 2")
    assert capsys.readouterr().err == ("" if place == "neither" else "\r1 of 2")


def test_a_run_is_one_line():
    assert snapshot_words(RUN) == "1,264 traces of 3,200 traces, 20.0 traces/s, 0:01:37 left"
    assert snapshot_words(replace(RUN, failed=3, rate=0.0)) == "1,264 traces of 3,200 traces, 0.0 traces/s, 3 failed"
    outage = Outage(UnreachableError("refused"), 12.0, 1.0, 300.0)
    assert snapshot_words(replace(RUN, outage=outage)).endswith("20.0 traces/s, unreachable")
