"""Recorded pools: the answers a model gave to each question, kept so that policies can be replayed on them.

A question is ``{"id", "gold"?, "answers": [str | null, ...], "texts": [str, ...]?, "tokens": [int, ...]?,
"confidence": [float | null, ...]?}``: one per line (``.jsonl``, ``.jsonl.gz``), a list of them (``.json``) or a row
each (``.parquet``). One trace per row (CSV, Parquet, a DataFrame), lm-eval's samples, inspect_ai's logs and a folder
of NeMo-Skills are read too, and the paper's own records: gold under ``correct_answer`` or ``answer``, confidences under
``trace_confidence``, an empty string for a trace without an answer.

Strings are kept as they were recorded: which of them mean the same is the business of an answer type.
"""

from pets.confidence import Kind as Metric
from pets.pools.formats import joined_seeds
from pets.pools.mixing import mix_pools, split_mixture
from pets.pools.question import Pool, PooledQuestion
from pets.pools.reading import check_pool, from_frame, load, pool_files, pools_of, read_pool, read_pools
from pets.pools.summary import Summary, summarize
from pets.pools.writing import write_pool

__all__ = ["Metric", "Pool", "PooledQuestion", "Summary"]
__all__ += ["check_pool", "from_frame", "joined_seeds", "load", "mix_pools", "pool_files", "pools_of", "read_pool"]
__all__ += ["read_pools", "split_mixture", "summarize", "write_pool"]
