"""The store as a cache: which traces are found again, and in which order."""

import itertools
import random

import pytest

from pets.errors import StateError
from pets.prompts import Sampling
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, RunRecord, Store, StoredTrace
from pets.store.cache import CachedCounts, TraceCache, trace_keys
from pets.store.store import open_database

SOURCE = "m at http://one/v1"
PROBLEMS = [Problem(id, Prompt.question(f"What is {id}?"), "number") for id in "ab"]
KEYS = trace_keys(PROBLEMS, Sampling(), None, 0)


def put(location, traces, source=SOURCE, spec=None):
    """A run with those traces of question a."""
    with Store.open(location) as store:
        record = RunRecord(10, spec=spec or {}, sources=(source,), seeds_by="prompt")
        with store.create(record, PROBLEMS, keys=KEYS) as run:
            launches = [Launch("a", trace.number) for trace in traces]
            run.write(launches, traces)


def cache(location, *, limit=100, any_server=False, run=None):
    database = open_database(location, create=False)
    return TraceCache(database, PROBLEMS, KEYS, (SOURCE,), limit, any_server=any_server, run=run)


def found(location, **options):
    """The numbers and texts of question a that the cache has."""
    opened = cache(location, **options)
    traces = [opened.find("a", number, [0]) for number in range(6)]
    assert opened.find("b", 0, [0]) is None and opened.find("a", 0, []) is None
    opened.close()
    assert opened.held.traces == sum(trace is not None for trace in traces)
    return {hit.number: (hit.text, hit.reused_from) for hit in traces if hit is not None}


def trace(number, text="x", **fields):
    return StoredTrace("a", number, "7", text, "stop", tokens=3, **fields)


def test_the_latest_run_counts_and_earlier_ones_fill_what_it_lacks(location):
    put(location, [trace(0, "old"), trace(1, "old"), trace(2, "old")])
    put(location, [trace(0, "new"), trace(1, "copy", reused_from=1)])
    assert found(location) == {0: ("new", 2), 1: ("copy", 1), 2: ("old", 1)}
    assert found(location, run=2) == dict.fromkeys(range(3), ("old", 1))


def test_what_failed_or_is_too_long_or_of_others_is_not_there(location):
    put(location, [trace(0), trace(1, error="gone"), trace(2)])
    put(location, [trace(3)], source="m at http://two/v1")
    put(location, [trace(4)], source="")
    assert found(location) == {0: ("x", 1), 2: ("x", 1)}
    assert not found(location, limit=2)
    assert set(found(location, any_server=True)) == {0, 2, 3}


def test_tokens_of_tries_that_came_to_nothing_make_no_trace_too_long(location):
    put(location, [trace(0), trace(1, wasted=1)])
    assert set(found(location, limit=2)) == {1}
    assert set(found(location, limit=1)) == {1}  # a try may have cost more than the limit: its prompt as well


def test_behind_a_launch_that_was_cancelled_nothing_is_reused(location):
    put(location, [trace(0), StoredTrace("a", 1, finish="cancelled"), trace(2)])
    assert set(found(location)) == {0}
    put(location, [trace(0), trace(1), trace(2)])
    assert set(found(location)) == {0, 1, 2}


def test_texts_that_were_not_kept_or_were_deleted_are_not_read_again(location):
    put(location, [trace(0)], spec={"keeping": {"keep_texts": False}})
    put(location, [trace(1)])
    with Store.open(location) as store:
        store.delete(2, texts=True)
    opened = cache(location)
    assert (opened.held.traces, opened.held.without_texts, opened.find("a", 0, [0])) == (0, 1, None)
    opened.close()


@pytest.mark.parametrize("change", [{"system": "s"}, {"seed": 1}, {"sampling": Sampling(top_logprobs=5)}])
def test_a_key_is_of_all_that_a_model_is_asked(change):
    asked = {"sampling": Sampling(), "system": None, "seed": 0} | change
    assert not set(trace_keys(PROBLEMS, **asked).values()) & set(KEYS.values())


def test_an_instruction_and_a_place_are_no_part_of_a_key():
    instructed = [Problem(p.id, p.prompt.instructed("Be brief."), "text", "gold") for p in reversed(PROBLEMS)]
    assert trace_keys(instructed, Sampling(), None, 0) == KEYS


def test_what_is_to_pay_at_most_is_the_dearest_way_to_spend_the_budget():
    rng = random.Random(0)
    for _ in range(300):
        held = [rng.randint(1, 4) for _ in range(rng.randint(0, 3))]
        questions, cap, once = len(held) + rng.randint(0, 2), rng.choice([3, 5]), rng.random() < 0.5
        if not questions:
            continue
        budget = rng.randint(questions, cap * questions)
        stock = [0] * (questions - len(held)) + held
        ways = itertools.product(*(range(1 if once or not traces else 0, cap + 1) for traces in stock))
        dearest = max(
            sum(max(0, n - traces) for n, traces in zip(way, stock, strict=True)) for way in ways if sum(way) <= budget
        )
        bound = CachedCounts(held).most_to_pay(budget, questions, cap, len(held) if once else 0)
        assert dearest <= bound <= dearest + (0 if once else len(held))


def test_a_launch_that_failed_before_others_is_to_be_paid(location):
    put(location, [trace(0, error="gone"), trace(1), trace(2)])
    opened = cache(location)
    assert (opened.held.by_question, opened.held.gaps) == ([2], 1)
    assert opened.held.most_to_pay(2, 2, cap=1, asked_once=1) == 2  # the first trace of either question
    opened.close()


def test_a_damaged_run_is_told_and_the_connection_closed(location):
    put(location, [trace(0)])
    database = open_database(location, create=False)
    with database.transaction() as transaction:
        transaction.execute("UPDATE runs SET settings = '{}'")
    with pytest.raises(StateError, match="settings of a run are damaged"):
        TraceCache(database, PROBLEMS, KEYS, (SOURCE,), 100)
    with pytest.raises(StateError, match="closed"):
        database.one("SELECT 1")
