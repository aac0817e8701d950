"""Recorded answers as other tools write them become the same questions."""

import csv
import json
import subprocess
import sys
import zipfile
from importlib import import_module

import pyarrow
import pyarrow.parquet
import pytest

from pets.errors import PoolError
from pets.pools import PooledQuestion, check_pool, from_frame, pools_of, read_pool, read_pools
from pets.pools.formats import pool_records
from pets.tabular import FileRow

TEXTS = ("It is 4.", "It is 5.", "So: 4")
LONG = [
    {"question_id": "a", "response": text, "prediction": text[-2:].strip(". "), "gold": 4, "tokens": len(text)}
    for text in TEXTS
] + [{"question_id": "b", "response": "I see 7", "prediction": "7", "gold": None, "tokens": 7}]
EXPECTED = (
    PooledQuestion("a", ("4", "5", "4"), "4", (8, 8, 5), texts=TEXTS),
    PooledQuestion("b", ("7",), None, (7,), texts=("I see 7",)),
)


def long_file(path):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(LONG), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in LONG))
    elif path.suffix == ".json":
        path.write_text(json.dumps(LONG))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, LONG[0], delimiter=";")
            writer.writeheader()
            writer.writerows(LONG)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".json"])
def test_one_trace_per_row_in_any_format(tmp_path, suffix):
    assert read_pool(long_file(tmp_path / f"long{suffix}")).questions == EXPECTED


def test_rows_may_come_in_any_order_where_they_are_numbered():
    rows = [{"id": "a", "answer": str(n), "number": n} for n in (2, 0, 1)]
    assert from_frame(rows).questions[0].answers == ("0", "1", "2")


def test_an_answer_beside_a_text_that_never_varies_is_gold():
    rows = [{"question": "2 + 2?", "answer": "4", "response": text} for text in TEXTS]
    assert from_frame(rows).questions == (PooledQuestion("2 + 2?", (None,) * 3, "4", texts=TEXTS),)
    rows[0]["answer"] = "5"
    assert from_frame(rows).questions[0].answers == ("5", "4", "4")


def test_columns_with_other_names_are_mapped(tmp_path):
    (tmp_path / "p.csv").write_text("nr|said|right\na|4|4\na|5|4\n")
    fields = {"id": "nr", "answers": "said", "gold": "right"}
    assert read_pool(tmp_path / "p.csv", fields=fields).questions == (PooledQuestion("a", ("4", "5"), "4"),)
    (tmp_path / "p.jsonl").write_text(json.dumps({"id": "a", "said": ["4", None], "right": "4"}) + "\n")
    fields = {"answers": "said", "gold": "right"}
    assert read_pool(tmp_path / "p.jsonl", fields=fields).questions == (PooledQuestion("a", ("4", None), "4"),)


def test_a_list_in_a_cell_is_a_list(tmp_path):
    (tmp_path / "p.csv").write_text('id,answers,gold\na,"[""4"", null]",4\n')
    assert read_pool(tmp_path / "p.csv").questions == (PooledQuestion("a", ("4", None), "4"),)


def test_a_row_without_a_question_is_told(tmp_path):
    (tmp_path / "p.csv").write_text("id,answer\na,4\n,5\n")
    assert check_pool(tmp_path / "p.csv") == [
        'pool "p.csv" line 3: "id" is missing: which question is this a trace of? --field id=NAME says where it stands.'
    ]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_is_a_pool(library):
    frame = import_module(library).DataFrame
    rows = [{"id": 7, "answer": "4", "confidence": 2.5}, {"id": 7, "answer": None, "confidence": None}]
    assert from_frame(frame(rows), "mine").questions == (PooledQuestion("7", ("4", None), confidence=(2.5, None)),)
    wide = from_frame(frame([{"id": "a", "answers": ["4", "5"], "gold": "4"}]))
    assert wide.questions == (PooledQuestion("a", ("4", "5"), "4"),)
    assert from_frame(frame(LONG)).questions == EXPECTED
    assert from_frame(pyarrow.Table.from_pylist(LONG)).questions == EXPECTED


def test_what_is_no_table_is_one_line():
    with pytest.raises(PoolError, match="a table has rows of named values"):
        from_frame([1, 2])
    with pytest.raises(PoolError, match=r'pool "frame" row 1: "answers" is missing'):
        from_frame([{"id": "a"}])
    with pytest.raises(PoolError, match="holds no question"):
        from_frame([])


def sample(doc, resps, filtered, name="strict-match"):
    return {
        "doc_id": doc,
        "doc": {"question": "2 + 2?", "answer": "so\n#### 4"},
        "target": "so\n#### 4",
        "arguments": {"gen_args_0": {"arg_0": "2 + 2?", "arg_1": {"until": []}}},
        "resps": resps,
        "filtered_resps": filtered,
        "filter": name,
        "exact_match": 1.0,
    }


def write_samples(folder, *samples):
    path = folder / "samples_gsm8k_2026-01-01T00-00-00.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in samples))
    return path


def test_lm_evals_repeats_are_traces_and_its_filters_count_once(tmp_path):
    path = write_samples(
        tmp_path,
        sample(0, [list(TEXTS)], ["4"]),
        sample(0, [list(TEXTS)], ["5"], "flexible-extract"),
        sample(1, [["It is 4."]], ["[invalid]"]),
        sample(2, [["It is 4.", "So: 4"]], [["4", "[invalid]"]]),
    )
    gold = "so\n#### 4"
    assert read_pool(path).questions == (
        PooledQuestion("0", (None,) * 3, gold, texts=TEXTS),
        PooledQuestion("1", (None,), gold, texts=("It is 4.",)),
        PooledQuestion("2", ("4", None), gold, texts=("It is 4.", "So: 4")),
    )


@pytest.mark.parametrize("finish", ["length", "max_tokens", "repetition", "content_filter"])
def test_a_trace_that_its_server_ended_is_cut_as_in_a_live_run(finish):
    rows = [{"id": "q", "text": "It is 4.", "finish": "stop"}, {"id": "q", "text": "It is 5, or", "finish": finish}]
    assert from_frame(rows).questions[0].cut == (False, True)


def test_lm_evals_log_likelihoods_are_no_answers(tmp_path):
    path = write_samples(tmp_path, sample(0, [[["-3.1", "False"]], [["-1.2", "True"]]], [["-3.1", "False"]]))
    assert "log-likelihoods" in check_pool(path)[0]


def test_a_document_of_lm_eval_whose_responses_are_all_copies_is_told_with_its_line(tmp_path):
    path = write_samples(
        tmp_path, sample(0, [["[pets: not sampled]\nIt is 4."]], ["4"]), sample(1, [["It is 4."]], ["4"])
    )
    (message,) = check_pool(path)
    assert message.endswith(
        "line 1: all of its responses are copies: none was sampled. Drop the line or sample it again."
    )


def test_a_record_of_another_layout_is_told_with_its_line(tmp_path):
    lost = {key: value for key, value in sample(1, [["It is 4."]], ["4"]).items() if key != "doc_id"}
    path = write_samples(tmp_path, sample(0, [["It is 4."]], ["4"]), lost)
    assert check_pool(path)[0].startswith(f'pool "{path.name}" line 2: its fields are not those of its tool')
    log = {"eval": {}, "samples": [{"id": 1, "target": "4", "output": {"completion": "4"}, "scores": [1]}]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    assert check_pool(tmp_path / "log.json")[0].startswith('pool "log.json" sample 1: its fields are not those of')


def test_questions_of_a_pool_are_handed_on_while_its_rows_are_read():
    rows = iter([FileRow("line 1", None, "bad"), *(FileRow(f"line {n}", {"answers": ["A"]}) for n in (2, 3, 4))])
    questions = iter(pool_records(rows))
    assert [next(questions).place, next(questions).place, next(rows).place] == ["line 1", "line 2", "line 3"]


def inspected(id, epoch, content, answer="4", stop="stop"):
    message = {"role": "assistant", "content": content}
    output = {
        "model": "m",
        "choices": [{"message": message, "stop_reason": stop}],
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }
    scores = {"match": {"value": "C", "answer": answer}}
    return {"id": id, "epoch": epoch, "input": "?", "target": ["4"], "output": output, "scores": scores}


SAMPLES = [
    inspected(1, 2, [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "It is 5."}], "5"),
    inspected(1, 1, "It is 4."),
    inspected("b", 1, "It is", "", "max_tokens"),
]
INSPECTED = (
    PooledQuestion("1", ("4", "5"), "4", (3, 3), texts=("It is 4.", "It is 5.")),
    PooledQuestion("b", (None,), "4", (3,), texts=("It is",), cut=(True,)),
)


def test_inspects_epochs_are_traces(tmp_path):
    log = {"version": 2, "status": "success", "eval": {"task": "sums", "model": "m"}, "samples": SAMPLES}
    (tmp_path / "log.json").write_text(json.dumps(log))
    assert read_pool(tmp_path / "log.json").questions == INSPECTED


def test_inspects_zip_is_read_within_bounds(tmp_path):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for one in SAMPLES:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
    assert read_pool(path).questions == INSPECTED and read_pool(path).name == "log"
    with pytest.raises(PoolError, match="unpacks to over 100 bytes"):
        read_pool(path, max_unpacked_bytes=100)
    path.write_bytes(b"nothing")
    assert check_pool(path) == ['pool "log.eval" is no inspect_ai log (File is not a zip file). Check the file.']
    assert "there is no file" in check_pool(tmp_path / "none.eval")[0]


@pytest.fixture(scope="module")
def log_of_today(tmp_path_factory):
    """A log that inspect_ai writes here and now, in a process of its own: importing it teaches zipfile zstd."""
    folder = tmp_path_factory.mktemp("inspect")
    subprocess.run([sys.executable, "-W", "ignore", "-c", EVALUATION, str(folder)], check=True, timeout=120)
    (log,) = folder.glob("*.eval")
    return log


EVALUATION = """
import sys
import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match

def answer(messages, tools, tool_choice, config):
    output = ModelOutput.from_content("mockllm/model", "So. " * 2000 + f"The answer is {messages[-1].text}.")
    output.usage = ModelUsage(input_tokens=9, output_tokens=20, total_tokens=29)  # else it loads a tokenizer to count
    return output

samples = [Sample(id=f"q{n}", input=str(n), target="1") for n in range(3)]
task = inspect_ai.Task(samples, scorer=match(numeric=True), epochs=4)
model = get_model("mockllm/model", custom_outputs=answer)
inspect_ai.eval(task, model=model, log_dir=sys.argv[1], log_format="eval", display="none")
"""


def test_inspects_log_of_today_is_read_though_python_cannot_unpack_it(log_of_today):
    with zipfile.ZipFile(log_of_today) as archive:
        assert {member.compress_type for member in archive.infolist()} == {93}
    pool = read_pool(log_of_today)
    assert [(question.id, question.gold) for question in pool.questions] == [("q0", "1"), ("q1", "1"), ("q2", "1")]
    assert [question.answers for question in pool.questions] == [("0",) * 4, ("1",) * 4, ("2",) * 4]
    assert all(text == "So. " * 2000 + "The answer is 2." for text in pool.questions[2].texts)
    with pytest.raises(PoolError, match="unpacks to over 20000 bytes"):
        read_pool(log_of_today, max_unpacked_bytes=20_000)


@pytest.mark.parametrize("at", [0, 40], ids=["no zstd", "damaged"])
def test_a_damaged_log_is_one_line(log_of_today, tmp_path, at):
    with zipfile.ZipFile(log_of_today) as archive:
        member = archive.getinfo("samples/q1_epoch_1.json")
    raw = bytearray(log_of_today.read_bytes())
    start = member.header_offset + 30 + len(member.filename) + at
    raw[start : start + 8] = bytes(8)
    (tmp_path / "log.eval").write_bytes(raw)
    (message,) = check_pool(tmp_path / "log.eval")
    assert message.startswith('pool "log.eval" is no inspect_ai log (')


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python unpacks it")
def test_what_unpacks_zstd_is_named_where_it_is_missing(log_of_today, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (message,) = check_pool(log_of_today)
    assert message.endswith("is packed with zstd, which Python reads since 3.14. Install it: pip install zstandard.")


def generated(id, text, predicted, seed):
    """A row as NeMo-Skills writes it: generate.py's postprocess_single_output, then its math evaluator."""
    return {
        "generation": text,
        "num_generated_tokens": len(text),
        "num_input_tokens": 40,
        "finish_reason": "length" if predicted is None else "stop",
        "tokens": ["It", " is"],  # the tokens themselves, where log-probabilities were asked for
        "id": id,
        "problem": "2 + 2?",
        "reference_solution": "See.",
        "expected_answer": 4,
        "predicted_answer": predicted,
        "symbolic_correct": predicted == "4",
        "generation_time": 0.5 + seed,
    }


@pytest.fixture
def seeds(tmp_path):
    """A folder of NeMo-Skills: eleven seeds, and what it leaves beside them."""
    folder = tmp_path / "sums"
    folder.mkdir()
    for seed in range(11):
        rows = [generated("a", f"It is {seed}.", str(seed), seed), generated("b", "It is", None, seed)]
        (folder / f"output-rs{seed}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / f"output-rs{seed}.jsonl.done").touch()
    (folder / "output-rs0_chunk_1.jsonl").write_text("{}\n")
    (folder / "metrics.json").write_text('{"sums": {"majority@11": {"symbolic_correct": 50.0}}}')
    return folder


def test_nemo_skills_files_of_a_folder_are_one_pool_with_a_trace_from_each(seeds):
    (pool,) = read_pools([seeds])
    texts = tuple(f"It is {seed}." for seed in range(11))
    assert pool.name == "sums" and pool.questions == (
        PooledQuestion("a", tuple(map(str, range(11))), "4", tuple(map(len, texts)), texts=texts),
        PooledQuestion("b", (None,) * 11, "4", (5,) * 11, texts=("It is",) * 11, cut=(True,) * 11),
    )
    files = [seeds / f"output-rs{seed}.jsonl" for seed in range(11)]
    assert read_pools(files) == [pool] == pools_of(list(map(str, files)))
    assert len(read_pool(files[3]).questions[0].answers) == 1
    with pytest.raises(PoolError, match=r"2 of 11 .* are named; all of a folder are one pool"):
        read_pools(files[2:4])


def test_a_bad_line_of_nemo_skills_is_told_with_its_file(seeds):
    (seeds / "output-rs4.jsonl").write_text('{"generation": "It is 4."}\n')
    assert check_pool(seeds)[0].startswith('pool "sums" output-rs4.jsonl line 1: "id" is missing')


def test_messages_are_texts_as_in_its_hubs_results():
    responses = [{"role": "assistant", "content": text} for text in TEXTS]
    parts = {"role": "assistant", "content": [{"type": "text", "text": "So: 4"}]}
    pool = from_frame([{"id": "a", "gold": "4", "responses": [*responses, parts]}])
    assert pool.questions == (PooledQuestion("a", (None,) * 4, "4", texts=(*TEXTS, "So: 4")),)


@pytest.mark.parametrize("winner", ["It is 4.", {"role": "assistant", "content": "It is 4."}])
def test_its_hubs_benchmark_keeps_no_traces(winner):
    rows = [{"unique_id": "a", "budget": budget, "response": winner, "correct": True} for budget in (1, 2, 4)]
    with pytest.raises(PoolError, match="the winner of each vote and not its traces"):
        from_frame(rows)
