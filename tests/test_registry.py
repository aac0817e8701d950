"""Specs to policies, and the errors a typing slip gets."""

import pytest

from pets.errors import SpecError
from pets.policies.okg import OKG
from pets.policies.price import Price
from pets.registry import make_policy, policies


def test_options_take_their_fields_types():
    assert make_policy("okg") == OKG()
    assert make_policy("okg:prior=0.5,unseen=2") == OKG(prior=0.5, unseen=2)
    assert make_policy("price:rounds=3") == Price(rounds=3)
    assert make_policy("okg_weighted:missing=ignore,learn=false").learn is False


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nope", "there is no policy 'nope'. Policies: asc,"),
        ("", "there is no policy ''"),
        ("okg:prior=x", "prior='x' is not a float or learned. Options of okg: prior=learned, unseen=1"),
        ("okg:alpha=1", "no option 'alpha=1'. Options of okg"),
        ("okg:prior", "no option 'prior'"),
        ("okg:prior=-1", "okg:prior=-1: a prior is a positive number"),
        ("okg:prior=nan", "a prior is a positive number"),
        ("okg:unseen=1.5", "unseen='1.5' is not a int"),
        ("online_grid:K=9", "2 to 5 difficulty grids"),
        ("online_grid:aggregation=median", "aggregation is one of average, loss"),
        ("okg_weighted:learn=maybe", "is not a bool"),
        ("price:table=1", "table='1' is not"),
        ("uniform:x=1", "uniform has no options"),
    ],
)
def test_a_bad_spec_is_one_clear_line(spec, message):
    with pytest.raises(SpecError) as error:
        make_policy(spec)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_an_entry_point_is_found(monkeypatch):
    class Entry:
        name = "mine"

        def load(self):
            return OKG

    monkeypatch.setattr("pets.registry.entry_points", lambda group: [Entry()] if group == "pets.policies" else [])
    policies.cache_clear()
    try:
        assert make_policy("mine:prior=2") == OKG(prior=2.0)
    finally:
        policies.cache_clear()
