"""A Ray cluster that is not there, or cannot be, is one line; what is started on one: tests/e2e/test_ray.py."""

import sys

import pytest

from pets.cluster import RayCluster, first_line
from pets.errors import InputError


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r'^ray is not installed. Try: pip install "pets-llm\[ray\]"$'):
        RayCluster()


@pytest.mark.parametrize("address", ["nowhere", "ray://127.0.0.1:10001", "questions.jsonl", ":6379", "host:port"])
def test_what_is_no_address_is_said_so(address):
    with pytest.raises(InputError, match="is no address of a Ray cluster"):
        RayCluster(address)


def test_an_address_where_nobody_listens_is_refused_at_once(port):
    with pytest.raises(InputError, match=f"^nobody answers at 127.0.0.1:{port}, .*refused"):
        RayCluster(f"127.0.0.1:{port}")


def test_an_error_of_ray_is_its_first_line():
    assert first_line(RuntimeError("\n  Version mismatch: 1\n  here: 2\n")) == "Version mismatch: 1"
    assert first_line(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize(
    ("cause", "words"),
    [(TypeError("no such setting\n  at ..."), "TypeError: no such setting"), (InputError("no"), "no")],
)
def test_an_error_that_a_task_raised_is_that_of_the_task(cause, words):
    error = RuntimeError("ray::SamplerActor.start() (pid=7)\nTraceback ...")
    error.cause = cause
    assert first_line(error) == words
