"""A store by path, by URL and in memory; the runs in it are found by number, and a bad run leaves nothing."""

import pytest

from pets.errors import InputError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, RunSettings, Store, StoredTrace

SETTINGS = RunSettings("okg", 10)


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_store_is_found_by_path_and_by_url(path, problems, form):
    with Store.open(form.format(path)) as store:
        store.create(SETTINGS, problems).close()
    with Store.open(path, create=False) as store:
        assert [run.questions for run in store.runs()] == [3]


@pytest.mark.parametrize("place", [":memory:", "sqlite://"])
def test_a_store_in_memory_leaves_nothing(place, problems, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store.open(place) as store, store.create(SETTINGS, problems) as run:
        run.write([Launch("q0", 0)], [StoredTrace("q0", 0, "4")])
        assert store.view().summary().traces == 1
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_not_there_is_named(store, problems):
    with pytest.raises(InputError, match="no run yet"):
        store.open_run()
    store.create(SETTINGS, problems).close()
    with pytest.raises(InputError, match="no run 7; the last is 1"):
        store.view("7")
    with pytest.raises(InputError, match="a number or"):
        store.view("best")


def test_bad_questions_leave_no_run(store, problems):
    def breaks():
        yield problems[0]
        raise InputError("line 2 is bad")

    with pytest.raises(InputError, match="line 2"):
        store.create(SETTINGS, breaks())
    with pytest.raises(InputError, match="one id"):
        store.create(SETTINGS, [problems[0], problems[0]])
    with pytest.raises(InputError, match="at least one"):
        store.create(SETTINGS, [])
    with pytest.raises(InputError, match="no UTF-8"):
        store.create(SETTINGS, [Problem("half", Prompt("a pair: \ud83d"))])
    assert store.runs() == []
    with store.create(SETTINGS, [Problem("x", Prompt("y"))]) as run:
        assert run.id == 1
