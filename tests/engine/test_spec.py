"""The one description of a run: every field through keywords, JSON and back; what a verb does not honour is refused."""

import json
from dataclasses import dataclass, fields
from types import UnionType
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.confidence import KINDS
from pets.core.policy import IndexPolicy
from pets.engine.budget import ModelShare, TokenPrice
from pets.engine.spec import SECTION_OF, SECTIONS, VERBS, Reused, RunOptions, RunSpec, is_honoured
from pets.errors import InputError, SpecError, StateError
from pets.policies.okg import OKG
from pets.policies.price import PriceRule
from pets.registry import make_answer_type

COUNTS = st.integers(1, 1 << 20)
SHARES = st.floats(0, 1)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
PRICES = st.builds(TokenPrice, st.floats(0.01, 99), st.floats(0, 99))
FITTED = PriceRule(rounds=2, table=((0.5, 1.0), (0.25, 2.0)))
VALUES = {
    "budget": st.sampled_from(["16x", "5000", "2Mtok", "5usd"]),
    "max_traces": st.none() | COUNTS,
    "policy": st.sampled_from(["okg", "uniform", "okg:zone=0.1", OKG(zone=0.2), FITTED]),
    "target_consistency": st.none() | st.floats(0.01, 0.99),
    "price": st.none() | PRICES,
    "overshoot": SHARES,
    "horizon": st.none(),  # excludes a window
    "budget_window": st.none() | COUNTS,
    "concurrency": st.none() | COUNTS,
    "hurry": st.none() | st.floats(0, 1e6),
    "open_questions": st.none() | COUNTS,
    "models": st.lists(st.builds(ModelShare, WORDS, COUNTS, st.none() | PRICES), max_size=3).map(tuple),
    "headers": st.lists(WORDS, max_size=3).map(tuple),
    "rpm": st.none() | COUNTS,
    "tpm": st.none() | COUNTS,
    "timeout": st.floats(0.001, 1e6),
    "tries": COUNTS,
    "backoff": st.floats(0, 60),
    "max_n": COUNTS,
    "batch_api": st.booleans(),
    "seed": st.integers(0, 1 << 40),
    "max_tokens": st.none() | COUNTS,
    "temperature": st.floats(0, 10),
    "top_p": st.floats(0.001, 1),
    "top_k": st.integers(0, 1000),
    "min_p": SHARES,
    "stop": st.lists(WORDS, max_size=3).map(tuple),
    "top_logprobs": st.none() | COUNTS,
    "window": COUNTS,
    "reasoning_effort": st.none() | WORDS,
    "extra_body": st.dictionaries(WORDS.map("x_{}".format), st.none() | COUNTS | WORDS | st.lists(COUNTS), max_size=3),
    "answer": st.sampled_from([None, "number", "regex:(.*)", make_answer_type("choice")]),
    "instruct": st.booleans(),
    "system": st.none() | WORDS,
    "confidence": st.none() | st.sampled_from(KINDS),
    "soft": st.booleans(),
    "answer_sizes": st.dictionaries(WORDS, st.none() | COUNTS, max_size=3),
    "keep_texts": st.booleans(),
    "reuse": st.sampled_from(get_args(Reused)),
    "keep_going": st.booleans(),
}
OTHER = {
    "budget": "8x", "max_traces": 3, "policy": "uniform", "target_consistency": 0.9, "price": TokenPrice(1, 2),
    "overshoot": 0.2, "horizon": 9, "budget_window": 9, "concurrency": 3, "hurry": 3.0,
    "open_questions": 3, "models": (ModelShare("a"), ModelShare("b")), "headers": ("x-a",), "rpm": 3, "tpm": 3,
    "timeout": 3.0, "tries": 3, "backoff": 3.0, "max_n": 3, "batch_api": True, "seed": 3, "max_tokens": 3,
    "temperature": 0.3, "top_p": 0.3, "top_k": 3, "min_p": 0.3, "stop": ("x",), "top_logprobs": 3, "window": 3,
    "reasoning_effort": "low", "extra_body": {"a": 1}, "answer": "number", "instruct": False, "system": "s",
    "confidence": "tail", "soft": True, "answer_sizes": {"a": 3}, "keep_texts": False, "keep_going": True,
    "reuse": "model",
}  # fmt: skip
FIELDS = {spec.name: spec for section in SECTIONS.values() for spec in fields(section)}


@dataclass(frozen=True, slots=True)
class Fewest(IndexPolicy):
    """Not registered anywhere."""

    def index(self, tally, view):
        return -tally.launched


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_every_field_goes_through_keywords_and_json_without_loss(values):
    spec = RunSpec.of(**values)
    for name in SECTION_OF:
        expected = values[name] if name in values else RunSpec().get(name)
        assert getattr(getattr(spec, SECTION_OF[name]), name) == expected
    again = RunSpec.from_plain(json.loads(json.dumps(spec.to_plain())))
    assert again.to_plain() == spec.to_plain()
    assert again.make_policy() == spec.make_policy() and again.drawn == spec.drawn


def test_a_field_is_declared_once_and_every_one_is_tried_here():
    names = [spec.name for section in SECTIONS.values() for spec in fields(section)]
    assert len(names) == len(set(names)) and set(names) == set(VALUES) == set(OTHER)


def test_the_keywords_of_solve_are_the_fields_that_it_honours():
    honoured = {name for name, spec in FIELDS.items() if is_honoured(spec, "solve")}
    assert set(RunOptions.__annotations__) == honoured - {"models", "headers"}  # which solve takes as model and headers
    for name, hint in get_type_hints(RunOptions).items():
        own = get_type_hints(SECTIONS[SECTION_OF[name]])[name]
        members = get_args(own) if isinstance(own, UnionType) else (own,)
        assert own == hint or set(members) <= set(get_args(hint))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", OTHER)
def test_a_verb_refuses_a_field_that_it_does_not_honour(name, verb):
    spec = RunSpec.of(**{name: OTHER[name]})
    if is_honoured(FIELDS[name], verb):
        assert spec.check(verb) is spec
    else:
        with pytest.raises(InputError, match=rf"^{name} is .*`pets {verb}` does not honour") as refused:
            spec.check(verb)
        assert "\n" not in str(refused.value)


def test_an_option_of_the_command_line_says_what_it_is_for():
    told = {name for name, spec in FIELDS.items() if "help" in spec.metadata}
    assert set(FIELDS) - told == {
        *("models", "headers", "horizon", "backoff", "max_n", "top_logprobs", "answer_sizes", "overshoot")
    }
    assert all(spec.metadata["help"].endswith(".") for name, spec in FIELDS.items() if name in told)
    assert all(set(spec.metadata.get("verbs", VERBS)) <= set(VERBS) for spec in FIELDS.values())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_traces": 0}, "max_traces is at least 1"),
        ({"concurrency": 0}, "concurrency is at least 1"),
        ({"tries": 0}, "tries is at least 1"),
        ({"backoff": 61}, r"backoff is in \[0, 60\]"),
        ({"rpm": 0}, "rpm is at least 1"),
        ({"timeout": 0.0}, "timeout is more than 0"),
        ({"timeout": float("inf")}, "timeout is more than 0"),
        ({"overshoot": 2}, r"overshoot is in \[0, 1\]"),
        ({"target_consistency": 1.0}, r"in \(0, 1\)"),
        ({"confidence": "loud"}, "confidence is 'loud'; expected one of 'mean'"),
        ({"reuse": "mine"}, "expected one of 'server', 'model', 'nothing'"),
        ({"hurry": -1.0}, "hurry"),
        ({"horizon": 2, "budget_window": 2}, "Take one"),
        ({"policy": "okg_weighted", "soft": True}, "weighs traces itself"),
        ({"tries": "three"}, "expected a whole number"),
        ({"max_per_question": 8}, "is now max_traces"),
        ({"temprature": 8}, "did you mean temperature"),
    ],
)
def test_what_is_outside_its_domain_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        RunSpec.of(**options)


def test_a_policy_that_there_is_not_is_refused_at_once():
    with pytest.raises(SpecError, match="okg"):
        RunSpec.of(policy="okq")


def test_a_policy_that_no_other_process_can_make_is_not_stored():
    with pytest.raises(InputError, match="entry point"):
        RunSpec.of(policy=Fewest()).to_plain()


def test_a_spec_of_a_newer_pets_is_said_to_be_one():
    with pytest.raises(StateError, match="newer pets"):
        RunSpec.from_plain({"spending": {"of_tomorrow": 1}})


def test_there_are_seeds_enough_for_every_question():
    assert RunSpec().seeds(1000).bits == 32
    assert RunSpec().seeds(5_000_000).questions >= 5_000_000
    assert RunSpec.of(max_traces=4096).seeds(5_000_000).bits == 63


def test_a_policy_that_weighs_traces_asks_for_their_confidence():
    assert RunSpec.of(policy="okg_weighted").confidence_kind == "tail"
    assert RunSpec.of(policy="okg_weighted", confidence="lowest").confidence_kind == "lowest"
    assert RunSpec.of(policy="okg").confidence_kind is None and RunSpec().drawn.top_logprobs is None
    assert RunSpec.of(soft=True, top_logprobs=5).drawn.top_logprobs == 5
