"""The shipped pool keeps what its card promises."""

from collections import Counter

from pets.pools import load, read_pool
from pets.pools.reading import SHIPPED
from pets.questions import question_set

POOL = load("starter")


def leader(question):
    """The leader's share of the votes cast, and whether it is tied."""
    votes = Counter(answer for answer in question.answers if answer is not None).most_common(2)
    cast = sum(answer is not None for answer in question.answers)
    return votes[0][1] / cast, len(votes) > 1 and votes[0][1] == votes[1][1]


def test_every_question_of_the_set_is_there_with_128_traces():
    asked = [(problem.id, problem.gold) for problem in question_set("starter").problems]
    assert [(question.id, question.gold) for question in POOL.questions] == asked
    assert len(POOL.questions) == 300
    assert all(len(question.answers) == len(question.tokens) == 128 for question in POOL.questions)


def test_it_is_small_and_has_the_four_confidences():
    assert SHIPPED["starter"].stat().st_size <= 2_000_000
    for kind in ("mean", "tail", "lowest", "bottom"):
        questions = read_pool(SHIPPED["starter"], confidence=kind).questions
        traces = [pair for q in questions for pair in zip(q.confidence, q.tokens, strict=True)]
        assert all((value is None) == (tokens == 0) for value, tokens in traces)  # ended before it began
        values = [value for value, _ in traces if value is not None]
        assert min(values) > 0.0 and max(values) < 88.0 and len(values) > 0.999 * len(traces)
    lowest, bottom, mean = (
        [value for q in POOL.questions for value in q.confidences[kind] if value is not None]
        for kind in ("lowest", "bottom", "mean")
    )
    assert all(a <= b + 1e-3 for a, b in zip(lowest, bottom, strict=True))
    assert sum(a < b for a, b in zip(lowest, mean, strict=True)) > 0.95 * len(mean)


def test_some_questions_are_easy_some_hopeless_and_many_in_between():
    shares = [leader(question) for question in POOL.questions]
    hopeless = sum(share < 0.3 or tied for share, tied in shares) / len(shares)
    easy = sum(share > 0.9 for share, _ in shares) / len(shares)
    between = sum(0.3 <= share <= 0.9 for share, _ in shares) / len(shares)
    assert between >= 1 / 4 and hopeless >= 1 / 10 and easy >= 1 / 5
