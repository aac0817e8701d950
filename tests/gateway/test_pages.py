"""The paths that only read: who may, what a browser is allowed to load, and that nothing else is there."""

import contextlib
import json
import re
from importlib.resources import files

import pytest

from pets.gateway import pages
from pets.gateway.pages import PAGE_FILES, PALETTE_FILE

from ..waiting import wait_until
from .conftest import add_key, run_gateway

PATHS = (
    "/",
    "/dashboard/events?once=1",
    "/dashboard/history?span=day",
    "/dashboard/questions/x",
    "/dashboard/dashboard.js",
)


def test_the_page_loads_scripts_and_styles_from_here_alone_and_has_none_of_its_own(gateway):
    reply = gateway.client.get("/")
    policy = reply.headers["content-security-policy"]
    assert "unsafe" not in policy and policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'")
    assert "http" not in re.sub(r"</?[a-z]+", "", reply.text) and " style=" not in reply.text
    assert not re.search(r"<script(?![^>]* src=)|<style|\son[a-z]+=", reply.text)
    for path in re.findall(r'(?:src|href)="(dashboard/[^"]+)"', reply.text):
        part = gateway.client.get(f"/{path}")
        assert part.status_code == 200 and part.headers["x-content-type-options"] == "nosniff"
        assert part.headers["content-type"].startswith("text/javascript" if path.endswith("js") else "text/css")


def test_the_charts_library_comes_with_its_licence():
    folder = files("pets.gateway").joinpath("page")
    assert "MIT License" in folder.joinpath("uPlot.LICENSE").read_text()
    assert all(folder.joinpath(name).is_file() for name in PAGE_FILES)
    assert files("pets").joinpath("report", PALETTE_FILE).is_file()


def test_half_a_character_is_shown_like_any_other(gateway):
    """JSON can name halves of surrogate pairs, and UTF-8 has none: one client must not end the operator's page."""
    headers = {"content-type": "application/json"}
    for model, content, status in (("pets/mock", "easy \ud800", 200), ("x\udfff", "easy", 404)):
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": content}]})
        reply = gateway.client.post("/v1/chat/completions", content=body, headers=headers)
        assert reply.status_code == status
    path = "/dashboard/events?once=1"
    wait_until(lambda: gateway.client.get(path).json()["errors"])  # a request is recorded after its reply
    shown = gateway.client.get(path)
    (row,) = shown.json()["questions"]
    assert row["question"] == "easy \ud800" and shown.json()["errors"][0]["model"] == "x\udfff"
    assert shown.headers["content-type"] == "application/json"
    assert gateway.client.get(f"/dashboard/questions/{row['id']}").json()["message"] == "easy \ud800"


@pytest.mark.parametrize("name", ["uPlot.LICENSE", "dashboard.html", "..%2fapp.py", "nothing.js"])
def test_no_other_file_is_served(gateway, name):
    assert gateway.client.get(f"/dashboard/{name}").status_code == 404


def test_with_keys_every_path_of_the_dashboard_needs_one(tmp_path):
    store = tmp_path / "g.db"
    secret = add_key(store, "alice")
    with run_gateway(store=store) as gateway:
        assert [gateway.client.get(path).status_code for path in PATHS] == [401] * len(PATHS)
        statuses = [gateway.client.get(path, auth=("", secret)).status_code for path in PATHS]
        assert statuses == [200, 200, 200, 404, 200]
        for path in ("/dashboard/history", "/dashboard/events"):
            assert gateway.client.get(f"{path}?span=year", auth=("", secret)).status_code == 400


def test_a_page_is_told_numbers_and_history_over_one_connection(gateway):
    with gateway.client.stream("GET", "/dashboard/events?span=day") as reply:
        lines = reply.iter_lines()
        first, _, name, second = (next(lines) for _ in range(4))
    assert json.loads(first.removeprefix("data: "))["totals"]["answered"] == 0
    assert name == "event: history" and json.loads(second.removeprefix("data: "))["span"] == "day"


@pytest.mark.parametrize(("keys", "allowed"), [(["alice"], 8), (["alice", "bob"], 7)])
def test_open_dashboards_are_bounded_for_each_key_and_in_all(keys, allowed, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "MAX_DASHBOARDS", 8)
    store = tmp_path / "g.db"
    secrets = {name: ("", add_key(store, name)) for name in keys}
    with run_gateway(store=store) as gateway, contextlib.ExitStack() as opened:

        def status(name):
            reply = gateway.client.stream("GET", "/dashboard/events", auth=secrets[name])
            response = opened.enter_context(reply)
            if response.status_code == 503:
                assert response.headers["retry-after"] == "1" and b"Too many dashboards at once." in response.read()
            return response.status_code

        assert [status("alice") for _ in range(10)] == [200] * allowed + [503] * (10 - allowed)
        if len(keys) > 1:
            assert status("bob") == 200
        opened.close()
        wait_until(lambda: status("alice") == 200)  # those that went have left their places
