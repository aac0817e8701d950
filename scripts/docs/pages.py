"""The tree that the site is built from: the pages of docs/, the project's own files, and what is generated."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from scripts.docs.cli_reference import cli_page
from scripts.docs.python_reference import REFERENCE_PAGES, reference_page

ROOT = Path(__file__).resolve().parents[2]
PROJECT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
"""Files outside docs/ that are pages of the site, and their names there."""
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")
NAV_LINE = re.compile(r'^ *\{ "[^"]+" = "([^"]+\.md)" \},\n', re.M)


def nav_pages(config: str) -> Iterator[str]:
    """The pages of the navigation, in order."""
    yield from NAV_LINE.findall(config)


def write_tree(folder: Path) -> Path:
    """Write all pages under ``folder``/docs and the configuration beside them; the configuration's path."""
    docs = folder / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(ROOT / "docs", docs)
    for page in docs.glob("*.md"):
        page.write_text(_site_links(page.read_text("utf-8"), Path("docs")), "utf-8")
    for source, name in PROJECT_PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        (docs / name).write_text(_site_links(text, Path(source).parent), "utf-8")
    (docs / "reference").mkdir()
    (docs / "reference/cli.md").write_text(cli_page(), "utf-8")
    for name in REFERENCE_PAGES:
        (docs / name).write_text(reference_page(name), "utf-8")
    (docs / "examples.md").write_text(_examples_page(), "utf-8")
    return Path(shutil.copy(ROOT / "zensical.toml", folder))


def _site_links(text: str, folder: Path) -> str:
    """A file's links as they are on the site, where pages of the project stand beside those of docs/."""

    def target(match: re.Match[str]) -> str:
        path = (ROOT / folder / match[2]).resolve().relative_to(ROOT).as_posix()
        return f"{match[1]}{_site_path(path)}{match[3] or ''}{match[4]}"

    return LINK.sub(target, text)


def _site_path(path: str) -> str:
    if path.startswith("examples/"):
        return "examples.md"
    return PROJECT_PAGES.get(path, path.removeprefix("docs/"))


def _examples_page() -> str:
    """The scripts of examples/, whole."""
    folder = ROOT / "examples"
    scripts = [
        f"## {path.name}\n\n```python\n{path.read_text('utf-8').strip()}\n```" for path in sorted(folder.glob("*.py"))
    ]
    notebooks = ", ".join(f"`{path.name}`" for path in sorted(folder.glob("*.ipynb")))
    first = f"The scripts of the repository's folder `examples`, each run by its tests. Beside them: {notebooks}."
    return "\n\n".join(["# Examples", first, *scripts]) + "\n"
