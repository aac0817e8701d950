"""Counts what one `pets solve` walks through: files and functions of pets entered, and function calls per trace.

    python scripts/walk.py [QUESTIONS] [TRACES_PER_QUESTION]

The run is the command line's own, in this process, with a store, against `pets mock` in another. Calls are counted by
``sys.setprofile``, threads included.
"""

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pets
from pets.cli._terminal import echo

PACKAGE = str(Path(pets.__file__).parent)


def solve(folder: Path, url: str, questions: int, traces: int) -> None:
    """Run the command; its output goes to files."""
    from pets.cli.main import cli

    rows = [{"id": f"q{i}", "question": f"What is {i} + {i}?"} for i in range(questions)]
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["solve", str(path), "--endpoint", url, "--model", "mock", "--budget", f"{traces}x", "--answer", "text"]
    cli([*command, "--store", str(folder / "runs.db"), "-o", str(folder / "rows.jsonl")], standalone_mode=False)


def walk(url: str, questions: int, traces: int) -> Counter[CodeType]:
    """Calls of each function of pets."""
    calls: Counter[CodeType] = Counter()
    lock = threading.Lock()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(PACKAGE):
            with lock:
                calls[code] += 1

    for module in pkgutil.walk_packages(pets.__path__, "pets."):  # imports are not what is counted
        if not any(name in module.name for name in ("ray", "__main__", "integrations")):
            with suppress(ImportError):
                importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as folder:
        threading.setprofile(count)
        sys.setprofile(count)
        try:
            solve(Path(folder), url, questions, traces)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return calls


def main() -> None:
    questions, traces = (int(argument) for argument in (sys.argv[1:] + ["20", "4"][len(sys.argv) - 1 :]))
    command = [sys.executable, "-m", "pets", "mock", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as mock:
        assert mock.stdout is not None
        try:
            url = next(word for line in mock.stdout for word in line.split() if word.startswith("http"))
            calls = walk(url.rstrip(".,"), questions, traces)
        finally:
            mock.terminate()
    by_package: Counter[str] = Counter()
    for code, number in calls.items():
        by_package[Path(code.co_filename).relative_to(PACKAGE).parts[0]] += number
    total = questions * traces
    echo(f"{len({code.co_filename for code in calls})} files, {len(calls)} functions, {calls.total():,} calls")
    shares = ", ".join(f"{name} {number / total:.0f}" for name, number in by_package.most_common())
    echo(f"{calls.total() / total:.0f} calls per trace: {shares}")
    for code, number in calls.most_common(25):
        echo(f"  {number / total:6.1f}  {Path(code.co_filename).relative_to(PACKAGE)}:{code.co_qualname}")


if __name__ == "__main__":
    main()
