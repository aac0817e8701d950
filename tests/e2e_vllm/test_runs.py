"""`pets solve`, `pets sample` and `pets stream` over a real vLLM, from the shell."""

import json

import pytest

from ..waiting import wait_until

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

SHORT = ["--max-tokens", 24, "--temperature", 0.7]


@pytest.fixture
def sums(tmp_path):
    """Sums as questions of a chat."""
    path = tmp_path / "sums.jsonl"
    rows = [{"id": f"{a}+{a}", "question": f"What is {a} + {a}?", "answer_type": "number"} for a in (2, 3, 4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def traces_of(pets, store):
    return pets("runs", "export", "last", "--what", "traces", "--store", store)


def test_solve_gives_every_trace_its_confidence_and_spends_the_budget_exactly(vllm, pets, tmp_path):
    store = tmp_path / "runs.db"
    words = ["solve", "starter", "--first", 20, "--policy", "uniform", "--budget", "3x", "--confidence", "tail"]
    words += ["--store", store]
    with vllm.counting() as work:
        rows = pets(*words, *vllm.source)
    assert len(rows) == 20 and sum(row["traces"] for row in rows) == 60
    assert all(0.0 < row["certificate"] <= 1.0 for row in rows if row["answer"] is not None)
    assert sum(row["answer"] is not None for row in rows) >= 18 and not any(row["failed"] for row in rows)
    traces = traces_of(pets, store)
    assert len({(trace["question"], trace["number"]) for trace in traces}) == len(traces) == 60
    assert all(0.0 < trace["confidences"]["tail"] < 50.0 for trace in traces)
    assert {trace["finish"] for trace in traces} <= {"stop", "length"}
    assert sum(row["tokens"] for row in rows) == sum(trace["tokens"] for trace in traces) == work["tokens"]
    # A request pays for its prompt once, vLLM counts it for each of its traces.
    assert 0 < sum(row["prompt_tokens"] for row in rows) <= work["prompt_tokens"]


def test_a_chat_without_log_probabilities_counts_the_tokens_of_every_trace(vllm, pets, sums, tmp_path):
    store = tmp_path / "runs.db"
    words = ["solve", sums, "--policy", "uniform", "--budget", "4x", "--keep-going", "--store", store, *SHORT]
    with vllm.counting() as work:
        rows = pets(*words, *vllm.source)
    traces = traces_of(pets, store)
    assert [row["traces"] for row in rows] == [4, 4, 4]
    assert work["requests"] < len(traces) == 12  # several traces in one request, whose usage is their sum
    assert all(0 < trace["tokens"] <= 24 and trace["confidences"] is None for trace in traces)
    assert sum(trace["tokens"] for trace in traces) == work["tokens"]


def test_what_a_race_cancels_is_stopped_and_charged_for_what_was_generated(vllm, pets, tmp_path):
    words = ["solve", "starter", "--first", 12, "--budget", "8x", "--hurry", 1, "--max-tokens", 200]
    with vllm.counting() as work:
        rows = pets(*words, "--store", tmp_path / "runs.db", *vllm.source)
    traces = traces_of(pets, tmp_path / "runs.db")
    cancelled = [trace for trace in traces if trace["finish"] == "cancelled"]
    assert cancelled and sum(row["cancelled"] for row in rows) == len(cancelled)
    assert work["tokens"] <= sum(trace["tokens"] for trace in traces)
    # What was not seen before the server closed the connection is all that may differ.
    assert sum(trace["tokens"] for trace in traces) <= work["tokens"] + 10 * len(cancelled)


def test_the_same_seed_gives_the_same_traces(vllm, pets, sums, tmp_path):
    def texts(seed, name):
        store = tmp_path / name
        # One at a time: what else a server decodes with it moves the last digits of a trace's probabilities.
        words = ["solve", sums, "--policy", "uniform", "--budget", "2x", "--concurrency", 1, "--keep-going", *SHORT]
        pets(*words, "--store", store, "--seed", seed, *vllm.source)
        return {(trace["question"], trace["number"]): trace["text"] for trace in traces_of(pets, store)}

    first = texts(1, "first.db")
    assert texts(1, "again.db") == first
    assert texts(2, "other.db") != first
    assert len(set(first.values())) > 3  # and no two traces share one


def test_sample_records_a_pool_and_asks_nothing_twice(vllm, pets, tmp_path):
    pool = tmp_path / "pool.jsonl"
    words = ["sample", "starter", "-o", pool, "--traces", 6, "--first", 3, *vllm.source]
    with vllm.counting() as work:
        pets(*words)
    rows = [json.loads(line) for line in pool.read_text().splitlines()]
    questions = [row for row in rows if "answers" in row]
    assert len(questions) == 3 and all(len(row["answers"]) == 6 for row in questions)
    assert work["requests"] < 18 and work["tokens"] > 0
    with vllm.counting() as again:
        pets(*words)
    assert not any(again.values())


def test_stream_answers_within_its_budget(vllm, pets, sums, tmp_path):
    store = tmp_path / "stream.db"
    words = ["stream", sums, "--budget", "6x", "--confidence", "tail", "--store", store, *SHORT]
    with vllm.counting() as work:
        rows = pets(*words, *vllm.source)
    assert {row["id"] for row in rows} == {"2+2", "3+3", "4+4"} and not any("error" in row for row in rows)
    assert 6 <= sum(row["traces"] for row in rows) <= 18 and not any(row["failed"] for row in rows)
    assert all(0.0 <= row["certificate"] <= 1.0 for row in rows)
    assert sum(row["tokens"] for row in rows) >= work["tokens"]
    whole = [trace for trace in traces_of(pets, store) if trace["finish"] != "cancelled"]
    assert len(whole) >= 6 and all(trace["confidences"] is not None for trace in whole)


def test_a_run_that_is_killed_leaves_vllm_nothing_to_do(vllm, start, tmp_path):
    path = tmp_path / "story.jsonl"
    path.write_text(json.dumps({"id": "story", "question": "Tell a very long story.", "answer_type": "text"}) + "\n")
    with vllm.counting() as work:
        process = start("solve", path, "--policy", "uniform", "--budget", 8, "--max-tokens", 1900, *vllm.source)
        wait_until(lambda: vllm.load["running"] or process.poll() is not None)
        assert process.poll() is None
        process.kill()
    assert work["tokens"] < 8 * 100  # none was finished: they were stopped
