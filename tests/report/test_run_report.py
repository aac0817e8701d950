"""A run's page: what was bought, what to look at, how to make it again."""

import html
import re

import pytest

from pets.engine import RunConfig
from pets.engine.resume import run_settings
from pets.errors import InputError
from pets.prompts import Prompt
from pets.questions import Problem
from pets.report.run_report import run_page
from pets.store import Store, StoredTrace
from pets.types import Launch

VOTES = {"easy": "AAAA", "hard": "ABABBAC", "wrong": "BBB"}


@pytest.fixture
def store(tmp_path):
    problems = [Problem(id, Prompt(f"Example. <b>{id}</b>? Answer:"), answer_type="choice", gold="A") for id in VOTES]
    config = RunConfig(budget="6x", policy="okg")
    settings = run_settings(config, problems, model="m", endpoints=["http://127.0.0.1:1/v1"], name="set", stored=True)
    with Store.open(tmp_path / "runs.db") as store:
        with store.create(settings, problems) as run:
            launches = [Launch(id, number) for id, votes in VOTES.items() for number in range(len(votes))]
            run.write(launches, [])
            traces = [
                StoredTrace(id, number, vote, text=f"It is {vote} </script>", tokens=7, finish="stop")
                for id, votes in VOTES.items()
                for number, vote in enumerate(votes)
            ]
            run.write([], traces)
        store.create(settings, problems).close()
        yield store


def test_the_page_tells_what_was_bought_and_what_to_look_at(store):
    page = run_page(store.view(1))
    text = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    for words in (
        "Run 1: set",
        "66.7%",
        "2 right of 3",
        "expected self-consistency",
        "gold: A",
        "trace 0: A, 7 tokens",
    ):
        assert words in text, words
    assert "pets solve set --budget 6x --policy okg" in text and "It is A &lt;/script&gt;" in text
    assert "&lt;b&gt;hard&lt;/b&gt;?" in text and "<b>hard" not in text
    assert text.index("&lt;b&gt;hard") < text.index("&lt;b&gt;easy")  # the least certain first


def test_bars_and_counts_of_the_table_agree(store):
    page = run_page(store.view(1))
    rows = re.findall(r"<tr data-kinds.*?</tr>", page)
    assert len(rows) == 3
    for row in rows:
        counts = sum(map(int, re.findall(r"×(\d+)", re.search(r"<td>([^<]*×[^<]*)<div", row)[1])))
        assert counts == sum(map(int, re.findall(r'data-votes="(\d+)"', row)))


def test_a_run_without_a_trace_has_nothing_to_report(store):
    with pytest.raises(InputError, match="no trace yet"):
        run_page(store.view(2))


@pytest.mark.parametrize("pace", [{"waves": 3}, {"patience": 2.5}, {}])
@pytest.mark.parametrize("path", ["runs.db", "my runs.db"])
def test_the_commands_that_make_it_again_name_the_store_and_the_pace(tmp_path, monkeypatch, path, pace):
    monkeypatch.chdir(tmp_path)
    problems = [Problem("q", Prompt("?"), answer_type="choice")]
    settings = run_settings(RunConfig(budget="6x", policy="okg", **pace), problems, model="m", name="set", stored=True)
    with Store.open(path) as store:
        with store.create(settings, problems) as run:
            run.write([Launch("q", 0)], [StoredTrace("q", 0, "A", tokens=7, finish="stop")])
        page = html.unescape(run_page(store.view(1)))
    flags = "".join(f" --{name} {value}" for name, value in pace.items())
    place = "" if path == "runs.db" else f" --store '{path}'"
    assert f"--seed 0{flags}{place}\npets report 1{place}<" in page
