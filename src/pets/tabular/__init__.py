"""Files of records, in and out: JSONL, JSON, CSV with any separator, Parquet, plain lines."""

from pets.tabular.reading import SUFFIXES, FileRow, Record, read_rows, rows_of, suffix_of

__all__ = ["SUFFIXES", "FileRow", "Record", "read_rows", "rows_of", "suffix_of"]
