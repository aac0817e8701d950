"""A run as files: what is read back is what was sampled."""

import gzip
import json

import pyarrow.parquet
import pytest

from pets.confidence import Confidence
from pets.pools import Pool, read_pool, write_pool
from pets.questions import Problem
from pets.registry import make_answer_type
from pets.samplers import Prompt
from pets.store import StoredTrace
from pets.store.export import pooled_question, pooled_questions, trace_records
from pets.tabular import write_rows


def type_of(problem):
    return make_answer_type(problem.answer_type)


SURE = Confidence(mean=2.0, tail=3.25, lowest=1.0, bottom=1.5, tokens=7)
TRACES = [
    StoredTrace("q0", 1, "4", "It is 4.", "stop", SURE, tokens=5, prompt_tokens=20, endpoint=1, seconds=0.5),
    StoredTrace("q0", 0, "5", "naïve ☃ 5", "stop", tokens=7, prompt_tokens=20),
    StoredTrace("q1", 0, error="gave up", tries=6),
    StoredTrace("q2", 0, "x", "half a pair: \ud83d", "length", tokens=3, prompt_tokens=9),
]


@pytest.fixture
def done(run):
    run.write([trace.launch for trace in TRACES], TRACES)
    return run


def test_a_pool_has_the_answers_in_launch_order(done, tmp_path):
    write_pool(Pool("p", tuple(pooled_questions(done, type_of))), tmp_path / "run.jsonl")
    first, second = read_pool(tmp_path / "run.jsonl", confidence="lowest").questions
    assert (first.id, first.answers, first.gold, first.tokens) == ("q0", ("5", "4"), "4", (7, 5))
    assert first.confidence == (None, 1.0) and first.confidences["tail"] == (None, 3.25)
    assert (second.id, second.gold, second.confidence) == ("q2", None, None)  # q1 got no vote: nothing to replay


@pytest.mark.parametrize(
    ("answer_type", "gold", "answers", "pooled", "pooled_gold"),
    [
        ("number", "48 + 24 = <<48+24=72>>72\n#### 72", ("71", "72"), ("71", "72"), "72"),
        ("choice", "b", ("B", None, "A"), ("B", None, "A"), "B"),
        ("math", "x^2+2x", ("x(x+2)", "5", "2x+x^2"), ("x(x+2)", "5", "x(x+2)"), "x(x+2)"),
        ("number", "see below", ("1",), ("1",), None),
    ],
)
def test_an_answer_and_gold_that_are_one_are_one_string(answer_type, gold, answers, pooled, pooled_gold):
    kind = make_answer_type(answer_type)
    forms = [None if answer is None else kind.canonical(answer) for answer in answers]
    traces = [StoredTrace("q", number, form) for number, form in enumerate(forms)]
    question = pooled_question(Problem("q", Prompt("?"), answer_type, gold), kind, traces)
    assert (question.answers, question.gold) == (pooled, pooled_gold)


def test_traces_are_whole_as_lines_and_as_parquet(done, tmp_path):
    for name in ("t.jsonl", "t.jsonl.gz", "t.parquet"):
        assert write_rows(trace_records(done), tmp_path / name) == 4
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_bytes().splitlines()]
    assert gzip.decompress((tmp_path / "t.jsonl.gz").read_bytes()) == (tmp_path / "t.jsonl").read_bytes()
    table = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
    nested = [row["confidences"] and json.loads(row["confidences"]) for row in table]
    assert [row | {"confidences": value} for row, value in zip(table, nested, strict=True)] == lines
    assert [(line["question"], line["number"], line["answer"]) for line in lines] == [
        ("q0", 0, "5"),
        ("q0", 1, "4"),
        ("q1", 0, None),
        ("q2", 0, "x"),
    ]
    assert lines[0]["text"] == "naïve ☃ 5" and lines[3]["text"] == "half a pair: ?"
    assert lines[1]["confidences"] == {"mean": 2.0, "tail": 3.25, "lowest": 1.0, "bottom": 1.5}
    assert lines[2]["error"] == "gave up" and lines[2]["tries"] == 6
