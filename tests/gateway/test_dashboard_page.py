"""The dashboard in a real Chromium: what is drawn is what was counted, in every look, by mouse and by keyboard."""

import httpx

from pets.gateway import Settings
from pets.gateway.auth import ANYBODY
from pets.gateway.pages import Dashboard
from pets.mock import DistributionAnswers, MockModel
from pets.mock.faults import Faults
from pets.policies.price import PriceRule

from ..browser import check_looks, open_page, serious_problems
from ..waiting import wait_until
from .conftest import add_key, run_gateway

MARKUP = "<img src=x onerror=alert(1)> <b>Which</b> of A, B, C, D, E, F & G?"
MANY = {MARKUP: dict.fromkeys("ABCDEFG", 1 / 7), "easy": {"A": 1.0}, "torn": {"A": 0.5, "B": 0.3}}
DRAWN_BARS = """() => [...document.querySelectorAll('.bar')].map(bar => ({
    total: Number(bar.dataset.total), words: bar.getAttribute('aria-label'), width: bar.clientWidth,
    parts: [...bar.children].map(part => [Number(part.dataset.value), part.getBoundingClientRect().width])}))"""
TOTALS = "() => [...document.querySelectorAll('#questions .votes')].map(bar => Number(bar.dataset.total))"
COUNTS = "() => [...document.querySelectorAll('#answers td:nth-child(2)')].map(cell => Number(cell.textContent))"
COUNTED = """n => [...document.querySelectorAll('#requests-chart .legend b')]
    .reduce((sum, value) => sum + Number(value.dataset.value), 0) === n"""
TIMED = r"() => /\d\d:\d\d:\d\d$/.test(document.getElementById('requests-chart-title').textContent)"
NO_SERVER = "() => document.getElementById('alerts').textContent.includes('No upstream server answers')"
LEGENDS = """() => Object.fromEntries([...document.querySelectorAll('figure')].map(figure =>
    [figure.id, [...figure.querySelectorAll('.legend b')].map(value => Number(value.dataset.value))]))"""


def outcomes(gateway):
    totals = Dashboard(gateway.state).snapshot(ANYBODY)["totals"]
    return [totals[name] for name in ("answered", "refused", "failed", "gone")]


def shown_questions(page, number):
    page.wait_for_function("n => document.querySelectorAll('#questions .votes').length >= n", arg=number)


def test_a_live_run_is_drawn_as_it_was_counted(browser, screenshots):
    mock = MockModel(DistributionAnswers(MANY, tokens=8), faults=Faults(error_500=0.1))
    with run_gateway(mock, policy=PriceRule(rounds=2, prior=1.0), mean_budget=8, total=2000) as gateway:
        opened = open_page(browser, gateway.url)
        page = opened.page
        page.wait_for_function("() => document.getElementById('state').textContent === 'live'")
        for number in range(9):
            gateway.ask([MARKUP, "easy", "torn"][number % 3])
            gateway.ask("easy", model="mock")
        gateway.ask("easy", n=2)
        shown_questions(page, 5)
        left = f"{2000 - gateway.ledger.total.spent:,} traces"
        page.wait_for_function("text => document.getElementById('left').textContent === text", arg=left)
        wait_until(lambda: sum(outcomes(gateway)) == 19)  # counted when their responses are out
        totals = Dashboard(gateway.state).snapshot(ANYBODY)["totals"]
        page.wait_for_function(COUNTED, arg=19)
        drawn = page.evaluate(DRAWN_BARS)
        assert len(drawn) >= 6
        for bar in drawn:  # every bar: the parts are its total, and each is as wide as its share of it
            assert sum(value for value, _ in bar["parts"]) == bar["total"]
            for value, width in bar["parts"]:
                assert abs(width - bar["width"] * value / bar["total"]) <= 1.5, bar
        rows = Dashboard(gateway.state).snapshot(ANYBODY)["questions"]
        votes = page.evaluate(TOTALS)
        assert votes == [row["traces"] for row in rows]
        legends = page.evaluate(LEGENDS)
        assert legends["requests-chart"] == outcomes(gateway)
        assert legends["errors-chart"] == [totals[name] for name in ("gone", "failed", "refused", "retries")]
        assert legends["spend-chart"] == [totals["spent"]] == [gateway.ledger.total.spent]
        assert legends["tokens-chart"] == [totals["prompt_tokens"], totals["tokens"]]
        assert page.locator("#questions a", has_text=MARKUP).count() and page.locator("img").count() == 0
        check_looks(opened, screenshots, "dashboard")
        assert opened.complaints == [] and opened.outside(gateway.url) == []


def test_a_question_is_opened_and_read_by_keyboard(browser, screenshots):
    with run_gateway(MockModel(DistributionAnswers(MANY, tokens=8))) as gateway:
        gateway.ask(MARKUP)
        opened = open_page(browser, gateway.url)
        page = opened.page
        shown_questions(page, 1)
        page.locator("#questions a").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#answers")
        assert page.locator("#question pre").first.inner_text() == MARKUP and page.locator("img").count() == 0
        (row,) = Dashboard(gateway.state).snapshot(ANYBODY)["questions"]
        votes = page.evaluate(COUNTS)
        assert sum(votes) == row["traces"] == page.locator("#question details").count()
        page.locator("#question summary").first.press("Enter")
        assert "answer is" in page.locator("#question details[open] pre").inner_text()
        page.screenshot(path=screenshots / "dashboard-question.png")
        assert serious_problems(page) == []
        page.keyboard.press("Escape")
        page.wait_for_function("() => !document.getElementById('question').open && !location.hash")
        assert page.evaluate("() => document.activeElement.closest('#questions') !== null")  # back where one was
        page.goto(f"{gateway.url}#not-there")
        page.wait_for_function("() => document.getElementById('question-body').textContent.includes('not here')")
        unloaded = [text for text in opened.complaints if "404" not in text]  # the browser's own word on the last one
        assert unloaded == []


def test_a_chart_is_read_by_keyboard(browser):
    with run_gateway() as gateway:
        gateway.ask("easy")
        page = open_page(browser, gateway.url).page
        page.wait_for_selector("#requests-chart canvas")
        page.locator("#requests-chart").focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(TIMED)


def test_an_empty_gateway_and_one_without_its_servers_say_so(browser, screenshots):
    settings = Settings.of(policy="online_grid", answer="choice", timeout=3.0)
    with run_gateway(MockModel(DistributionAnswers(MANY, tokens=8), faults=Faults(error_500=1.0)), settings) as gateway:
        opened = open_page(browser, gateway.url)
        page = opened.page
        page.wait_for_selector("#traces-chart canvas")
        assert (
            "No question was voted on yet." in page.inner_text("#questions") and page.inner_text("#left") == "no limit"
        )
        check_looks(opened, screenshots, "dashboard-empty")
        assert gateway.ask("easy").status_code == 503
        page.wait_for_function(NO_SERVER)
        page.wait_for_function("() => document.getElementById('errors').textContent.includes('503')")
        assert page.inner_text("#failed") == "100 %"
        check_looks(opened, screenshots, "dashboard-down")
        assert opened.complaints == []


def test_behind_keys_a_tenant_sees_its_own_and_an_admin_chooses(browser, tmp_path):
    store = tmp_path / "g.db"
    keys = {name: add_key(store, name, admin=name == "root") for name in ("alice", "bob", "root")}
    with run_gateway(store=store) as gateway:
        for name, question in (("alice", "easy"), ("bob", "torn")):
            assert gateway.ask(question, headers={"authorization": f"Bearer {keys[name]}"}).status_code == 200
        body = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}]}
        basic = httpx.BasicAuth("alice", keys["alice"])
        assert gateway.client.post("/v1/chat/completions", json=body, auth=basic).status_code == 401  # only to look
        tenant = open_page(browser, gateway.url, http_credentials={"username": "", "password": keys["bob"]})
        shown_questions(tenant.page, 1)
        assert tenant.page.locator("#questions a").all_inner_texts() == ["torn"]
        assert tenant.page.locator("#key-choice").is_hidden() and "alice" not in tenant.page.inner_text("body")
        admin = open_page(browser, gateway.url, http_credentials={"username": "", "password": keys["root"]})
        shown_questions(admin.page, 2)
        admin.page.select_option("#key", "alice")
        admin.page.wait_for_function("() => document.querySelectorAll('#questions a').length === 1")
        assert admin.page.locator("#questions a").all_inner_texts() == ["easy"]
        assert tenant.complaints == admin.complaints == []


def test_a_replica_says_what_is_its_own_and_what_is_of_all(browser, screenshots, postgres_url):
    with run_gateway(store=postgres_url, total=1000) as first, run_gateway(store=postgres_url, total=1000) as second:
        traces = first.ask("torn").json()["pets"]["traces"]
        page = open_page(browser, second.url).page
        page.wait_for_function(
            "() => document.getElementById('scope').textContent.includes('1 of 2: counts are of this')"
        )
        left = f"{1000 - traces:,} traces"
        page.wait_for_function("text => document.getElementById('left').textContent === text", arg=left)
        assert "over all replicas" in page.inner_text("#spent")
        assert page.inner_text("#questions") == "No question was voted on yet."  # that one was the other's
        page.screenshot(path=screenshots / "dashboard-replica.png")


def test_behind_a_balancer_a_question_is_found_at_its_replica(browser, postgres_url):
    with run_gateway(store=postgres_url) as first, run_gateway(store=postgres_url) as second:
        first.ask("torn")
        page = open_page(browser, first.url).page
        targets = iter([second.url, second.url, first.url])
        page.route(
            "**/dashboard/questions/*",
            lambda route: route.fulfill(response=route.fetch(url=route.request.url.replace(first.url, next(targets)))),
        )
        page.wait_for_function("() => document.getElementById('scope').textContent.includes('1 of 2')")
        shown_questions(page, 1)
        page.locator("#questions a").click()
        page.wait_for_selector("#answers")
        assert next(targets, None) is None
