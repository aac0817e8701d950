"""Does the image's software still resolve? Runs the install steps of ``deploy/Containerfile`` without a container.

    python -m scripts.image_pip

The steps of the file's first stage are run as they stand, on the wheel that ``make package`` has left in ``dist``, in a
folder of their own and a fresh virtual environment, under the image's version of Python where this machine has it. Only
the last of them, which installs PETS with its extras, is left at finding what it would install; all of that must be in
the lock file.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTAINERFILE, LOCK = ROOT / "deploy" / "Containerfile", ROOT / "requirements-dev.lock"
INSTALL, REPORT = "pip install ", "report.json"


def build_steps(text: str) -> list[tuple[str, str]]:
    """The instructions of a Containerfile's first stage, in order; the last installation is only resolved.

    >>> build_steps("FROM a AS b\\nCOPY x y ./\\nRUN pip install c && pip install d\\n\\nFROM a\\nRUN e")[-1]
    ('RUN', 'pip install c && pip install --dry-run --quiet --report report.json d')
    """
    stage = re.split(r"^(?=FROM )", text.replace("\\\n", " "), flags=re.MULTILINE)[1]
    before, _, last = stage.rpartition(INSTALL)
    lines = f"{before}{INSTALL}--dry-run --quiet --report {REPORT} {last}".splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word.isupper()]


def main() -> None:
    """Run the steps; the first that fails ends this with its exit code."""
    python = sys.executable
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        source = root / "source"
        source.mkdir()
        environment = os.environ | {"PATH": f"{root}/opt/pets/bin:{os.environ['PATH']}"}
        environment.pop("PYTHONPATH", None)
        for word, rest in build_steps(CONTAINERFILE.read_text("utf-8")):
            if word == "FROM":
                python = _python(rest)
            elif word == "COPY":
                _copy(rest.split(), source)
            elif word == "RUN":
                sys.stderr.write(f"+ {rest}\n")
                command = re.sub(r"(?<!\S)/opt\b", f"{root}/opt", rest)
                _run(re.sub(r"^python\b", python, command), source, environment)
        report = json.loads((source / REPORT).read_text("utf-8"))["install"]
    locked = {_name(line.partition("==")[0]) for line in LOCK.read_text("utf-8").splitlines()} | {"pets-llm"}
    names = {_name(package["metadata"]["name"]) for package in report}
    if names - locked:
        sys.exit(f"the image would install what {LOCK.name} does not pin: {', '.join(sorted(names - locked))}")
    sys.stderr.write(f"{len(names)} packages, all of them pinned\n")


def _run(command: str, folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(["sh", "-ec", command], cwd=folder, env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def _copy(words: list[str], source: Path) -> None:
    *names, target = words
    for name in names:
        if not (paths := list(ROOT.glob(name))):
            sys.exit(f"there is no {name}, which the image copies; `make package` makes the wheel.")
        for path in paths:
            shutil.copy(path, source / target)


def _name(package: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def _python(image: str) -> str:
    """The interpreter of an image such as ``python:3.12-slim``, or the one that runs this."""
    version = re.match(r"python:(\d+\.\d+)", image)
    name = f"python{version[1]}" if version else sys.executable
    try:
        subprocess.run([name, "-c", "import ensurepip"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        sys.stderr.write(f"{name} is not here; Python {sys.version.split()[0]} takes its place.\n")
        return sys.executable
    return name


if __name__ == "__main__":
    main()
