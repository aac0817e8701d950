"""Mixtures in the lab: what votes of models together are worth, chosen on questions that do not score them."""

import numpy as np
import pytest

from pets.errors import InputError
from pets.lab.mixture import Candidate, MixtureLab, choose_and_score, mixture_lab, usual_mixtures
from pets.pools import Pool, PooledQuestion

TRACES = 32


def recorded(name, right, seed=0, wrong="XYZ", gold="A", tokens=10):
    """A model that gives ``right[q]`` of its traces to gold; what else it says is spread over ``wrong``."""
    rng = np.random.default_rng([seed, *name.encode()])
    questions = []
    for place, share in enumerate(right):
        answers = [gold if rng.random() < share else str(rng.choice(list(wrong))) for _ in range(TRACES)]
        questions.append(PooledQuestion(f"q{place}", tuple(answers), gold, tokens=(tokens,) * TRACES))
    return Pool(f"set.{name}", tuple(questions))


def test_models_that_err_elsewhere_vote_better_together():
    """Each is sure of a wrong answer to its own third of the questions, which the other two outvote."""
    rights = [[0.05 if place % 3 == weak else 0.95 for place in range(60)] for weak in range(3)]
    pools = [recorded(str(n), right, n, wrong="X") for n, right in enumerate(rights)]
    lab = mixture_lab(pools, repetitions=4, sizes=(1, 16))
    singles, three = lab.candidates[:3], lab.candidates[-1]
    assert all(abs(single.correct[:, 1].mean() - 2 / 3) < 0.05 for single in singles)
    assert three.models == (0, 1, 2) and three.correct[:, 1].mean() > 0.85
    choice = choose_and_score(lab, 16)
    assert choice.difference > 0.2 and choice.low > 0.1 and choice.favourite == "0+1+2"
    assert choice.single_tokens == choice.mixture_tokens == 160


def test_a_worse_model_helps_nothing():
    good, bad = recorded("good", [0.9] * 40, 1, wrong="X"), recorded("bad", [0.1] * 40, 2, wrong="X")
    lab = mixture_lab([good, bad], repetitions=4, sizes=(16,))
    choice = choose_and_score(lab, 16)
    assert choice.single == pytest.approx(1.0, abs=0.02) and choice.difference < 0
    assert choice.favourite == "good=2+bad=1" and choice.either == pytest.approx(choice.single)


def test_what_is_chosen_on_noise_gains_nothing_on_other_questions():
    """Twenty equal candidates: the best of them in hindsight is better, the chosen one is not."""
    rng = np.random.default_rng(0)
    correct = rng.random((20, 100, 1)).round()
    rows = [(f"m{n}", (n,), (1.0,), table, None) for n, table in enumerate(correct[:10])]
    rows += [(f"x{n}", (0, 1), (1.0, 1.0), table, None) for n, table in enumerate(correct[10:])]
    lab = MixtureLab("noise", 100, (1,), tuple(Candidate(*row) for row in rows))
    choice = choose_and_score(lab, 1)
    assert max(table.mean() for table in correct) > 0.55
    assert abs(choice.mixture - 0.5) < 0.05 and choice.low < 0 < choice.high and choice.single_tokens is None


def test_sizes_end_where_traces_do_and_weights_are_kept():
    lab = mixture_lab([recorded("a", [0.8] * 9), recorded("b", [0.4] * 9, tokens=30)], mixtures=[(3, 1)], repetitions=2)
    assert lab.sizes == (1, 2, 4, 8, 16, 32)
    assert [candidate.name for candidate in lab.candidates] == ["a", "b", "a=3+b=1"]
    assert lab.candidates[2].tokens[:, 4].mean() == pytest.approx(16 * (0.75 * 10 + 0.25 * 30))


def test_the_same_seed_gives_the_same_lab():
    pools = [recorded("a", [0.6] * 9), recorded("b", [0.5] * 9)]
    first, second = (mixture_lab(pools, repetitions=2, seed=3) for _ in range(2))
    assert all((a.correct == b.correct).all() for a, b in zip(first.candidates, second.candidates, strict=True))
    assert choose_and_score(first, 4) == choose_and_score(second, 4)


def test_the_usual_mixtures_of_many_models_are_pairs_triples_and_all():
    mixtures = list(usual_mixtures(4))
    assert len(mixtures) == len(set(mixtures)) == 6 * 3 + 4 + 1 and mixtures[-1] == (1.0,) * 4


def test_without_gold_or_a_mixture_there_is_nothing_to_choose():
    pools = [Pool(f"set.{name}", (PooledQuestion("q", ("A", "B")),)) for name in "ab"]
    with pytest.raises(InputError, match="no gold answer"):
        mixture_lab(pools)
    lab = mixture_lab([recorded("a", [0.5] * 4), recorded("b", [0.5] * 4)], mixtures=[], repetitions=1)
    with pytest.raises(InputError, match="no mixture to choose"):
        choose_and_score(lab, 1)
