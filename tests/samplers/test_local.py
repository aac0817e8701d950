"""SmolLM2 itself: seeds, choices, log-probabilities, the distribution of the draws."""

import asyncio
from collections import Counter
from dataclasses import replace
from math import exp

import httpx
import pytest
from scipy.stats import chi2_contingency, chisquare

from pets.errors import InputError, LocalModelError, RefusedError
from pets.samplers import Prompt, Sampling, Seeds
from pets.samplers.local import LocalSampler

COUNT = Prompt("Q: What is 3 + 4?\nA: We add 3 and 4. The answer is 7.\nQ: What is 5 + 9?\nA:")
SKY = Prompt("My favourite colour is")
SHORT = Sampling(max_tokens=12, top_logprobs=20, window=4)
ONE = Sampling(max_tokens=1)


def test_the_same_seed_gives_the_same_trace_whatever_else_is_decoded(run, local):
    async def go():
        first = await local.sample(COUNT, 8, 100, SHORT)
        cached = await local.sample(COUNT, 8, 100, SHORT)
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(local.sample(COUNT, 3, 100, SHORT))
            group.create_task(local.sample(SKY, 3, 7, SHORT))
        alone = [(await local.sample(COUNT, 1, 100 + i, SHORT))[0] for i in range(3)]
        return first, cached, beside.result(), alone

    first, cached, beside, alone = ([replace(trace, cached_tokens=0) for trace in part] for part in run(go()))
    assert cached == first  # but for what the server had cached of the prompt
    assert beside == alone == first[:3]
    assert len({trace.text for trace in first}) > 1


def test_another_seed_gives_another_trace(run, local):
    assert run(local.sample(COUNT, 4, 0, SHORT)) != run(local.sample(COUNT, 4, 1000, SHORT))


def test_eight_traces_in_one_request_with_confidence(run, local):
    traces = run(local.sample(COUNT, 8, 0, SHORT))
    assert len(traces) == 8
    for trace in traces:
        assert trace.tokens == trace.confidence.tokens
        assert trace.finish in {"stop", "length"}
        assert trace.confidence.lowest <= trace.confidence.mean


def test_more_traces_than_slots_keep_the_order_of_their_seeds(run, local):
    many = run(local.sample(SKY, 19, 50, ONE))
    assert len(many) == 19
    few = run(local.sample(SKY, 3, 66, ONE))  # what of the prompt is in a slot's cache depends on who was there before
    assert [replace(trace, cached_tokens=0) for trace in many[16:]] == [replace(t, cached_tokens=0) for t in few]
    assert all(trace.tokens == 1 and trace.confidence is None for trace in many)


def test_tokens_are_counted_for_each_trace(run, local):
    plain = run(local.sample(COUNT, 6, 0, Sampling(max_tokens=30, stop=("\n",))))
    assert len({trace.tokens for trace in plain}) > 1  # the server's own usage would say one number for all
    assert all(trace.finish == "stop" or trace.tokens == 30 for trace in plain)


def test_a_chat(run, local):
    traces = run(local.sample(Prompt.chat("What is 2 + 2?", system="Be brief."), 2, 0, SHORT))
    assert all(trace.text and trace.confidence for trace in traces)


async def raw(local, prompt):
    """The server's own reply to a request for one token."""
    body = {"prompt": prompt.content, "max_tokens": 1, "logprobs": 20, "temperature": 1.0}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        headers = {"Authorization": f"Bearer {local.key}"}
        return (await client.post(f"{local.url}/completions", json=body, headers=headers)).json()


def test_a_prompt_that_had_to_leave_its_slot_is_not_read_again(run, weights):
    other = Prompt("Once upon a time, in a village by the sea, there lived an old woman who " * 2)

    async def go():
        async with LocalSampler(slots=1, context=256) as one:
            return [(await raw(one, prompt))["timings"] for prompt in (COUNT, other, COUNT)]

    first, between, again = run(go())
    assert between["cache_n"] <= 1 and again["prompt_n"] == 1  # the last token is always read
    assert again["cache_n"] == first["prompt_n"] - 1 > 30


def first_token_law(local, run, prompt):
    """The model's own law of the first token, as the server reports it: the 20 likeliest."""
    likeliest = run(raw(local, prompt))["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return {one["token"]: exp(one["logprob"]) for one in likeliest}


def p_value(law, draws):
    """Of the hypothesis that the draws follow the law; tokens expected fewer than 5 times are one cell."""
    likely = {token: p for token, p in law.items() if p * len(draws) >= 5}
    counts = Counter(draws)
    observed = [counts[token] for token in likely]
    expected = [p * len(draws) for p in likely.values()]
    observed.append(len(draws) - sum(observed))
    expected.append(len(draws) - sum(expected))
    return chisquare(observed, expected).pvalue


def first_tokens(run, local, prompt, sampling=ONE, draws=400, question=0):
    return [trace.text for trace in run(local.sample(prompt, draws, Seeds(11).at(question, 0), sampling))]


def test_first_tokens_follow_the_reported_log_probabilities(run, local):
    law = first_token_law(local, run, SKY)
    assert len(law) == 20
    assert p_value(law, first_tokens(run, local, SKY)) > 0.001
    # The same test finds out a server that would draw with its own defaults.
    assert p_value(law, first_tokens(run, local, SKY, Sampling(max_tokens=1, temperature=0.8, top_k=40))) < 1e-6


def test_the_draws_of_two_questions_are_uncorrelated(run, local):
    one, other = (first_tokens(run, local, SKY, question=question) for question in (0, 1))
    likeliest = [token for token, _ in Counter(one + other).most_common(4)]

    def kinds(draws):
        return [likeliest.index(draw) if draw in likeliest else 4 for draw in draws]

    table = [[0] * 5 for _ in range(5)]
    for a, b in zip(kinds(one), kinds(other), strict=True):
        table[a][b] += 1
    assert chi2_contingency(table).pvalue > 0.001
    assert first_tokens(run, local, SKY, question=0) == one  # with shared seeds they would be the same draws


def test_a_prompt_that_leaves_no_room_for_the_trace(run, local):
    with pytest.raises(RefusedError, match=r"do not fit into a context of 512 tokens.*--local context=601"):
        run(local.sample(Prompt("word " * 300), 1, 0, Sampling(max_tokens=300)))
    with pytest.raises(RefusedError, match="do not fit"):
        run(local.sample(Prompt.chat("word " * 300), 1, 0, Sampling(max_tokens=300)))
    assert len(run(local.sample(Prompt("word " * 300), 1, 0, Sampling(max_tokens=2)))) == 1


def test_a_sampler_that_is_not_started(run, weights):
    with pytest.raises(LocalModelError, match="async with"):
        run(LocalSampler(slots=1).sample(SKY, 1, 0, ONE))


@pytest.mark.parametrize(("n", "seed"), [(0, 0), (1, -1), (2, 2**32 - 2)])
def test_seeds_that_llama_cpp_does_not_have(run, local, n, seed):
    with pytest.raises(InputError, match="seeds lie in"):
        run(local.sample(SKY, n, seed, ONE))


def test_strangers_on_the_loopback_are_refused(run, local):
    async def go():
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.post(f"{local.url}/completions", json={"prompt": "hi", "max_tokens": 1})

    assert run(go()).status_code == 401


def test_a_clients_own_request_is_answered_with_the_servers_choices(run, local):
    body = {"messages": [{"role": "user", "content": "What is 3 + 4?"}], "max_tokens": 5, "temperature": 0.8}
    traces = run(local.sample(Prompt.of_body(body), 11, 0, Sampling()))  # more than it has slots
    assert len(traces) == 11 and all(0 <= trace.tokens <= 5 for trace in traces)
    assert [trace.raw["message"]["content"] for trace in traces] == [trace.text for trace in traces]
    assert all(trace.raw["logprobs"] is None for trace in traces)
    [again] = run(local.sample(Prompt.of_body(body | {"logprobs": True, "top_logprobs": 3}), 1, 10, Sampling()))
    assert again.text == traces[10].text and len(again.raw["logprobs"]["content"][0]["top_logprobs"]) == 3
