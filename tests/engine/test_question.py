"""From traces to the one answer: classes, the launch-order prefix, the surest trace, the warm-up's pattern."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from pets.answers.base import AnswerType
from pets.answers.choice import Choice
from pets.answers.number import Number
from pets.answers.text import Text
from pets.confidence import Confidence
from pets.core.tally import Tally
from pets.engine.budget import TokenPrice
from pets.engine.progress import policy_certificate
from pets.engine.question import OpenQuestion, answer_type_of, excerpt_of, group_by_question, outcome_of, prompt_of
from pets.policies.okg import OKG
from pets.questions import Problem
from pets.samplers import Completion, Prompt
from pets.store import StoredTrace
from pets.types import Verdict


@dataclass(frozen=True, slots=True)
class Near(AnswerType):
    """Whole numbers; neighbours are one answer, so that 2 makes one class of 1 and 3."""

    def canonical(self, answer):
        return answer if answer.isdigit() else None

    def same(self, first, second):
        return abs(int(first) - int(second)) <= 1


def trace(number, answer, tail=None, tokens=10, **more):
    confidence = None if tail is None else Confidence(1, tail, 1, 1, tokens)
    return StoredTrace(
        "q", number, answer, f"text {number}", "stop", confidence, tokens=tokens, prompt_tokens=5, **more
    )


def opened(traces=(), kind=None, **options):
    question = OpenQuestion(Problem("q", Prompt("?"), "choice", gold="A"), kind or Choice(), **options)
    for one in traces:
        question.add(one)
    return question


def sure(decision):
    return decision.tally.votes / 100


def test_cancelled_traces_cost_cast_no_vote_and_raise_the_doubt():
    verdict = Verdict("q", "A", (("A", 1.0),), 1, 0)
    cancelled = [StoredTrace("q", n, finish="cancelled", tokens=6, prompt_tokens=2, part=600) for n in (1, 2, 3)]
    plain, raced = (
        opened([trace(0, "A"), *more]).answer(verdict, lambda decision: 0.85, complete=True) for more in ([], cancelled)
    )
    assert (raced.traces, raced.no_answer, raced.cancelled, raced.tokens) == (1, 0, 3, 28)
    assert (plain.certificate, raced.certificate) == (0.85, 0.82)


def test_an_answer_counts_votes_failures_tokens_and_money():
    traces = [trace(0, "A"), trace(1, "B"), trace(2, "A"), trace(3, None), StoredTrace("q", 4, error="gone", wasted=2)]
    question = opened(traces, price=TokenPrice(1.0, 2.0).currency())
    verdict = Verdict("q", "A", (("A", 2.0), ("B", 1.0)), 5, 2)
    answer = question.answer(verdict, sure, complete=True)
    assert (answer.answer, answer.votes, answer.certificate) == ("A", {"A": 2, "B": 1}, 0.03)
    assert (answer.traces, answer.no_answer, answer.failed) == (7, 4, 3)  # two attempts were lost before the last
    assert (answer.tokens, answer.prompt_tokens) == (40, 20)
    assert answer.cost == pytest.approx((20 + 2 * 40) / 1e6)
    assert (answer.warmup, answer.text, answer.gold) == ("2-1-1", "text 0", "A")
    assert "error" not in answer.to_plain()


def test_a_question_without_an_answer_says_why_and_shows_a_part_of_a_trace():
    traces = [StoredTrace("q", 0, text=" so " * 500, finish="length"), StoredTrace("q", 1, finish="content_filter"),
              StoredTrace("q", 2, text="who knows", finish="stop"), StoredTrace("q", 3, error="gone")]  # fmt: skip
    answer = opened(traces).answer(Verdict("q", None, (), 4, 4), sure, complete=False)
    assert (answer.cut, answer.refused, answer.unreadable, answer.failed, answer.no_answer) == (1, 1, 1, 1, 4)
    assert answer.text.startswith("so  so") and len(answer.text) <= 300
    voted = opened([*traces, trace(4, "A")]).answer(Verdict("q", "A", (("A", 1.0),), 5, 4), sure, complete=True)
    assert voted.text == "text 4"


def test_an_excerpt_is_short_and_has_both_ends():
    assert excerpt_of(" short ") == "short"
    excerpt = excerpt_of("begin " + "x" * 5000 + " end")
    assert len(excerpt) <= 300 and excerpt.startswith("begin") and excerpt.endswith("end")


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [
        ("length", "cut"),
        ("max_tokens", "cut"),
        ("MAX_TOKENS", "cut"),
        ("model_length", "cut"),
        ("repetition", "cut"),
        ("content_filter", "refused"),
        ("stop", "unreadable"),
    ],
)
def test_a_trace_that_its_server_ended_is_cut_whatever_the_server_calls_that(finish, outcome):
    assert outcome_of(StoredTrace("q", 0, finish=finish)) == outcome


def test_the_surest_trace_of_the_answer_speaks_for_it_and_the_first_of_equals():
    traces = [trace(0, "A", 1.0), trace(1, "B", 9.0), trace(2, "A", 3.0), trace(3, "A", 3.0)]
    for order in (traces, traces[::-1]):
        assert opened(order).best("A").text == "text 2"
    assert opened(traces).best(None) is None


def test_a_warm_up_is_a_pattern_once_all_four_are_back_and_none_failed():
    assert opened([trace(n, "A") for n in (3, 0, 2)]).warmup is None
    assert opened([trace(n, "A") for n in (3, 0, 2, 1)]).warmup == 0
    assert opened([trace(0, "A"), trace(1, "A"), trace(2, "A"), StoredTrace("q", 3, error="gone")]).warmup is None


def test_classes_merge_late_and_are_named_after_the_first_launched():
    question = opened(kind=Near())
    assert [question.label(form) for form in ("3", "1")] == ["3", "1"]
    assert question.pop_merges() == []
    assert question.label("2") == "3"
    assert question.pop_merges() == [("1", "3")] and question.pop_merges() == []
    for number, form in ((0, "1"), (1, "3"), (2, "2")):
        question.add(trace(number, form))
    verdict = Verdict("q", "3", (("3", 3.0),), 3, 0)
    assert question.answer(verdict, sure, complete=True).votes == {"1": 3}


def test_comparisons_of_a_question_end_with_its_seconds():
    question, pairs = opened(kind=Near()), []

    async def compare(question, first, second):
        pairs.append((first, second))
        return question.answer_type.same(first, second), question.answer_type.question_seconds / 2

    asyncio.run(question.classify(["1", None, "5", "2", "1", "3"], compare))
    assert pairs == [("1", "5"), ("1", "2")]  # then 2 and 5, 3 and all others are left apart
    assert [question.label(form) for form in "1523"] == ["1", "5", "1", "3"]


def test_a_comparison_that_is_broken_off_leaves_the_classes_as_they_were():
    question = opened(kind=Near())
    question.label("1")

    async def break_off(question, first, second):
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(question.classify(["2"], break_off))
    assert question.restore(["1"]) == {"1": "1"} and question.restore(["2"]) == {"2": "1"}


@pytest.mark.parametrize("finish", ["length", "repetition", "content_filter", "MAX_TOKENS"])
def test_a_trace_that_was_cut_gave_no_answer(finish):
    traces = [Completion("The answer is B.", reason, 9) for reason in (finish, "stop")]
    assert opened().read(traces) == [None, ("B", "B")]


def test_an_answer_is_shown_as_most_traces_of_its_class_wrote_it_the_earliest_of_equals():
    wrote = (("5.5 USD", "$5.50"), ("5.5", "5.5"), ("5.5 USD", "5.50 dollars"), ("5.5", None), ("7", "seven"))
    question = OpenQuestion(Problem("q", Prompt("?"), "number"), Number())
    for number, (form, spelling) in enumerate(wrote):
        question.add(StoredTrace("q", number, form, spelling=spelling))
    votes = (("5.5 USD", 4.0), ("7", 1.0))
    answer = question.answer(Verdict("q", "5.5 USD", votes, 5, 0), lambda decision: 0.9, complete=True)
    assert (answer.answer, answer.canonical, answer.votes) == ("5.5", "5.5 USD", {"5.5": 4, "seven": 1})
    assert question.spellings() == {"5.5 USD": "5.5", "5.5": "5.5", "7": "seven"}


def test_classes_that_are_spelled_alike_keep_their_votes_apart():
    traces = [StoredTrace("q", 0, "1234", spelling="1.234"), StoredTrace("q", 1, "1.234", spelling="1.234")]
    votes = (("1234", 1.0), ("1.234", 1.0))
    answer = opened(traces).answer(Verdict("q", "1234", votes, 2, 0), lambda decision: 0.5, complete=True)
    assert answer.votes == {"1.234": 1, "1.234 (1.234)": 1} and answer.answer == "1.234"


def test_a_form_that_an_older_store_has_as_a_fraction_joins_the_decimal():
    question = OpenQuestion(Problem("q", Prompt("?"), "text"), Text())
    assert question.restore(["1/2", "0.5", "1/3"]) == {"1/2": "0.5", "0.5": "0.5", "1/3": "1/3"}


def test_a_vote_that_was_cut_off_counts_the_prefix_and_all_where_the_prefix_is_empty():
    some = opened([trace(0, "A"), trace(2, "B"), trace(3, "B")], keep_traces=True)
    assert some.verdict().votes == (("A", 1.0),)
    none = opened([trace(1, "B"), trace(2, "B"), trace(3, "C")], keep_traces=True)
    assert none.verdict() == Verdict("q", "B", (("B", 2.0), ("C", 1.0)), 3, 0)


def test_weighted_votes_need_every_voters_confidence():
    question = opened([trace(0, "A", 9.0), trace(1, "B", 2.0), trace(2, "B", 2.0)], keep_traces=True)
    verdict = question.verdict(weighted=True)
    assert verdict.answer == "A" and verdict.votes == (("A", 9.0), ("B", 4.0))
    assert verdict.weights == (("A", (9.0,)), ("B", (2.0, 2.0)))
    plain = opened([trace(0, "A", 9.0), trace(1, "B")], keep_traces=True).verdict(weighted=True)
    assert plain.weights is None and plain.votes == (("A", 1.0), ("B", 1.0))


@pytest.mark.parametrize("letters", ["ABB", "BBA", "AB", "AABBB"])
def test_a_weighted_vote_is_certified_as_the_answer_that_it_gives(letters):
    traces = [trace(n, letter, 9.0 if letter == "A" else 2.0) for n, letter in enumerate(letters)]
    question, policy = opened(traces, keep_traces=True, options=4), OKG(zone=0.1)

    def certify(decision):
        return policy_certificate(policy, decision)

    verdict = question.verdict(weighted=True)
    answer = question.answer(verdict, certify, complete=True, zone=0.1)
    others = question.answer(replace(verdict, answer="B"), certify, complete=True, zone=0.1)
    assert answer.answer == "A" and answer.zone is None  # there is none for weights
    assert 0 < others.certificate < answer.certificate and answer.certificate + others.certificate < 1
    plain = question.answer(question.verdict(), certify, complete=True, zone=0.1)
    assert plain.certificate not in (answer.certificate, others.certificate) and plain.zone == 0.1


def test_a_class_is_certified_with_the_weights_of_all_its_forms():
    question = opened([trace(n, form, 5.0) for n, form in enumerate("313")], kind=Near(), keep_traces=True)
    question.label("2")  # 1, 2 and 3 are one
    decisions = []
    question.answer(question.verdict(weighted=True), lambda decision: decisions.append(decision) or 0.5, complete=True)
    assert [(decision.tally.counts, decision.weights) for decision in decisions] == [((3,), ((5.0, 5.0, 5.0),))]


def test_the_question_the_answer_type_or_the_caller_says_how_many_options_there_are():
    assert opened(kind=Choice(options=5), options=3).options == 5
    assert opened(options=3).options == 3
    assert opened().question.options is None


def test_an_override_replaces_the_questions_own_type_and_system_message():
    problem = Problem("q", Prompt.chat("How many?", system="Be long."), "text")
    assert type(answer_type_of(problem, "number")).__name__ == "Number"
    assert answer_type_of(problem, near := Near()) is near
    gone = Problem("q", Prompt.question("How many?"), "plugin-of-another-machine")
    assert answer_type_of(gone, "number") == answer_type_of(problem, "number")  # its own type is not looked for
    assert [message.content for message in prompt_of(problem, "Be brief.").content] == ["Be brief.", "How many?"]
    assert prompt_of(problem, None) is problem.prompt


def test_traces_are_grouped_by_question_as_they_come():
    rows = [StoredTrace("a", 0), StoredTrace("a", 1), StoredTrace("b", 0)]
    assert [(id, len(group)) for id, group in group_by_question(rows)] == [("a", 2), ("b", 1)]
    assert Tally.of(["A"]).votes == 1
