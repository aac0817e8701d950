"""The dashboard, in a real Chromium; its screenshots are kept for a look."""

import httpx

from pets.mock import MockModel, synthetic
from pets.policies.price import Price

from .conftest import add_key, run_gateway

GROWN = "() => document.querySelectorAll('#questions .votes').length >= {}"


def test_a_live_run_is_shown_and_updates(browser, screenshots):
    mock = MockModel(synthetic(60, tokens=8))
    with run_gateway(mock, policy=Price(rounds=2, prior=1.0), mean_budget=8, total=2000) as gateway:
        said = []
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(gateway.url)
        for number in range(5):
            assert gateway.ask(f"Question q{number}").status_code == 200
        page.wait_for_function(GROWN.format(5))
        before = page.inner_text("#left")
        for number in range(5, 25):
            assert gateway.ask(f"Question q{number}").status_code == 200
        page.wait_for_function(GROWN.format(20))
        page.wait_for_function("text => document.getElementById('left').textContent !== text", arg=before)
        assert page.inner_text("#state") == "live" and page.locator("#price polyline").count() == 1
        left = f"{2000 - gateway.ledger.total.spent:,}"
        page.wait_for_function("text => document.getElementById('left').textContent === text", arg=left)
        page.screenshot(path=screenshots / "wide-light.png", full_page=True)
        page.emulate_media(color_scheme="dark")
        page.screenshot(path=screenshots / "wide-dark.png", full_page=True)
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.screenshot(path=screenshots / "phone-dark.png", full_page=True)
        page.emulate_media(color_scheme="light")
        page.screenshot(path=screenshots / "phone-light.png", full_page=True)
        assert said == [] and all(url.startswith((gateway.url, "data:")) for url in asked)
        page.close()


def test_behind_keys_when_keys_are_on(browser, tmp_path):
    store = tmp_path / "g.db"
    alice, bob = add_key(store, "alice"), add_key(store, "bob")
    with run_gateway(store=store) as gateway:
        assert gateway.client.get("/").status_code == 401
        assert gateway.client.get("/dashboard/events?once=1").status_code == 401
        assert gateway.ask("easy", headers={"authorization": f"Bearer {bob}"}).status_code == 200
        basic = httpx.BasicAuth("alice", alice)
        body = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}]}
        assert gateway.client.post("/v1/chat/completions", json=body, auth=basic).status_code == 401  # only to look
        seen = gateway.client.get("/dashboard/events?once=1", auth=basic).json()
        assert seen["votes"] == 0 and seen["questions"] == []  # bob's alone
        context = browser.new_context(http_credentials={"username": "bob", "password": bob})
        page = context.new_page()
        page.goto(gateway.url)
        page.wait_for_function(GROWN.format(1))
        context.close()
