"""The plain lead rule."""

import pytest

from pets.errors import InputError
from pets.policies.lead import Lead


def test_it_stops_at_its_lead_whoever_leads(draws):
    assert draws(Lead(2), ["A", "B", "B", "A", "B", "B", "B"]) == 6
    assert draws(Lead(3), ["A", None, "A", "C", "A", "A"]) == 6
    assert draws(Lead(1), ["A", "B"]) == 1


def test_a_tie_runs_to_the_smaller_cap(draws):
    assert draws(Lead(2, cap=9), ["A", "B"] * 30) == 9 and draws(Lead(2), ["A", "B"] * 30, cap=12) == 12


@pytest.mark.parametrize("options", [{"votes": 0}, {"cap": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        Lead(**options)
