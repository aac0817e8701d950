"""Files of recorded answers to read."""

import json

FORMATS = [".jsonl", ".jsonl.gz", ".json", ".parquet"]
GOOD = {"id": "ok", "gold": "A", "answers": ["A", None]}


def lines(tmp_path, *records, name="p.jsonl"):
    """A file with one line per record; a string or bytes is a line as it stands."""
    raw = [r if isinstance(r, bytes) else (r if isinstance(r, str) else json.dumps(r)).encode() for r in records]
    path = tmp_path / name
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path
