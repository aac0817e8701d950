"""A missing optional dependency is one line that names the extra."""

import sys

import pytest

from pets._extras import missing, require
from pets.errors import InputError


def test_a_module_that_is_there_is_imported():
    assert require("json.decoder", "parquet").JSONDecoder is not None


def test_a_module_that_is_not_there_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'^pyarrow is not installed. Try: pip install "pets\[parquet\]"$'):
        require("pyarrow", "parquet")
    assert str(missing("aiohttp", "serve")) == 'aiohttp is not installed. Try: pip install "pets[serve]"'
