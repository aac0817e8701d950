"""Which policy runs as what."""

import numpy as np
import pytest

from pets.errors import InputError, SpecError
from pets.registry import policies
from pets.replay.draws import draw
from pets.replay.protocol import Protocol
from pets.replay.readings import read_answers
from pets.replay.settings import contenders, hardest_first


def test_every_policy_has_its_setting():
    settings = {name: contenders([name])[0].setting for name in policies()}
    assert settings["okg"] == settings["uniform"] == settings["okg_weighted"] == "offline"
    assert settings["asc"] == settings["esc"] == settings["conf_guided"] == "stopping"
    assert settings["dsc"] == "ranked" and settings["price"] == settings["online_grid"] == "online"


def test_an_option_that_is_set_is_not_swept():
    assert len(contenders(["asc"])[0].values) > 3 and contenders(["asc:threshold=0.9"])[0].values == (0.9,)
    assert len(contenders(["asc:cap=30"])[0].values) > 3


def test_uniform_joins_the_stream_when_there_is_one():
    assert [c.setting for c in contenders(["uniform", "okg"])] == ["offline", "offline"]
    assert [(c.spec, c.setting) for c in contenders(["uniform", "price"])][-1] == ("uniform", "online")


def test_a_rule_is_capped_at_the_traces_there_are():
    (asc,) = contenders(["asc"])
    assert (asc.rule(0.8, 24).threshold, asc.rule(0.8, 24).cap) == (0.8, 24)


def test_budgets_lie_between_warmup_and_size():
    (price,) = contenders(["price:warmup=6"])
    assert price.at(Protocol(budgets=(4.0, 6.0, 8.0, 32.0)), 20) == (6.0, 8.0)
    with pytest.raises(InputError, match="no budget between its warm-up of 6 and 5"):
        price.at(Protocol(), 5)


def test_the_ranking_looks_at_traces_that_were_not_drawn(build):
    drawn = draw(read_answers(build(traces=40)), Protocol(size=20), 0)
    shares = []
    for question, spare in zip(drawn.pool.questions, drawn.spare, strict=True):
        votes = [question.labels[j] for j in spare if question.labels[j] is not None]
        shares.append(max(votes.count(a) for a in set(votes)) / len(votes))
    assert hardest_first(drawn) == np.argsort(shares, kind="stable").tolist()
    assert sorted(hardest_first(draw(read_answers(build()), Protocol(), 0))) == list(range(12))  # nothing is spare


def test_unknown_and_missing_policies_are_told():
    with pytest.raises(SpecError, match="no policy 'magic'"):
        contenders(["magic"])
    with pytest.raises(InputError, match="at least one policy"):
        contenders([])
