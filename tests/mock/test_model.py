"""What the model answers, what it refuses, and how it counts."""

from collections import Counter

import httpx
import pytest
from scipy.stats import chisquare

from pets.errors import InputError
from pets.mock import DistributionAnswers, Faults, MockModel, PoolAnswers
from pets.mock.model import QuestionMatcher
from pets.pools import Pool, PooledQuestion

from .conftest import TRACES, answers

IDS = ["q1", "q12", "gpqa-001", "#7", "What is 2 + 2?", "1"]
MATCHER = QuestionMatcher(IDS)
ANSWERS = DistributionAnswers({"q": {"A": 1.0}})


def test_eight_choices_are_the_eight_recorded_traces(serve):
    for reply in (serve().chat(n=8, seed=40), serve().complete(n=8, seed=40)):
        body = reply.json()
        assert Counter(answers(reply)) == Counter(TRACES)
        assert [choice["index"] for choice in body["choices"]] == list(range(8))
        finishes = [choice["finish_reason"] for choice in body["choices"]]
        assert finishes.count("length") == 1 and finishes.count("stop") == 7
        assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 130, "total_tokens": 133}


def test_choice_i_has_seed_plus_i(serve):
    client = serve()
    together = client.chat(n=5, seed=7).json()["choices"]
    alone = [client.chat(seed=7 + at).json()["choices"][0] for at in range(5)]
    assert [choice["message"] for choice in together] == [choice["message"] for choice in alone]
    assert client.chat(n=5, seed=7).json()["choices"] == together


def test_without_a_seed_the_server_draws_by_its_own(serve):
    first, same, other = (serve(seed=seed) for seed in (1, 1, 2))
    said = [[answers(client.chat(n=2)) for _ in range(12)] for client in (first, same, other)]
    assert said[0] == said[1] != said[2] and len(set(map(tuple, said[0]))) > 1


def test_over_many_seeds_answers_come_as_often_as_in_the_pool(serve):
    recorded = ["A"] * 60 + ["B"] * 30 + ["C"] * 10
    client = serve(PoolAnswers(Pool("p", (PooledQuestion("q", tuple(recorded)),))))
    said = Counter()
    for request in range(20):
        said.update(answers(client.complete("q", n=100, seed=request * 1_000_003)))
    assert chisquare([said["A"], said["B"], said["C"]], [1200, 600, 200]).pvalue > 1e-4


def test_temperature_zero_gives_the_vote(serve):
    assert set(answers(serve().chat(n=8, temperature=0))) == {"A"}


def test_the_statistics_add_up(serve):
    client = serve()
    tokens = [client.chat(n=3).json()["usage"]["total_tokens"] for _ in range(4)] + [
        client.complete("nothing that is known").json()["usage"]["total_tokens"]
    ]
    client.chat(n=0)
    stats = client.stats()
    assert (stats["requests"], stats["traces"], stats["refused"], stats["unmatched"]) == (6, 13, 1, 1)
    assert stats["prompt_tokens"] + stats["completion_tokens"] == sum(tokens)
    assert stats["lost"] == stats["abandoned"] == 0 and stats["faults"] == {}


def test_n_is_ignored(serve):
    client = serve(faults=Faults(one_choice=1))
    assert len(client.chat(n=8).json()["choices"]) == 1
    assert client.stats()["faults"] == {"one_choice": 1} and client.stats()["traces"] == 1


def test_n_is_refused_above_a_limit(serve):
    client = serve(n_limit=4, faults=Faults(slow=1, slow_seconds=0))
    reply = client.chat(n=5)
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "n" and "4 slots" in reply.text
    assert len(client.chat(n=4).json()["choices"]) == 4 and client.stats()["faults"] == {"n_refused": 1, "slow": 1}


def test_mixed_faults_come_at_their_rates_the_same_way_each_time_and_the_statistics_add_up(serve):
    def run():
        client = serve(faults=Faults(rate_limit=0.1, error_500=0.05, half_body=0.05, one_choice=0.1), seed=3)
        seen, traces = Counter(), 0
        for seed in range(400):
            try:
                reply = client.chat(n=2, seed=2 * seed)
            except httpx.RemoteProtocolError:
                seen["half_body"] += 1
                continue
            choices = len(reply.json()["choices"]) if reply.status_code == 200 else 0
            traces += choices
            seen[{429: "rate_limit", 500: "error_500"}.get(reply.status_code, f"choices {choices}")] += 1
        return client.stats(), seen, traces

    (stats, seen, traces), again = run(), run()
    assert again == (stats, seen, traces)
    assert stats["traces"] == traces and stats["lost"] == 2 * seen["half_body"]
    assert stats["faults"].pop("one_choice") == seen["choices 1"]
    assert stats["faults"] == {name: seen[name] for name in ("rate_limit", "error_500", "half_body")}
    assert 20 <= seen["rate_limit"] <= 62 and 5 <= seen["half_body"] <= 38


@pytest.mark.parametrize("wrong", [{"tokens_per_second": -1}, {"n_limit": 0}, {"model": ""}, {"api_key": ""}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError):
        MockModel(ANSWERS, **wrong)


@pytest.mark.parametrize(
    ("prompt", "question"),
    [
        ("q12", "q12"),
        ("Answer q1, please", "q1"),
        ("q12 comes after q1", "q12"),
        ("Question 1. See gpqa-001!", "gpqa-001"),
        ("(#7)", "#7"),
        ("Think. What is 2 + 2? CompletionResponse briefly.", "What is 2 + 2?"),
        ("the answer to 1", "1"),
        ("q1\n", "q1"),
    ],
)
def test_the_longest_id_that_stands_alone_wins(prompt, question):
    assert MATCHER.find(prompt) == (question, True)


def test_of_equal_ids_the_last_wins_as_in_few_shot_prompts():
    assert QuestionMatcher(["q1", "q2", "q3"]).find("Q: q3 A: 5\nQ: q1 A: 7\nQ: q2 A:") == ("q2", True)


def test_a_whole_prompt_that_was_given_is_its_question_and_nothing_else_is():
    matcher = QuestionMatcher(["q1", "q2"], {"Q: 3 + 4?\nA:": "q2", "elsewhere": "q9"})
    assert matcher.find("Q: 3 + 4?\nA:") == ("q2", True)
    assert not matcher.find("Q: 3 + 4?\nA: ")[1] and not matcher.find("elsewhere")[1]


@pytest.mark.parametrize("prompt", ["", "xq1", "q123", "gpqa-0012", "q1_b", "\ud800"])
def test_a_prompt_that_names_none_always_gets_the_same_one(prompt):
    first, again = MATCHER.find(prompt), QuestionMatcher(IDS).find(prompt)
    assert first == again and not first[1]


def test_prompts_that_name_none_spread_over_the_questions():
    found = [MATCHER.find(f"prompt{number}x")[0] for number in range(600)]
    assert min(found.count(id) for id in IDS) > 60
