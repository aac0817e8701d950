"""Classes are the connected components of `same`, merges are reported at once, and gold is read as answers are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.base import Classes
from pets.answers.choice import Choice
from pets.answers.math import Math
from pets.answers.number import Number
from pets.answers.text import Text
from pets.registry import make_answer_type


def components(edges: set[frozenset[int]], nodes: set[int]) -> set[frozenset[int]]:
    """Brute force: grow each node's component until it stops growing."""
    found = set()
    for node in nodes:
        reached = {node}
        while more := {n for edge in edges if edge & reached for n in edge} - reached:
            reached |= more
        found.add(frozenset(reached & nodes))
    return found


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=14),
    st.sets(st.frozensets(st.integers(0, 9), min_size=2, max_size=2), max_size=12),
)
def test_classes_are_connected_components_named_by_their_first_member(order, edges):
    edges = {edge for edge in edges if edge <= set(order)}
    classes = Classes(lambda one, other: one == other or frozenset((int(one), int(other))) in edges)
    names: dict[str, str] = {}
    for answer in map(str, order):
        names.setdefault(answer, answer)
        for absorbed, into in classes.add(answer):
            names = {member: into if name == absorbed else name for member, name in names.items()}
    assert names == {answer: classes.find(answer) for answer in map(str, order)}
    groups = {frozenset(int(a) for a in names if names[a] == name) for name in names.values()}
    assert groups == components(edges, set(order))
    for name in classes.names():
        assert name == next(str(answer) for answer in order if names[str(answer)] == name)


def test_a_late_merge_moves_all_votes_to_the_class_seen_first():
    classes = Classes(lambda one, other: "bridge" in (one, other))
    votes: dict[str, int] = {}
    for answer in ["b", "a", "a", "a", "bridge"]:
        merges = classes.add(answer)
        votes[answer] = votes.get(answer, 0) + 1
        for absorbed, into in merges:
            votes[into] = votes.get(into, 0) + votes.pop(absorbed)
    assert votes == {"b": 5} and classes.names() == ["b"]


def test_an_answer_seen_again_merges_nothing():
    classes = Text().classes()
    assert [classes.add(answer) for answer in ("x", "y", "x")] == [[], [], []]


def test_a_type_says_whether_it_is_closed_and_whether_its_forms_merge():
    assert (Text().options, Number().options, Choice().options, Choice(options=4).options) == (None, None, None, 4)
    assert (Text.merges, Number().merges, Choice.merges, Math.merges) == (False, True, False, True)


def test_labels_leave_no_answer_as_none():
    assert Text().labels(["Paris", None, "...", "paris."]) == ["paris", None, None, "paris"]
    assert Text().labels([None]) == [None] and Text().merge([]) == {}


@pytest.mark.parametrize(
    ("spec", "gold", "form"),
    [
        ("number", "1,004", "1004"),
        ("number", "She has 48 + 24 = <<48+24=72>>72 clips.\n#### 72", "72"),
        ("text", "So it was Paris.\n#### Paris", "paris"),
        ("choice", "(B)", "B"),
        ("math", "Squaring gives $x = 3$, so the answer is $\\boxed{\\frac{1}{2}}$.", "0.5"),
        ("number", "see the appendix", None),
    ],
)
def test_gold_has_a_form(spec, gold, form):
    assert make_answer_type(spec).gold_form(gold) == form


def test_gold_takes_the_label_of_the_answers_that_equal_it():
    kind = make_answer_type("math")
    assert kind.gold_label("0.5", ["7", None, "1/2"]) == "1/2"
    assert kind.gold_label("8", ["7"]) == "8" and kind.gold_label("", ["7"]) is None


@pytest.mark.parametrize(
    ("spec", "text", "form", "spelling"),
    [
        ("number", "Therefore, the total is **$222.36**.", "222.36 USD", "$222.36"),
        ("number", "The answer is 16,800,000 people.", "16800000", "16,800,000"),
        ("number", r"So it is \boxed{\frac{3}{4}}.", "0.75", r"\frac{3}{4}"),
        ("math", r"So $x = \frac{3}{4}$.", "0.75", r"\frac{3}{4}"),
        ("math", r"Hence \boxed{2\sqrt 3}", r"2\sqrt{3}", r"2\sqrt 3"),
        ("text", "The answer is **São Paulo**.", "sao paulo", "São Paulo"),
        ("text", "The answer is May 1, 2021.", "2021-05-01", "May 1, 2021"),
        ("yesno", "The answer is: False.", "no", "False"),
        (r"regex:x=(\S+)", "x=Köln, x=Łódź.", "lodz", "Łódź"),
        ("choice", "The answer is (c).", "C", "C"),
        ("auto", "The answer is 8.730.", "8.73", "8.730"),
    ],
)
def test_an_answer_is_read_with_its_spelling(spec, text, form, spelling):
    assert make_answer_type(spec).read(text) == (form, spelling)


def test_a_type_that_writes_extract_may_call_that_of_its_base():
    class Lowered(Number):
        def extract(self, text):
            return super().extract(text.lower())

    assert Lowered().read("THE ANSWER IS 5.") == ("5", "5") == Lowered().read("the answer is 5.")
