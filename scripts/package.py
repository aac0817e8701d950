"""Does what would be published work? Builds the sdist, from it the wheel, and runs `pets demo` from the wheel alone.

    python -m scripts.package

Both lie in ``dist`` then, checked as PyPI would check them; the page that PyPI would show links to no file beside it.
The demo runs in an environment that has nothing but the wheel and what it asks for, in a folder that is not this
repository.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
DIST, LOCK = ROOT / "dist", ROOT / "requirements-dev.lock"
TOOLS = ("build==1.6.1", "twine==7.0.0", "readme-renderer[md]==46.0", "hatchling", "hatch-fancy-pypi-readme==25.1.0")


def main() -> None:
    """Build, check, install, run; the first step that fails ends this with its exit code."""
    shutil.rmtree(DIST, ignore_errors=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        tools, clean = _environment(folder / "tools", *TOOLS), folder / "clean"
        _run(tools, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT), cwd=folder)
        files = sorted(map(str, DIST.iterdir()))
        _run(tools, "-m", "twine", "check", "--strict", *files, cwd=folder)
        _check_page(tools, folder)
        python = _environment(clean, *(file for file in files if file.endswith(".whl")))
        _run(python, "-m", "pets", "--version", cwd=folder)
        _run(python, "-m", "pets", "demo", cwd=folder)


def _environment(folder: Path, *requirements: str) -> Path:
    """The interpreter of a new environment with these packages."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(LOCK))
    _run(python, *pip, *requirements, cwd=folder)
    return python


def _check_page(python: Path, folder: Path) -> None:
    """Render the long description as PyPI does; a link to a file beside it ends this."""
    [wheel] = DIST.glob("*.whl")
    _run(python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel), cwd=folder)
    _run(python, "-m", "readme_renderer", "--package", "pets-llm", "--output", "page.html", cwd=folder)
    if links := re.findall(r'(?:href|src)="(?!https?:|#)[^"]*"', (folder / "page.html").read_text("utf-8")):
        sys.exit(f"PyPI's page would link to {', '.join(links)}, which it lacks; see [tool.hatch] in pyproject.toml.")


def _run(python: Path, *words: str, cwd: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = subprocess.run([python, *words], cwd=cwd, env=environment, check=False).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
