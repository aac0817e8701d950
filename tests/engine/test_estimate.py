"""What a run would take, before anything is spent."""

import pytest

from pets.engine.budget import TokenPrice
from pets.engine.estimate import estimate, parse_expectation, seen_in_store
from pets.engine.pacing import SLOWEST_TRACE
from pets.engine.spec import RunSpec
from pets.errors import InputError
from pets.samplers import Sampling

from .conftest import asked

PROBLEMS = asked([f"q{i}" for i in range(10)])


def test_traces_tokens_cost_and_time_follow_from_a_trace():
    spec = RunSpec.of(budget="8x", concurrency=16, price=TokenPrice(1.0, 2.0))
    found = estimate(PROBLEMS, spec, "m", tokens=100.0, seconds=4.0, basis="told")
    assert (found.questions, found.traces, found.tokens, found.unit) == (10, 80, 8000, "traces")
    assert found.cost == pytest.approx((found.prompt_tokens + 2 * 8000) / 1e6)
    assert found.waves == 0 and 1 < found.times_as_long <= 2
    uniform = estimate(PROBLEMS, spec.with_options(policy="uniform"), "m", tokens=100.0, seconds=4.0, basis="told")
    assert (uniform.waves, uniform.times_as_long, uniform.points_given_up) == (0, 1.0, 0.0)
    assert uniform.seconds == 4.0 * (80 / 16 + SLOWEST_TRACE - 1) < found.seconds <= 2 * uniform.seconds


def test_the_cap_bounds_it_and_an_unknown_length_counts_at_its_most():
    spec = RunSpec.of(budget="1Mtok", max_traces=2, sampling=Sampling(max_tokens=1024))
    found = estimate(PROBLEMS, spec, "m", tokens=None, seconds=None, basis="nothing")
    assert found.traces == 20 and found.tokens == 20 * 1024 == 20 * found.max_tokens and found.seconds is None
    assert found.overshoot == 100_000


def test_nobody_knows_the_tokens_where_the_server_s_own_limit_holds():
    found = estimate(PROBLEMS, RunSpec.of(budget="8x"), "gpt-4o-mini", tokens=None, seconds=None, basis="nothing")
    assert (found.traces, found.max_tokens, found.tokens, found.cost) == (80, None, None, None)


def test_expectations_are_read_and_nonsense_is_refused(tmp_path):
    assert parse_expectation("tokens=500,seconds=2")[:2] == (500.0, 2.0)
    for text in ("tokens=many", "tokens=-1", "words=3", "tokens=nan", "seconds=inf", "seconds=1e12"):
        with pytest.raises(InputError, match="--dry-run takes"):
            parse_expectation(text)
    assert seen_in_store(None, "m")[0] is None and seen_in_store(str(tmp_path / "none.db"), "m")[1] is None
