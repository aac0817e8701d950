"""Build the site into build/site: ``python -m scripts.docs`` (``make docs``). Any warning ends it with exit code 1."""

import argparse
import subprocess
import sys
from pathlib import Path

from scripts.docs.pages import ROOT, write_tree


def main() -> int:
    """Write the tree of pages, then let Zensical build it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build", help="The folder for pages and site.")
    arguments = parser.parse_args()
    config = write_tree(arguments.output)
    command = [sys.executable, "-m", "zensical", "build", "--config-file", str(config), "--strict", "--clean"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
