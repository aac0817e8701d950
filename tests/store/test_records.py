"""Settings survive as JSON, those of version 0.1.0 too; damaged ones are one clear line."""

import json

import pytest

from pets.core.budget import Currency
from pets.errors import StateError
from pets.store import RunSettings

SETTINGS = RunSettings("okg", 10)


def test_settings_are_read_back_equal():
    settings = RunSettings(
        "okg:prior=1", 10**9, Currency.money(1.0, 2.0, prompt_tokens=10, max_tokens=10), "5usd", 64, 7, "m",
        ("http://a/v1", "http://b/v1"), "tail", 8, "mine", "0.2.0", {"config": {"tries": 6}},
    )  # fmt: skip
    assert RunSettings.from_json(settings.to_json()) == settings


def test_settings_of_version_0_1_0_are_read():
    data = json.loads(SETTINGS.to_json()) | {"sampling": {}}
    assert RunSettings.from_json(json.dumps(data)) == SETTINGS


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"policy": "okg"}', '{"currency": {}, "endpoints": [], "colour": 1}']
)
def test_settings_that_cannot_be_read_are_one_line(text):
    with pytest.raises(StateError, match="damaged") as error:
        RunSettings.from_json(text)
    assert "\n" not in str(error.value)


def test_damaged_settings_are_one_line(store, problems):
    store.create(SETTINGS, problems).close()
    store._database.connection.execute("""UPDATE runs SET settings = '{"policy": "okg"}'""")
    with pytest.raises(StateError, match="damaged"):
        store.view(1)
    store._database.connection.execute("UPDATE runs SET settings = '{'")
    with pytest.raises(StateError, match="damaged"):
        store.runs()
