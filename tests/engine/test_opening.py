"""Questions in any form become a run; the same again goes on with it, and a refusal changes nothing."""

from importlib import import_module

import pytest

from pets.core.budget import Budget
from pets.engine import Engine
from pets.engine.resume import bounded_spec, longest_prompt, open_run, question_set_of, reopen_run, run_record
from pets.engine.sources import Servers, Sources
from pets.engine.spec import RunSpec
from pets.errors import BudgetError, InputError, StateError
from pets.policies.uniform import Uniform
from pets.store import Store

from ..streams import make_stream, stream_settings
from .conftest import Scripted, asked

RECORDS = [{"question": "2 + 2?", "answer": "4"}, {"question": "2 + 3?", "answer": None}]


@pytest.mark.parametrize("library", ["pandas", "polars", None])
def test_questions_come_as_a_data_frame_or_as_records(library):
    records = [RECORDS[0], {"question": "2 + 3?"}]
    questions = import_module(library).DataFrame(RECORDS) if library else records
    assert [(problem.id, problem.gold) for problem in question_set_of(questions).problems] == [("1", "4"), ("2", None)]


def test_a_record_that_is_no_question_is_named_by_its_number():
    with pytest.raises(InputError, match="question 2: "):
        question_set_of([{"question": "2 + 2?"}, {"gold": "4"}])


def test_there_is_at_least_one_question():
    with pytest.raises(InputError, match="at least one"):
        question_set_of([])


@pytest.mark.parametrize("options", [{"horizon": 5}, {"models": ()}, {"max_n": 3}, {"answer_sizes": {}}])
def test_what_solve_does_not_honour_is_no_option_of_it(options):
    with pytest.raises(InputError, match="there is no option"):
        open_run(asked("a"), Servers(sampler=Scripted()), options=options)


def test_a_run_is_new_once_and_taken_up_from_then_on(tmp_path):
    same = {"servers": Servers(model="m", sampler=Scripted()), "store": tmp_path / "runs.db"}
    new = open_run(asked("ab"), **same, options={"budget": "4x"})
    assert (new.origin, new.repeatable, new.run, new.record.total) == ("new", True, None, 8)
    new.store.create(new.record, new.problems, identity=new.identity).close()
    new.store.close()
    on = open_run(asked("ab"), **same, options={"budget": "4x", "concurrency": 3})
    assert (on.origin, on.run.id, on.spec.pacing.concurrency) == ("unfinished", 1, 3)
    assert on.record == new.record and on.spec.with_options(concurrency=None) == new.spec
    Engine(on).close()
    other = open_run(asked("ab"), **same, options={"budget": "9x"})  # nothing was paid for: another run
    assert (other.origin, other.run) == ("new", None)
    other.store.close()


def test_a_stream_is_not_taken_up_as_a_run(tmp_path):
    path = tmp_path / "runs.db"
    make_stream(stream_settings(Uniform(), Budget(8, 4), horizon=2), [Scripted()], print, store=path).close()
    with pytest.raises(StateError, match="is a stream"):
        reopen_run(path, "last", Servers(), changes={})
    with Store.open(path) as store:
        store.open_run().close()  # nobody holds it


class Bounded(Scripted):
    def __init__(self, length):
        super().__init__()
        self.length = length

    async def max_model_len(self):
        return self.length


TOKENS, SYSTEM = RunSpec.of(budget="2Mtok"), "Be brief."


@pytest.mark.parametrize("budget", ["2", "2tok", "$0.0000001"])
def test_what_a_budget_should_be_at_least_is_written_as_budgets_are(budget):
    spec = RunSpec.of(budget=budget, price="in=1,out=2", max_tokens=64)
    with pytest.raises(BudgetError, match="Give at least ") as error:
        run_record(spec, asked("abc"), Sources())
    least = str(error.value).partition("Give at least ")[2].partition(", or")[0]
    assert run_record(spec.with_options(budget=least), asked("abc"), Sources()).total > 0


def test_the_limit_of_a_trace_is_the_users_else_what_the_shortest_context_leaves_beside_the_prompt():
    servers, problems = [Bounded(4096), Bounded(2048)], asked("ab")
    prompt = longest_prompt(TOKENS, problems)
    assert bounded_spec(TOKENS, problems, servers).sampling.max_tokens == 2048 - prompt
    assert bounded_spec(TOKENS.with_options(max_tokens=64), problems, servers).sampling.max_tokens == 64
    assert bounded_spec(RunSpec.of(budget="16x"), problems, servers).sampling.max_tokens is None
    assert longest_prompt(TOKENS, None) > longest_prompt(TOKENS.with_options(system=SYSTEM), problems) > prompt > 0


@pytest.mark.parametrize("lengths", [(None,), (4096, None), (2,)])
def test_without_a_limit_that_is_known_a_budget_in_tokens_or_money_asks_for_one(lengths):
    spec, problems = bounded_spec(TOKENS, asked("ab"), [Bounded(length) for length in lengths]), asked("ab")
    with pytest.raises(BudgetError, match="--max-tokens"):
        run_record(spec, problems, Sources())
