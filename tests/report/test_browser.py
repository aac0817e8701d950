"""Reports in a real Chromium: how they look, that bars add up, that nothing is markup, and that keys are enough."""

import re

import numpy as np
import pytest

from pets.lab import rows
from pets.report.replay_report import replay_page
from pets.report.run_report import run_page
from pets.store import Store

from ..browser import check_looks, open_page
from .conftest import write_run

EVIL = "<img src=x onerror=\"document.title='evil'\"></script><script>document.title='evil'</script> {}"
MAX_BYTES = 2_000_000
DRAWN = "() => [...document.querySelectorAll('figure[data-chart]')].every(figure => figure.dataset.drawn)"


def write_report(path, questions):
    """The report of so many questions, easy ones and hard ones, whose texts are markup."""
    rng = np.random.default_rng(0)
    votes = {}
    for place in range(questions):
        theta = rng.dirichlet([0.4] * 4)
        size = 3 if theta.max() > 0.9 else int(rng.integers(4, 20))
        votes[f"q{place}"] = "".join("ABCD"[k] for k in rng.choice(4, size=size, p=theta))
    with Store.open(path.with_suffix(".db")) as store:
        path.write_text(run_page(store.view(write_run(store, votes, prompt=EVIL, budget="12x"))), "utf-8")
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("report") / "report.html", 1_000)


def opened(browser, path, **options):
    page = open_page(browser, path.as_uri(), **options)
    if options.get("java_script_enabled", True):
        page.page.wait_for_function(DRAWN)
    return page


def test_a_report_looks_good(browser, tmp_path, screenshots):
    path = write_report(tmp_path / "report.html", 40)
    page = opened(browser, path)
    check_looks(page, screenshots, "run")
    assert page.complaints == [] and page.outside(path.as_uri()) == []


def test_a_thousand_questions_are_one_small_file_without_markup_of_theirs(browser, report):
    assert report.stat().st_size < MAX_BYTES
    page = opened(browser, report)
    assert page.complaints == [] and page.outside(report.as_uri()) == []
    assert page.page.title() != "evil" and page.page.locator("main img").count() == 0
    assert page.page.locator("td", has_text="<img src=x").count() > 900


def test_every_bar_adds_up_to_its_counts(browser, report):
    bars = opened(browser, report).page.evaluate(
        """() => [...document.querySelectorAll('.bar')].map(bar => ({
            words: (bar.closest('td') ?? bar.nextElementSibling).innerText,
            whole: bar.getBoundingClientRect().width,
            parts: [...bar.children].map(part => [Number(part.dataset.votes), part.getBoundingClientRect().width]),
        }))"""
    )
    assert len(bars) == 1_012
    for bar in bars:
        counts = [int(count) for count in re.findall(r"×(\d+)", bar["words"])]
        assert counts == [votes for votes, _ in bar["parts"]]
        widths = [width / bar["whole"] for _, width in bar["parts"]]
        assert widths == pytest.approx([count / sum(counts) for count in counts], abs=0.01)


def test_without_a_script_the_figures_are_the_same(browser, report):
    bare = opened(browser, report, java_script_enabled=False).page
    full = opened(browser, report).page
    assert bare.locator(".tiles").inner_text() == full.locator(".tiles").inner_text()
    assert bare.locator("figure svg").count() == full.locator("figure svg").count() == 6
    assert bare.locator("tbody tr").count() == full.locator("tbody tr").count()
    assert not bare.locator(".tools").first.is_visible() and full.locator(".tools").first.is_visible()


def test_keys_are_enough_to_search_to_filter_and_to_sort(browser, report):
    page = opened(browser, report).page
    page.get_by_role("searchbox").focus()
    page.keyboard.type("q77")
    assert page.get_by_role("status").inner_text() == "11 of 1000"
    page.keyboard.press("Tab")
    page.keyboard.type("not gold")
    wrong = int(page.get_by_role("status").inner_text().split()[0])
    assert 0 < wrong < 11
    traces = page.get_by_role("columnheader", name="traces").first.get_by_role("button")
    traces.focus()
    page.keyboard.press("Enter")
    sizes = page.evaluate(
        "() => [...document.querySelectorAll('tbody tr:not([hidden]) td:nth-child(7)')].map(c => Number(c.innerText))"
    )
    assert sizes[:wrong] == sorted(sizes[:wrong]) and sizes[0] < sizes[wrong - 1]


def test_it_prints_without_its_tools(browser, report):
    page = opened(browser, report).page
    page.emulate_media(media="print")
    assert not page.locator(".tools").first.is_visible() and page.locator("figure svg").first.is_visible()
    assert page.pdf().startswith(b"%PDF")


def test_a_replay_looks_good_and_its_policies_can_be_sorted(browser, pool_result, tmp_path, screenshots):
    path = tmp_path / "replay.html"
    path.write_text(replay_page(rows([pool_result])), "utf-8")
    page = opened(browser, path)
    check_looks(page, screenshots, "replay")
    assert page.complaints == [] and page.outside(path.as_uri()) == []
    page.page.get_by_role("button", name="policy").press("Enter")
    policies = page.page.evaluate("() => [...document.querySelectorAll('tbody td:first-child')].map(c => c.innerText)")
    assert policies == sorted(policies)
