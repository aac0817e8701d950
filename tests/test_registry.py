"""Specs to policies, answer types and samplers, back again, and the errors a typing slip gets."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint

import pytest

import pets
from pets.answers.base import AnswerType
from pets.answers.number import Number
from pets.core.policy import IndexPolicy, View
from pets.core.tally import Tally
from pets.errors import InputError, SpecError
from pets.policies.okg import OKG
from pets.policies.price import PriceRule
from pets.pools import Pool, PooledQuestion
from pets.registry import (
    answer_types,
    as_sampler,
    make_answer_type,
    make_policy,
    make_sampler,
    policies,
    samplers,
    spec_of,
    typed_policy,
)
from pets.samplers import Completion, Prompt, Sampler, Sampling


@dataclass(frozen=True, slots=True)
class Fewest(IndexPolicy):
    weight: float = 1.0

    def index(self, tally: Tally, view: View) -> float:
        return -self.weight * tally.launched


class Echo(Sampler):
    def __init__(self, words: str, times: int = 1) -> None:
        self.words = words * times

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        return [Completion(self.words, "stop", 1)] * n


def test_options_take_their_fields_types():
    assert make_policy("okg") == OKG()
    assert make_policy("okg:prior=0.5,unseen=2") == OKG(prior=0.5, unseen=2)
    assert make_policy("price:rounds=3") == PriceRule(rounds=3)
    assert make_policy("okg_weighted:missing=ignore,learn=false").learn is False


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nope", "there is no policy 'nope'. Known: asc,"),
        ("", "there is no policy ''"),
        ("okg:prior=x", "prior='x' is not a float or learned. Options of okg: prior=learned, unseen=1"),
        ("okg:alpha=1", "no option 'alpha=1'. Options of okg"),
        ("okg:prior", "no option 'prior'"),
        ("okg:prior=-1", "okg:prior=-1: a prior is a positive number"),
        ("okg:prior=nan", "a prior is a positive number"),
        ("okg:unseen=1.5", "unseen='1.5' is not an int"),
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


def test_a_sampler_is_made_from_the_plain_arguments_of_its_constructor():
    made = make_sampler("openai:url=http://localhost:8000/v1,model=org/m:8b,dialect=llama.cpp,stream=true")
    assert type(made).__name__ == "OpenAISampler"
    asyncio.run(made.close())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nope", "there is no sampler 'nope'. Known: local, openai"),
        ("openai:model=m", "openai: url is missing. Options of openai: url, model, "),
        ("openai:url=u,model=m,dialect=french", "dialect is one of openai, vllm, llama.cpp"),
        ("openai:url=u,model=m,headers=x", "headers='x' is not"),
        ("recorded", "there is no sampler 'recorded'"),  # no spec can describe recorded traces
    ],
)
def test_a_bad_spec_of_a_sampler_is_one_clear_line(spec, message):
    with pytest.raises(SpecError) as error:
        make_sampler(spec)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_objects_and_specs_are_taken_alike():
    policy, echo = Fewest(), Echo("hm")
    assert policies().accept(policy) is policy and policies().accept("okg") == OKG()
    assert answer_types().accept(Number()) == answer_types().accept("number") == Number()
    assert as_sampler(echo) is echo


@pytest.mark.parametrize("value", [OKG, 3, None, Number()])
def test_what_is_neither_an_object_nor_a_spec_is_refused(value):
    with pytest.raises(SpecError, match=r"expected a policy \(an object of Policy\) or a spec such as 'asc'; got"):
        policies().accept(value)


def test_the_spec_of_an_object_makes_it_again():
    specs = [*policies(), "okg:prior=1.0,lengths=false", "price:rounds=3", "okg_weighted:missing=ignore"]
    for spec in specs:
        assert spec_of(make_policy(spec)) == spec
    named = {"regex": "regex:a=(.), b", "python": "python:textwrap:dedent"}
    for spec in [*(named.get(name, name) for name in answer_types()), "choice:options=4", "choice:digits=0-1"]:
        assert spec_of(make_answer_type(spec)) == spec


def test_what_no_spec_describes_has_none():
    assert spec_of(Fewest()) is None  # not registered
    assert spec_of(replace(OKG(), edges=(100.0,))) is None  # learned


@pytest.fixture
def plugins(monkeypatch) -> Iterator[list[EntryPoint]]:
    """Entry points that this test brings."""
    entries: list[EntryPoint] = []
    monkeypatch.setattr("pets.registry.entry_points", lambda group: [e for e in entries if e.group == group])
    catalogs = (policies, answer_types, samplers)
    for catalog in catalogs:
        catalog.cache_clear()
    yield entries
    for catalog in catalogs:
        catalog.cache_clear()


def entry(name: str, value: str, group: str = "pets.policies") -> EntryPoint:
    return EntryPoint(name, value, group)


def test_an_entry_point_is_found(plugins, monkeypatch):
    plugins.append(entry("mine", "pets.policies.okg:OKG"))
    assert make_policy("mine:prior=2") == OKG(prior=2.0)
    assert spec_of(OKG()) == "okg"  # a run that is kept goes on without the plugin, too
    monkeypatch.setattr("pets.samplers.base.Echo", Echo, raising=False)
    plugins.append(entry("echo", "pets.samplers.base:Echo", "pets.samplers"))
    assert make_sampler("echo:words=ab,times=2").words == "abab"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no.such.module:Policy", "ModuleNotFoundError"),
        ("pets.policies.okg:NoSuchClass", "AttributeError"),
        (
            "pets.answers.number:Number",
            "pets.answers.number:Number is no class that subclasses pets.core.policy.Policy",
        ),
        ("pets.core.policy:IndexPolicy", "is no class that subclasses"),
        ("pets.registry:make_policy", "is no class that subclasses"),
    ],
)
def test_a_broken_plugin_is_reported_where_it_is_named_and_breaks_nothing_else(plugins, value, reason):
    plugins.append(entry("mine", value))
    assert make_policy("okg") == OKG()
    assert "mine" not in policies() and reason in policies().broken["mine"]
    with pytest.raises(SpecError, match="the policy 'mine' cannot be loaded") as error:
        make_policy("mine")
    assert reason in str(error.value)
    with pytest.raises(SpecError, match="Broken plugins: mine"):
        make_policy("nope")


def test_a_plugin_does_not_replace_a_built_in(plugins):
    plugins.append(entry("okg", "pets.policies.price:PriceRule"))
    with pytest.warns(UserWarning, match="its policy 'okg' is left out, PETS has one of that name"):
        assert make_policy("okg") == OKG()


def test_two_plugins_of_one_name_are_both_refused(plugins):
    plugins += [entry("mine", f"pets.policies.{name}") for name in ("okg:OKG", "price:PriceRule", "asc:ASC")]
    with pytest.raises(SpecError, match="uninstall one"):
        make_policy("mine")


@dataclass(frozen=True, slots=True)
class Shouted(AnswerType):
    """An answer type in no registry."""

    def canonical(self, answer: str) -> str | None:
        return answer.upper() or None

    def extract(self, text: str) -> str | None:
        return self.canonical(text)


@dataclass
class Changing(IndexPolicy):
    """Not frozen, so that it cannot be hashed."""

    def index(self, tally: Tally, view: View) -> float:
        return -tally.launched


@pytest.mark.parametrize("policy", [Fewest(), Changing(), OKG(prior=1.0)], ids=lambda policy: type(policy).__name__)
def test_solve_takes_policies_answer_types_and_samplers_as_objects(policy):
    solution = pets.solve(["a?", "b?"], policy=policy, answer=Shouted(), sampler=Echo("yes"), budget="3x", store=None)
    assert [(answer.votes, answer.traces) for answer in solution.answers] == [({"YES": 3}, 3)] * 2


def test_solve_takes_a_sampler_by_its_spec(plugins):
    plugins.append(entry("echo", f"{__name__}:Echo", group="pets.samplers"))
    (answer,) = pets.solve(["a?"], sampler="echo:words=yes", answer="text", budget=2, store=None).answers
    assert answer.votes == {"yes": 2}


def test_replay_takes_policies_as_objects():
    pool = Pool("mine", tuple(PooledQuestion(f"q{i}", ("A", "A", "B", "A") * 2) for i in range(4)))
    (result,) = pets.replay([pool], [Fewest(), "okg"], repetitions=1, size=8)
    assert [each.policy for each in result.results] == ["Fewest()", "okg"]


@pytest.mark.parametrize("option", [{"policy": Fewest()}, {"answer": Shouted()}], ids=lambda option: next(iter(option)))
def test_what_no_spec_describes_cannot_be_stored_and_says_so_in_one_line(option, tmp_path):
    store = tmp_path / "runs.db"
    with pytest.raises(InputError, match="Install it as an entry point of pets, or run without a store") as error:
        pets.solve(["a?"], sampler=Echo("yes"), budget=2, store=store, **option)
    assert "\n" not in str(error.value) and not store.exists()


OWN = """
from dataclasses import dataclass
from typing import ClassVar

from pets import QuotaPolicy


@dataclass(frozen=True, slots=True)
class Lead(QuotaPolicy):
    solitary: ClassVar[bool] = True
    lead: int = 3

    def quota(self, tally, view):
        return tally.launched + (2 * max(tally.counts, default=0) - tally.votes < self.lead)
"""


def test_a_policy_of_ones_own_code_is_made_where_it_is_typed_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_rules.py").write_text(OWN)
    assert make_policy("python:own_rules:Lead").lead == 3
    assert typed_policy("python:own_rules:Lead:lead=2").lead == 2 and typed_policy("okg") == "okg"
    for spec in (
        "python:own_rules",
        "python:own_rules:QuotaPolicy",
        "python:own_rules:dataclass",
        "python:own_rules:Lead:led=2",
    ):
        with pytest.raises(SpecError):
            make_policy(spec)
    with pytest.raises(InputError, match="cannot be imported"):
        make_policy("python:no_such_module:Lead")
    with pytest.raises(SpecError, match="there is no policy 'python'"):
        policies().accept("python:own_rules:Lead")  # what stores and files hold
