"""What is written is read back equal, or nothing is written at all."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.errors import InputError, PoolError
from pets.pools import Pool, PooledQuestion, read_pool, write_pool

from .conftest import FORMATS, GOOD, lines

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)

confidences = st.none() | st.floats(0, allow_infinity=False, allow_nan=False)


@st.composite
def pooled_questions(draw):
    n = draw(st.integers(1, 5))
    answers = draw(st.lists(st.none() | texts, min_size=n, max_size=n).filter(any))
    tokens = draw(st.none() | st.tuples(*[st.integers(0, 2**63 - 1)] * n))
    return PooledQuestion(
        draw(texts), tuple(answers), draw(st.none() | texts), tokens, draw(st.none() | st.tuples(*[confidences] * n))
    )


pooled = st.lists(pooled_questions(), min_size=1, max_size=4, unique_by=lambda question: question.id)


@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=40)
@given(questions=pooled)
def test_what_is_written_is_read_back_equal(tmp_path_factory, suffix, questions):
    path = tmp_path_factory.mktemp("pools") / f"gpqa.some-model-v1.5{suffix}"
    pool = Pool("gpqa.some-model-v1.5", tuple(questions))
    write_pool(pool, path)
    assert read_pool(path) == pool
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_an_answer_may_hold_every_line_end_of_unicode(tmp_path):
    pool = Pool("p", (PooledQuestion("q", ("a\nb", "a\u2028b\x85c\r", "\ud83d")),))
    write_pool(pool, tmp_path / "p.jsonl")
    assert read_pool(tmp_path / "p.jsonl") == pool
    with pytest.raises(PoolError, match=r'pool "p.parquet": Parquet cannot hold this pool .* Write .jsonl instead'):
        write_pool(pool, tmp_path / "p.parquet")


def test_the_same_pool_makes_the_same_bytes(tmp_path):
    pool = Pool("p", (PooledQuestion("q", ("A",)),))
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_pool(pool, tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    path = lines(tmp_path, GOOD)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(PoolError, match=r'p.jsonl" cannot be written \(No space left on device\)'):
        write_pool(Pool("p", (PooledQuestion("q", ("A",)),)), path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_writing_where_no_folder_is_says_so(tmp_path):
    pool = Pool("p", (PooledQuestion("q", ("A",)),))
    with pytest.raises(PoolError, match=r'p.jsonl" cannot be written \(No such file or directory\)'):
        write_pool(pool, tmp_path / "nowhere" / "p.jsonl")
    with pytest.raises(PoolError, match="its format is unknown"):
        write_pool(pool, tmp_path / "p.xml")


KINDS = {"mean": (1.0, None), "tail": (2.0, 3.0), "lowest": (0.5, 0.25)}


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".json", ".parquet"])
def test_every_kind_of_confidence_survives_and_one_is_chosen(tmp_path, suffix):
    path = tmp_path / f"kinds{suffix}"
    question = PooledQuestion("q1", ("A", None), "A", confidence=KINDS["tail"], confidences=KINDS)
    write_pool(Pool("kinds", (question,)), path)
    assert read_pool(path).questions == (question,)
    assert read_pool(path, confidence="lowest").questions[0].confidence == KINDS["lowest"]
    with pytest.raises(PoolError, match="has mean, tail, lowest and not bottom"):
        read_pool(path, confidence="bottom")


def test_without_pyarrow_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    pool = Pool("p", (PooledQuestion("q", ("A",)),))
    for attempt in (lambda: read_pool(tmp_path / "p.parquet"), lambda: write_pool(pool, tmp_path / "p.parquet")):
        with pytest.raises(InputError, match=r'pip install "pets-llm\[parquet\]"'):
            attempt()
