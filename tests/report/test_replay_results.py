"""What ``pets.replay`` hands back, read, tabulated and plotted."""

from dataclasses import replace

import pytest
from IPython.core.formatters import HTMLFormatter, SVGFormatter

import pets
from pets.pools import load


@pytest.fixture(scope="module")
def recorded():
    """Some questions of the starter pool."""
    return pets.Pool("mine", load("starter").questions[:24], "text")


def test_a_replay_says_how_many_traces_each_policy_needs(recorded):
    results = pets.replay(recorded, ["okg", "uniform"], repetitions=2, size=32)
    needed = results.traces_at(0.9)
    assert list(needed) == ["okg", "uniform"] and needed["okg"] < needed["uniform"]
    both = pets.replay([recorded, pets.Pool("other", recorded.questions[:12], "text")], "okg", repetitions=1, size=32)
    assert both.traces_at(0.9)["okg"] == pytest.approx(
        sum(part.traces_at(0.9)["okg"] for part in (type(both)(both[:1]), type(both)(both[1:]))) / 2
    )


def test_a_notebook_shows_a_replay_as_a_table_and_a_plot(tmp_path, recorded):
    results = pets.replay(recorded, ["okg", "uniform"], repetitions=1, size=16)
    table = HTMLFormatter()(results)
    assert table.count("<tr>") == 3 and "<td>uniform</td>" in table
    assert repr(results) == "<ReplayResults: okg, uniform on mine>"
    assert SVGFormatter()(results.plot()).startswith("<svg")
    assert [path.suffix for path in results.plot().save(tmp_path / "curves")] == [".png", ".svg", ".pdf"]


def test_on_the_clock_a_notebook_shows_times_and_the_front_of_hurry(recorded):
    questions = [replace(q, tokens=tuple(range(1, len(q.answers) + 1))) for q in recorded.questions]
    results = pets.replay(pets.Pool("mine", questions, "text"), ["asc", "all:8"], clock=True, repetitions=1, size=16)
    table = HTMLFormatter()(results)
    assert table.count("<tr>") == 7 and "p95 time" in table and "<td>hurry 0.25</td>" in table
    assert "What time costs" in SVGFormatter()(results.plot())
