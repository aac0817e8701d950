"""Whatever a file of questions or of recorded answers holds: it is read, or told in one line; there is no traceback."""

import json
import sys

import pytest

from pets.cli import main as module

DEEP = "[" * 100_000
LINES = {
    "a line of five megabytes": json.dumps({"id": "a", "question": "x" * 5_000_000}).encode(),
    "deep lists": f'{{"id": "a", "question": {DEEP}'.encode(),
    "deep lists that end": f'{{"id": "a", "question": {DEEP}{"]" * len(DEEP)}}}'.encode(),
    "NaN": b'{"id": NaN, "question": NaN, "gold": NaN, "answers": [NaN, Infinity], "options": NaN}',
    "infinite numbers": b'{"id": 1e999, "question": "q", "gold": -1e999, "answers": [1e999]}',
    "half a surrogate pair": rb'{"id": "\ud83d", "question": "\ud83d", "gold": "\ud83d", "answers": ["\ud83d"]}',
    "a number of many digits": b'{"id": ' + b"9" * 10_000 + b', "question": "q"}',
    "bytes that are no text": b'{"id": "\xff\xfe", "question": "q"}',
    "zeros": b"\0" * 1_000,
    "a list": b"[1, 2]",
    "a list of lists": b"[[[]]]",
    "a word": b'"question"',
    "an object in every field": b'{"id": {}, "question": {}, "gold": {}, "answers": {}, "options": {}}',
    "a long id": json.dumps({"id": "a" * 100_000, "question": "q", "answers": ["a"]}).encode(),
    "nothing": b"",
    "blanks": b" \n\n \n",
}
VERBS = ("pools questions {}", "solve {} --dry-run", "resume last {} --store s.db", "pools show {}",
         "pools check {}", "replay {} --policy uniform --workers 1", "fit {} -o p.json", "forecast {}")  # fmt: skip


# Every content in the formats that are read as text; of the others, what has no end, no text and no line.
CASES = [(name, suffix) for name in LINES for suffix in (".jsonl", ".json", ".csv")]
CASES += [(name, suffix) for name in ("deep lists", "zeros", "nothing") for suffix in (".txt", ".parquet", "")]


@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_whatever_a_file_holds_there_is_no_traceback(tmp_path, monkeypatch, capfd, name, suffix):
    path = tmp_path / f"mine{suffix}"
    path.write_bytes(LINES[name])
    for verb in VERBS:
        monkeypatch.setattr(sys, "argv", ["pets", *verb.format(path.name).split()])
        with pytest.raises(SystemExit) as end:
            module.main()
        err = capfd.readouterr().err
        assert end.value.code in (0, 2), (verb, err)
        if end.value.code == 2:
            assert err.splitlines()[-1].startswith(("pets: ", "Checked ")), (verb, err)
            assert len(err.splitlines()[-1]) < 5_000, (verb, err[:200])
