"""Every format and the paper's own records are read; a mistake is one clear line with its place."""

import codecs
import gzip
import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.errors import InputError, PetsError, PoolError
from pets.pools import (
    Pool,
    PooledQuestion,
    check_pool,
    load,
    pool_files,
    pools_of,
    read_pool,
    read_pools,
    summarize,
    write_pool,
)

from .conftest import FORMATS, GOOD, lines


def test_numbers_become_strings_and_blank_lines_and_other_keys_do_not_matter(tmp_path):
    record = {"id": 7, "gold": 73, "answers": [73, 0.5, None], "tokens": None, "confidence": [1, 2.5, None], "more": {}}
    path = lines(tmp_path, codecs.BOM_UTF8 + json.dumps(record).encode() + b"\r", "", GOOD)
    first, second = read_pool(path).questions
    assert first == PooledQuestion("7", ("73", "0.5", None), "73", None, (1.0, 2.5, None))
    assert second == PooledQuestion("ok", ("A", None), "A")


def test_a_gold_of_null_is_fine(tmp_path):
    assert read_pool(lines(tmp_path, {**GOOD, "gold": None})).questions[0].gold is None


@pytest.mark.parametrize("content", [[GOOD], GOOD, {"ok": {"gold": "A", "answers": ["A", None]}}])
def test_json_holds_a_list_a_question_or_questions_by_id(tmp_path, content):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(content, indent=1))
    assert read_pool(path).questions == (PooledQuestion("ok", ("A", None), "A"),)


def test_json_may_hold_lines_too(tmp_path):
    path = lines(tmp_path, GOOD, {**GOOD, "id": 2}, "{oops", name="p.json")
    assert [question.id for question in read_pool(path, skip_bad=True).questions] == ["ok", "2"]
    assert check_pool(path)[0].startswith('pool "p.json" line 3: this is not JSON (Expecting property name')


def test_the_manifest_names_the_kind(tmp_path):
    path = lines(tmp_path, GOOD, name="gpqa.m-1.5.jsonl")
    manifest = tmp_path / "MANIFEST.json"
    assert read_pool(path).kind is None
    manifest.write_text('[{"pool": "gpqa", "kind": "text"}, {"pool": "gpqa.m-1.5", "kind": "choice"}]')
    assert (read_pool(path).name, read_pool(path).kind) == ("gpqa.m-1.5", "choice")
    for other in ('{"name": "an app"}', '[1, {"pool": "gpqa.m-1.5"}]'):
        manifest.write_text(other)
        assert read_pool(path).kind is None
    manifest.write_text("[")
    with pytest.raises(PoolError, match=r"manifest .* this is not JSON"):
        read_pool(path)


def test_a_folder_is_every_pool_in_it_sorted(tmp_path):
    for name in ("b.jsonl", "a.json", ".hidden.jsonl", "MANIFEST.json", "README.md"):
        lines(tmp_path, GOOD if name != "MANIFEST.json" else "[]", name=name)
    assert [pool.name for pool in read_pools([tmp_path, tmp_path / "b.jsonl"])] == ["a", "b", "b"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(PoolError, match=r"holds no pool; pools end in \.jsonl\.gz"):
        pool_files([tmp_path / "empty"])


SUMMARY = {"mean_confidence": 1.5, "tail_2048_mean_conf": 2.5, "bottom_0.1_sliding_2048_mean_conf": 0.5}


@pytest.mark.parametrize("gold", [{"answer": 42}, {"correct_answer": "42"}, {"answer": "7", "correct_answer": 42}])
@pytest.mark.parametrize("nest", [lambda entry: entry, lambda entry: {"sample_idx": 0, "conf_summary": entry}])
@pytest.mark.parametrize(("metric", "value"), [("mean", 1.5), ("tail", 2.5), ("bottom", 0.5)])
@pytest.mark.parametrize("name", ["aime.jsonl", "aime.json"])
def test_the_papers_record_is_recognized(tmp_path, gold, nest, metric, value, name):
    entries = [nest(SUMMARY), nest({}), nest(None), None]
    record = {"id": 3, "problem": "...", **gold, "answers": ["42", "", "41", 42], "trace_confidence": entries}
    (question,) = read_pool(lines(tmp_path, record, name=name), confidence=metric).questions
    assert question == PooledQuestion("3", ("42", None, "41", "42"), "42", None, (value, None, None, None))


def test_the_papers_record_without_confidence_or_gold(tmp_path):
    (question,) = read_pool(lines(tmp_path, {"id": "a", "answer": None, "answers": ["1"]})).questions
    assert question == PooledQuestion("a", ("1",))


def test_an_unknown_metric_is_told(tmp_path):
    with pytest.raises(InputError, match="confidence is 'best'; expected one of 'mean', 'tail', 'lowest', 'bottom'"):
        read_pool(lines(tmp_path, GOOD), confidence="best")


PAPER = {"id": "a", "answer": "1", "answers": ["1", "2"]}

BAD = [
    ('{"id": 1,', "this is not JSON (Expecting property name enclosed in double quotes at column 10). Repair the line"),
    ("[" * 100_000, "this JSON cannot be read ("),
    (b'{"id": "\xff"}', "byte 9 is not UTF-8. Save the file as UTF-8."),
    ([1, 2], "found [1, 2]; a question is an object with id, gold and answers. Repair the line or drop it."),
    ({**GOOD, "id": ""}, '"id" is an empty string. Fill it in or drop the line.'),
    ({**GOOD, "id": [1]}, '"id" is [1]; expected a string, a number or null.'),
    (GOOD, '"id" is "ok", as on line 1; ids are unique. Rename one or drop the line.'),
    ({**GOOD, "id": 1, "gold": ""}, '"gold" is an empty string. Fill it in or drop the line.'),
    ({**GOOD, "id": 1, "gold": True}, '"gold" is true; expected a string, a number or null.'),
    ({"id": 1, "gold": "A"}, '"answers" is missing; it is a list with one answer per trace, null for a trace without'),
    (
        {**GOOD, "id": 1, "answers": []},
        '"answers" is empty; every question needs at least one trace. Drop the line or sample it again.',
    ),
    (
        {**GOOD, "id": 1, "answers": "AB"},
        '"answers" is "AB"; expected a list with one entry per trace. Repair the line',
    ),
    ({**GOOD, "id": 1, "answers": ["A", {}]}, "answers[1] is {}; expected a string, a number or null."),
    ({**GOOD, "id": 1, "answers": ["A", False]}, "answers[1] is false; expected"),
    ('{"id": 1, "gold": null, "answers": [NaN]}', "answers[0] is NaN; expected"),
    ({**GOOD, "id": 1, "answers": ["A", ""]}, "answers[1] is an empty string; a trace without an answer is null. Writ"),
    ({**GOOD, "id": 1, "answers": ["", ""]}, "answers[0] is an empty string"),
    (
        {**GOOD, "id": 1, "answers": [None] * 3},
        "all 3 traces failed (every answer is null); no vote exists to agree with. Drop the line or sample it again.",
    ),
    ({**GOOD, "id": 1, "tokens": [1]}, '"tokens" has 1 entries for 2 answers; give one per trace. Correct it or leave'),
    ({**GOOD, "id": 1, "tokens": 5}, '"tokens" is 5; expected a list with one entry per trace.'),
    ({**GOOD, "id": 1, "tokens": [1, -2]}, "tokens[1] is -2; tokens are whole numbers, 0 or more. Correct it."),
    ({**GOOD, "id": 1, "tokens": [1.0, 2]}, "tokens[0] is 1.0; tokens are whole"),
    ({**GOOD, "id": 1, "tokens": [True, 2]}, "tokens[0] is true; tokens are whole"),
    ({**GOOD, "id": 1, "tokens": [1, None]}, "tokens[1] is null; tokens are whole"),
    ({**GOOD, "id": 1, "tokens": [1, 2**63]}, "tokens[1] is 9223372036854775808; tokens are whole"),
    ({**GOOD, "id": 1, "confidence": [1.0]}, '"confidence" has 1 entries for 2 answers; give one per trace.'),
    ({**GOOD, "id": 1, "confidence": [1, -0.5]}, "confidence[1] is -0.5; a confidence is finite and not negative, nul"),
    ({**GOOD, "id": 1, "confidence": [1, float("nan")]}, "confidence[1] is NaN; a confidence is finite"),
    ({**GOOD, "id": 1, "confidence": [1, float("inf")]}, "confidence[1] is Infinity; a confidence is finite"),
    ({**GOOD, "id": 1, "confidence": [1, 10**400]}, "confidence[1] is 1000000000000000000000000000000000000..."),
    ({**GOOD, "id": 1, "confidence": [1, "9"]}, 'confidence[1] is "9"; a confidence is finite'),
    ({**PAPER, "trace_confidence": [0.5, 1]}, "trace_confidence[0] is 0.5; expected an object with tail_2048_mean_co"),
    ({**PAPER, "trace_confidence": {}}, '"trace_confidence" is {}; expected a list with one entry per trace.'),
    ({**PAPER, "trace_confidence": [SUMMARY]}, '"confidence" has 1 entries for 2 answers'),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_line_is_named_and_can_be_skipped(tmp_path, bad, message):
    path = lines(tmp_path, GOOD, "", bad, {**GOOD, "id": "last"}, name="gpqa.jsonl")
    with pytest.raises(PoolError) as error:
        read_pool(path)
    assert str(error.value).startswith(f'pool "gpqa.jsonl" line 3: {message}')
    assert "\n" not in str(error.value) and len(str(error.value)) < 200
    pool = read_pool(path, skip_bad=True)
    assert [question.id for question in pool.questions] == ["ok", "last"]
    assert pool.skipped == (str(error.value),) == tuple(check_pool(path))


def test_bad_json_on_line_12(tmp_path):
    records = [{**GOOD, "id": number} for number in range(11)]
    with pytest.raises(PoolError, match=r'^pool "gpqa.jsonl.gz" line 12: this is not JSON'):
        path = lines(tmp_path, *records, "{", name="gpqa.jsonl")
        packed = tmp_path / "gpqa.jsonl.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        read_pool(packed)


def test_an_entry_or_a_row_is_named_where_there_are_no_lines(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [GOOD, {**GOOD, "id": "bad", "answers": []}]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "p.parquet")
    (tmp_path / "p.json").write_text(json.dumps(rows))
    assert check_pool(tmp_path / "p.parquet")[0].startswith('pool "p.parquet" row 2: "answers" is empty')
    assert check_pool(tmp_path / "p.json")[0].startswith('pool "p.json" entry 2: "answers" is empty')


CUT = gzip.compress(b"{}" * 99, mtime=0)[:-9]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", b"", 'pool "p.jsonl": the file holds no question; a pool has at least one. Record it again.'),
        ("p.jsonl", b"\n\n", 'pool "p.jsonl": the file holds no question'),
        ("p.json", b"[]", 'pool "p.json": the file holds no question'),
        ("p.json", b"3", 'pool "p.json": it holds 3, and no list of records.'),
        ("p.json", b"[\n{},\n", 'pool "p.json": this is not JSON (Expecting value at line 3 column 1)'),
        ("p.jsonl.gz", b"plain", 'pool "p.jsonl.gz" cannot be read (Not a gzipped file'),
        ("p.jsonl.gz", CUT, 'pool "p.jsonl.gz" cannot be read (Compressed file ended'),
        ("p.parquet", b"plain", 'pool "p.parquet": this is not Parquet ('),
        (
            "p.xml",
            b"<a/>",
            'pool "p.xml": its format is unknown; pools end in .jsonl.gz, .jsonl, .json, .parquet, .csv',
        ),
        ("none.jsonl", None, 'pool "none.jsonl": there is no file "'),
        ("none.parquet", None, 'pool "none.parquet": there is no file "'),
    ],
)
def test_a_bad_file_is_one_clear_line_skipped_or_not(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    for skip_bad in (False, True):
        with pytest.raises(PoolError) as error:
            read_pool(path, skip_bad=skip_bad)
        assert str(error.value).startswith(message)
    assert check_pool(path) == [str(error.value)]


def test_a_folder_is_no_pool_and_only_bad_lines_are_none(tmp_path):
    with pytest.raises(PoolError, match="is a folder; name a file in it"):
        read_pool(tmp_path)
    with pytest.raises(PoolError, match=r"line 1: this is not JSON .* No other line is good either \(2 are bad\)"):
        read_pool(lines(tmp_path, "{", "}"), skip_bad=True)


@pytest.mark.parametrize("suffix", FORMATS)
@given(
    content=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["id", "gold", "answers", "answer", "tokens", "confidence", "x"]), inner)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode())
)
def test_whatever_a_file_holds_only_pets_errors_come_out(tmp_path_factory, suffix, content):
    path = tmp_path_factory.mktemp("pools") / f"p{suffix}"
    path.write_bytes(gzip.compress(content) if suffix == ".jsonl.gz" else content)
    try:
        assert read_pool(path).questions
    except PetsError as error:
        assert check_pool(path)[0].startswith(str(error))


@pytest.fixture
def recorded():
    folder = Path(os.environ.get("PETS_POOLS") or "no folder named")
    if not folder.is_dir():
        pytest.skip(f"no recorded pools ({folder}). Set PETS_POOLS to their folder.")
    return folder


def test_the_recorded_pools_are_read_whole(recorded, tmp_path):
    pools = read_pools([recorded], skip_bad=True)
    assert pools
    for pool in pools:
        assert all(message.startswith(f'pool "{pool.name}.') for message in pool.skipped)
        assert 0.0 < summarize(pool).leader_share <= 1.0
        write_pool(pool, tmp_path / "again.jsonl.gz")
        assert read_pool(tmp_path / "again.jsonl.gz").questions == pool.questions


@pytest.mark.parametrize(("name", "failed"), [("date.code-davinci-002", 14), ("exams100.gpt-4", 1)])
def test_a_recorded_question_without_any_answer_raises_or_is_counted(recorded, name, failed):
    path = recorded / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"recorded pools not found: {path}")
    with pytest.raises(PoolError, match=rf'^pool "{name}.jsonl" line \d+: all \d+ traces failed'):
        read_pool(path)
    assert len(read_pool(path, skip_bad=True).skipped) == failed


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ('{"tail": [1.0]}', '"confidences.tail" has 1 entries for 2 answers'),
        ('{"tail": [1.0, -1.0]}', "confidences.tail[1] is -1.0"),
        ("[1.0, 2.0]", '"confidences" is [1.0, 2.0]; expected an object'),
        ('{"tail": 3}', '"tail" is 3; expected a list'),
    ],
)
def test_bad_kinds_are_named(tmp_path, kinds, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"id": "q1", "gold": null, "answers": ["A", "B"], "confidences": {kinds}}}\n')
    with pytest.raises(PoolError) as error:
        read_pool(path)
    assert message in str(error.value)


def test_the_papers_records_have_no_lowest_group(tmp_path):
    path = tmp_path / "paper.jsonl"
    path.write_text('{"id": "q", "answer": "A", "answers": ["A"], "trace_confidence": [{"mean_confidence": 1.0}]}\n')
    with pytest.raises(PoolError, match="hold no lowest confidence"):
        read_pool(path, confidence="lowest")


def test_a_pool_that_ships_is_loaded_by_name_and_another_is_not():
    assert (
        load("starter", confidence="mean").questions[0].confidence == load("starter").questions[0].confidences["mean"]
    )
    assert pool_files(["starter"])[0].name == "starter.jsonl.gz"
    with pytest.raises(PoolError, match=r"no pool called 'aime' comes with pets\. Shipped: starter"):
        load("aime")


def test_a_compressed_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": "q", "gold": "A", "answers": ["A"]}\n' + b" " * (80 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(PoolError, match=r'^pool "bomb.jsonl.gz" cannot be read \(it unpacks to over 67108864'):
            read_pool(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * (64 << 20)
    finally:
        tracemalloc.stop()
    assert check_pool(path)[0].startswith('pool "bomb.jsonl.gz" cannot be read (it unpacks to over')


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".parquet"])
def test_how_much_a_file_may_unpack_to_can_be_said(tmp_path, suffix):
    pool = Pool("p", tuple(PooledQuestion(f"q{i}", ("A",) * 50, "A") for i in range(50)))
    path = tmp_path / f"p{suffix}"
    write_pool(pool, path)
    assert len(read_pool(path).questions) == 50
    with pytest.raises(PoolError, match="unpacks to over 100 bytes"):
        read_pool(path, max_unpacked_bytes=100)


def test_pools_are_taken_as_users_have_them(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "q1", "answers": ["4"]}\n')
    (tmp_path / "b.jsonl").write_text('{"id": "q1", "answers": ["5"]}\n')
    record = {"id": "q1", "answers": ["6"]}
    assert [pool.name for pool in pools_of(tmp_path)] == ["a", "b"]
    assert [pool.name for pool in pools_of([tmp_path / "b.jsonl", [record]])] == ["b", "pool"]
    assert pools_of(pools_of([record])[0])[0].questions[0].answers == ("6",)
    for wrong in (None, 5, [], [5], {"id": "q1"}):
        with pytest.raises(InputError, match="is no pool; expected a file, a folder, a Pool, a table"):
            pools_of(wrong)
