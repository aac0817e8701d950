"""``pets keys`` from the shell."""

import json
import time
from contextlib import closing

import httpx
import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.core.money import Currency
from pets.errors import BudgetError, InputError, PetsError
from pets.gateway import Settings, build_gateway
from pets.gateway import running as gateway_running
from pets.mock import DistributionAnswers, MockModel, running
from pets.store.store import open_database

from ..command import pets
from ..waiting import PATIENCE_S


def test_keys_are_listed_and_revoked(tmp_path):
    def run(*words):
        return CliRunner().invoke(cli, ["keys", *words, "--store", str(tmp_path / "g.db")])

    made = run("add", "alice", "--budget", "50", "--admin")
    assert made.stdout.startswith("pets-") and '"g.db" is a new store' in made.stderr.replace(str(tmp_path) + "/", "")
    assert run("list", "--format", "table").stdout.split("\t")[2] == "nothing spent, budget 50 traces, admin\n"
    assert run("add", "bob", "--budget", "$5").stderr == ""
    assert run("list", "--format", "table").stdout.splitlines()[1].endswith("nothing spent, budget $5")
    assert (
        run("revoke", "alice").stderr == "The key of alice is revoked.\n"
        and "revoked" in run("list", "--format", "table").output
    )
    assert isinstance(run("revoke", "alice").exception, InputError)
    assert isinstance(run("add", "a b").exception, InputError)
    for wrong in ("16x", "0", "5 eur", "-1"):
        assert isinstance(run("add", "carol", "--budget", wrong).exception, BudgetError)


def test_what_a_key_has_spent_is_listed_with_its_unit(tmp_path):
    store, price = tmp_path / "g.db", Currency.money(1.0, 2.0, prompt_tokens=0, max_tokens=100)
    made = CliRunner().invoke(cli, ["keys", "add", "bob", "--budget", "5usd", "--store", str(store)])
    answers = DistributionAnswers({"easy": {"A": 1.0}}, tokens=8)
    with running(MockModel(answers)) as upstream:
        state = build_gateway(
            upstream, store=store, currency=price, settings=Settings.of(policy="online_grid", answer="choice")
        )
        with gateway_running(state) as url, httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
            headers = {"authorization": f"Bearer {made.stdout.strip()}"}
            body = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}]}
            reply = client.post(f"{url}/v1/chat/completions", json=body, headers=headers).json()["pets"]
            page = client.get(f"{url}/dashboard/events?once=1", headers=headers).json()
    budget = page["budget"]
    assert reply["unit"] == page["unit"] == "usd" and 4.99 < reply["budget_left"] == budget["left"] < 5
    assert budget["spent"] == pytest.approx(5 - budget["left"]) and budget["limits"][0]["limit"] == 5
    bare = CliRunner().invoke(cli, ["keys", "add", "eve", "--budget", "5", "--store", str(store)])
    assert str(bare.exception) == "--budget 5 is in traces, this gateway counts dollars. Write 5usd for dollars."
    listed = CliRunner().invoke(cli, ["keys", "list", "--format", "table", "--store", str(store)]).stdout
    assert listed.split("\t")[2] == f"spent ${budget['spent']:.6g}, budget $5\n"
    (row,) = json.loads(CliRunner().invoke(cli, ["keys", "list", "--format", "json", "--store", str(store)]).stdout)
    assert row.pop("created").endswith("+00:00")
    spent = {"usd": pytest.approx(budget["spent"])}
    limits = {"rpm": None, "expires": None, "models": [], "window": None, "spent_in_window": None}
    assert row == {"name": "bob", "budget": 5, "unit": "usd", "spent": spent, "admin": False, "revoked": None} | limits


def test_the_limits_of_a_key_are_set_changed_and_taken_away(tmp_path):
    def run(*words):
        return CliRunner().invoke(cli, ["keys", *words, "--store", str(tmp_path / "g.db")])

    def row():
        (found,) = json.loads(run("list", "--format", "json").stdout)
        return {name: found[name] for name in ("budget", "unit", "rpm", "expires", "models")}

    none = {"budget": None, "unit": None, "rpm": None, "expires": None, "models": []}
    assert run("add", "a").exit_code == 0
    assert run("set", "a", "--rpm", "60", "--models", "pets/*, gpt-4o").exit_code == 0
    assert row() == none | {"rpm": 60, "models": ["pets/*", "gpt-4o"]}
    changed = run("set", "a", "--budget", "20usd", "--expires", "2999-01-01T02:00+02:00")
    words = "nothing spent, budget $20, 60 requests per minute, expires 2999-01-01T00:00:00+00:00, models pets/* gpt-4o"
    assert changed.stdout == "" and changed.stderr.endswith(f"\t{words}\n")
    assert run("list", "--format", "table").stdout.endswith(f"\t{words}\n")
    assert run("set", "a", "--budget", "500", "--rpm", "none").exit_code == 0  # nothing is counted yet: any unit
    assert row() == none | {"budget": 500, "unit": "traces", "expires": "2999-01-01T00:00:00+00:00"} | {
        "models": ["pets/*", "gpt-4o"]
    }
    assert run("set", "a", "--budget", "none", "--expires", "none", "--models", "none").exit_code == 0
    assert row() == none


def test_a_budget_per_month_is_listed_with_what_the_month_has_spent(tmp_path):
    store = tmp_path / "g.db"

    def run(*words):
        return CliRunner().invoke(cli, ["keys", *words, "--store", str(store)])

    assert run("add", "a", "--budget", "500/month").exit_code == 0
    with closing(open_database(store, create=False)) as database, database.transaction() as rows:
        for id, days_ago, spent in [(1, 0, 3), (2, 40, 4)]:
            rows.execute(
                "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held, spent) "
                "VALUES (?, ?, 'a', 'r', 'vote', 'traces', 9, 9, ?)",
                (id, time.time() - days_ago * 86400, spent),
            )
    (row,) = json.loads(run("list", "--format", "json").stdout)
    limits = {"budget": 500, "unit": "traces", "window": "month"}
    assert row.items() >= (limits | {"spent": {"traces": 7}, "spent_in_window": {"traces": 3}}).items()
    words = "\tspent 7 traces, budget 500 traces per month, spent 3 traces in this month\n"
    assert run("list", "--format", "table").stdout.endswith(words)
    assert run("set", "a", "--budget", "2").stderr.endswith("\tspent 7 traces, budget 2 traces\n")  # below, for life
    assert run("set", "a", "--budget", "none").stderr.endswith("\tspent 7 traces\n")
    assert "write day, week or month" in str(run("set", "a", "--budget", "2/hour").exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing to change"),
        (["--rpm", "0"], "from 1 to 1,000,000, or none"),
        (["--rpm", "many"], "'many'"),
        (["--expires", "soon"], "2027-01-01"),
        (["--expires", "2001-01-01"], "is over"),
        (["--models", "a,,b"], "commas"),
        (["--budget", "16x"], "is a mean"),
    ],
)
def test_a_limit_that_is_none_is_refused_and_changes_nothing(tmp_path, words, told):
    store = ["--store", str(tmp_path / "g.db")]
    CliRunner().invoke(cli, ["keys", "add", "a", *store])
    before = CliRunner().invoke(cli, ["keys", "list", *store]).stdout
    error = CliRunner().invoke(cli, ["keys", "set", "a", *words, *store]).exception
    assert isinstance(error, PetsError) and told in str(error)
    assert CliRunner().invoke(cli, ["keys", "list", *store]).stdout == before


def test_who_is_not_there_or_revoked_has_no_limits_to_set(tmp_path):
    store = ["--store", str(tmp_path / "g.db")]
    CliRunner().invoke(cli, ["keys", "add", "a", *store])
    CliRunner().invoke(cli, ["keys", "revoke", "a", *store])
    for name in ("a", "b"):
        error = CliRunner().invoke(cli, ["keys", "set", name, "--rpm", "5", *store]).exception
        assert isinstance(error, InputError) and str(error) == f"there is no key {name!r} in use."


@pytest.mark.parametrize("words", [["list"], ["revoke", "alice"], ["set", "alice", "--rpm", "5"]])
def test_a_store_that_is_not_there_is_not_made(tmp_path, words):
    store = tmp_path / "typo.db"
    made = pets("keys", *words, "--store", store)
    assert made.returncode == 2 and made.stdout == "" and len(made.stderr.splitlines()) == 1
    assert "typo.db" in made.stderr and "no such file" in made.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "mysql", "ftp"])
def test_an_unknown_url_is_refused_without_its_password(scheme):
    result = CliRunner().invoke(cli, ["keys", "list", "--store", f"{scheme}://alice:hunter2@db/pets"])
    assert "no store that pets knows" in str(result.exception) and "hunter2" not in str(result.exception)


def test_a_store_may_be_named_by_its_url(tmp_path):
    store = f"sqlite:///{tmp_path / 'g.db'}"
    assert CliRunner().invoke(cli, ["keys", "add", "alice", "--store", store]).exit_code == 0
    assert CliRunner().invoke(cli, ["keys", "list", "--format", "table", "--store", store]).stdout.startswith("alice")
