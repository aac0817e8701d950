"""Files of records, in and out: JSONL, JSON, CSV with any separator, Parquet, plain lines."""

from pets.tabular.reading import SUFFIXES, FileRow, Record, read_rows, rows_of, suffix_of
from pets.tabular.writing import OUTPUT_SUFFIXES, atomic_write, check_suffix, open_rows, write_all, write_rows

__all__ = ["OUTPUT_SUFFIXES", "SUFFIXES", "FileRow", "Record", "atomic_write", "check_suffix", "open_rows"]
__all__ += ["read_rows", "rows_of", "suffix_of", "write_all", "write_rows"]
