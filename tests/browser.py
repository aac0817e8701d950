"""Pages in a real Chromium: what they complain of, what they ask for, and how they look in every size and colour.

The fixtures ``browser`` and ``screenshots`` are in conftest.py; a test that asks for a browser is slow. A use:

    opened = open_page(browser, path.as_uri())
    check_looks(opened, screenshots, "report")
    assert opened.complaints == [] and opened.outside(path.as_uri()) == []
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CHROMIUM", "LOOKS", "OpenedPage", "check_looks", "open_page", "serious_problems"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HEIGHT = 900
WAIT_MS = 120_000  # for a page on a busy machine; Playwright's own patience is 30 seconds
LOOKS = {
    "wide-light": (1280, "light"),
    "wide-dark": (1280, "dark"),
    "phone-light": (400, "light"),
    "phone-dark": (400, "dark"),
}
"""Width in pixels and colour scheme of each look."""
SERIOUS = ("serious", "critical")


@dataclass(slots=True)
class OpenedPage:
    """A page of Playwright's with all that it asked for and every error and warning of its console."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def outside(self, *own: str) -> list[str]:
        """The requests that went elsewhere than to addresses that begin with one of ``own``."""
        return [url for url in self.requests if not url.startswith((*own, "data:", "blob:"))]


def open_page(browser: Any, url: str, **options: Any) -> OpenedPage:
    """Open ``url`` in a context of its own; ``options`` are the context's (``java_script_enabled=False``, ...)."""
    page = browser.new_context(**({"reduced_motion": "reduce"} | options)).new_page()
    page.set_default_timeout(WAIT_MS)
    opened = OpenedPage(page)
    page.on("request", lambda request: opened.requests.append(request.url))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.on(
        "console",
        lambda message: opened.complaints.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.goto(url)
    return opened


def check_looks(opened: OpenedPage, folder: Path, name: str) -> None:
    """In every look: keep a screenshot as ``NAME-LOOK.png``; nothing scrolls sideways, axe finds nothing serious."""
    page = opened.page
    for look, (width, scheme) in LOOKS.items():
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.screenshot(path=folder / f"{name}-{look}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{look} scrolls sideways"
        problems = serious_problems(page)
        assert not problems, "\n".join([look, *problems])


def serious_problems(page: Any) -> list[str]:
    """What axe finds serious or critical on the page as it is now: the rule and the elements that break it."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [
        f"{violation['id']}: {violation['help']}: {node['target']} {node['failureSummary']}"
        for violation in violations
        if violation["impact"] in SERIOUS
        for node in violation["nodes"]
    ]
