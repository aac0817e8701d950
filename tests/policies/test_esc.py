"""Early-Stopping Self-Consistency against its paper's words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.policy import View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.esc import ESC

paths = st.lists(st.sampled_from(["A", "A", "A", "A", "B", None]), min_size=45, max_size=45)


def by_the_paper(path, window, cap):
    """Draw a window; if its answers are all the same, stop; else draw the next one."""
    sampled = []
    while len(sampled) < cap:
        batch = path[len(sampled) : min(len(sampled) + window, cap)]
        sampled += batch
        if len(batch) == window and len(set(batch)) == 1 and batch[0] is not None:
            break
    return len(sampled)


@settings(deadline=None)
@given(paths, st.integers(1, 8), st.sampled_from([7, 40]))
def test_it_stops_where_the_paper_does(draws, path, window, cap):
    assert draws(ESC(window, cap), path) == by_the_paper(path, window, cap)


def test_the_first_window_can_be_the_last(draws):
    assert draws(ESC(), ["A"] * 20) == 5


def test_windows_are_disjoint_and_a_no_answer_breaks_one(draws):
    assert draws(ESC(), ["B"] + ["A"] * 19) == 10
    assert draws(ESC(), ["A", "A", None, "A", "A"] + ["A"] * 15) == 10


def test_a_window_cut_short_is_filled_before_it_is_judged():
    assert ESC().quota(Tally.of(["A", "A", "A"]), View()) == 5


def test_without_an_answer_it_draws_to_the_smaller_cap(draws):
    assert draws(ESC(), [None] * 60) == 40
    assert draws(ESC(), [None] * 60, cap=12) == 12
    assert draws(ESC(cap=7), [None] * 60) == 7


@pytest.mark.parametrize("options", [{"window": 0}, {"cap": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        ESC(**options)
