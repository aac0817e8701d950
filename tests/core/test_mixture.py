"""The turns of models: bounds of their shares, and what becomes of the turns of a model that is away."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.mixture import ModelMixture
from pets.errors import InputError

WEIGHTS = st.lists(st.integers(1, 12), min_size=1, max_size=6).map(tuple)


@settings(max_examples=60, deadline=None)
@given(WEIGHTS)
def test_after_every_launch_each_model_is_less_than_one_trace_from_its_share(weights: tuple[int, ...]) -> None:
    mixture = ModelMixture(weights)
    models = np.array([mixture.model_of(place) for place in range(2 * len(mixture.turns) + 7)])
    bound = 1 - 1 / max(1, 2 * len(weights) - 2) if len(weights) > 1 else 0
    for model, share in enumerate(mixture.shares):
        counts = np.cumsum(models == model)
        assert np.abs(counts - share * np.arange(1, len(models) + 1)).max() <= bound + 1e-9


@settings(max_examples=60, deadline=None)
@given(WEIGHTS, st.integers(0, 1000), st.integers(1, 40))
def test_launches_in_a_row_are_less_than_two_traces_from_the_shares(
    weights: tuple[int, ...], start: int, length: int
) -> None:
    mixture = ModelMixture(weights)
    models = [mixture.model_of(start + place) for place in range(length)]
    for model, share in enumerate(mixture.shares):
        assert abs(models.count(model) - share * length) < 2


def test_equal_weights_are_turns_in_the_order_given() -> None:
    assert [ModelMixture((1, 1)).model_of(place) for place in range(5)] == [0, 1, 0, 1, 0]
    assert ModelMixture((7, 7, 7)).turns == (0, 1, 2)
    assert ModelMixture((3,)).turns == (0,)


def test_weights_with_decimals_are_as_good_as_whole_ones() -> None:
    assert ModelMixture((0.2, 0.1)).turns == ModelMixture((2, 1)).turns


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=5).map(tuple), st.data())
def test_the_turns_of_a_model_that_is_away_go_to_the_others_by_their_weights(
    weights: tuple[int, ...], data: st.DataObject
) -> None:
    away = data.draw(st.integers(0, len(weights) - 1))
    mixture = ModelMixture(weights)
    missed = [place for place in range(4000) if mixture.model_of(place) == away]
    takers = [mixture.model_at(place, 1) for place in missed]
    left = sum(weights) - weights[away]
    for model, weight in enumerate(weights):
        if model != away:
            assert abs(takers.count(model) - len(missed) * weight / left) < 1


@settings(max_examples=60, deadline=None)
@given(WEIGHTS, st.integers(0, 1000))
def test_every_model_is_asked_once_and_then_none(weights: tuple[int, ...], place: int) -> None:
    models = [ModelMixture(weights).model_at(place, attempt) for attempt in range(len(weights) + 2)]
    assert models[0] == ModelMixture(weights).model_of(place)
    assert sorted(models[: len(weights)]) == list(range(len(weights))) and models[len(weights) :] == [None, None]


@pytest.mark.parametrize("weights", [(), (1, 0), (1, -2), (float("nan"), 1), (float("inf"), 1)])
def test_weights_that_are_none_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="greater than 0"):
        ModelMixture(weights)


def test_a_sequence_that_would_take_too_long_to_repeat_is_refused() -> None:
    with pytest.raises(InputError, match="too many digits"):
        ModelMixture((0.123457, 1))
