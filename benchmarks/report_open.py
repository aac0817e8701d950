"""How long the report of 1,000 questions takes to open in Chromium: until its charts answer to the pointer.

python -m benchmarks.report_open            # needs playwright and a Chromium; prints the median of 5 openings
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from pets.engine import RunSpec
from pets.engine.resume import run_record
from pets.engine.sources import Sources
from pets.prompts import Prompt
from pets.questions import Problem
from pets.report.run_report import run_page
from pets.store import Store, StoredTrace
from pets.types import Launch

OPTIONS = "ABCD"
MEAN_TRACES = 8
DRAWN = "() => [...document.querySelectorAll('figure[data-chart]')].every(figure => figure.dataset.drawn)"


def write_report(path: Path, questions: int, seed: int = 0) -> None:
    """A run of so many synthetic questions with gold, and its report."""
    rng = np.random.default_rng(seed)
    text = "What follows from the premises above, and which of the four options says so? Question {}: " + "x" * 200
    problems = [Problem(f"q{n}", Prompt(text.format(n)), answer_type="choice", gold="A") for n in range(questions)]
    traces = []
    for problem in problems:
        theta = rng.dirichlet([0.5] * len(OPTIONS))
        size = int(rng.integers(2, 2 * MEAN_TRACES - 1))
        answers = (OPTIONS[k] for k in rng.choice(len(OPTIONS), size=size, p=theta))
        traces += [
            StoredTrace(problem.id, number, answer, text=f"It is {answer}. " * 60, tokens=240, finish="stop")
            for number, answer in enumerate(answers)
        ]
    spec = RunSpec.of(budget=f"{MEAN_TRACES}x")
    settings = run_record(spec, problems, Sources(model="synthetic"), name="set", stored=True)
    with Store.open(path.with_suffix(".db")) as store:
        with store.create(settings, problems) as run:
            run.write([Launch(trace.question, trace.number) for trace in traces], traces)
        path.write_text(run_page(store.view(run.id)), "utf-8")


def open_seconds(browser: Any, path: Path) -> tuple[float, float, float]:
    """Seconds until the page can be read, until every chart answers to the pointer, and of processor time for both."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    start = time.perf_counter()
    page.goto(path.as_uri())
    loaded = time.perf_counter() - start
    page.wait_for_function(DRAWN)
    drawn = time.perf_counter() - start
    metrics = {row["name"]: row["value"] for row in devtools.send("Performance.getMetrics")["metrics"]}
    context.close()
    return loaded, drawn, metrics["TaskDuration"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--openings", type=int, default=5)
    parser.add_argument("--report", type=Path, help="open this page instead of making one")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = options.report or Path(folder) / "report.html"
        if options.report is None:
            write_report(path, options.questions)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        seconds = [open_seconds(browser, path) for _ in range(options.openings)]
        browser.close()
        loaded, drawn, busy = (statistics.median(column) for column in zip(*seconds, strict=True))
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, medians of {options.openings} openings")
        print(f"opens in {loaded:.2f} s, all charts drawn after {drawn:.2f} s; processor time {busy:.2f} s")


if __name__ == "__main__":
    main()
