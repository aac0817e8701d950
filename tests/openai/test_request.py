"""Every sampling parameter is sent, to each kind of server in its own words."""

import pytest

from pets.errors import InputError
from pets.openai.request import DIALECTS, body_of, path_of
from pets.samplers import Prompt, Sampling

TEXT, CHAT = Prompt("2 + 2 ="), Prompt.chat("2 + 2?")


def body(dialect, prompt=TEXT, **sampling):
    return body_of("m", prompt, 3, 9, Sampling(**sampling), DIALECTS[dialect])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_all_servers_get(dialect):
    sent = body(dialect, max_tokens=7, temperature=0.6, top_p=0.9, stop=("\n",))
    expected = {"model": "m", "n": 3, "seed": 9, "max_tokens": 7, "temperature": 0.6, "top_p": 0.9, "stop": ["\n"]}
    assert expected.items() <= sent.items()
    assert sent["presence_penalty"] == sent["frequency_penalty"] == 0.0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_a_limit_the_server_s_own_holds(dialect):
    assert "max_tokens" not in body(dialect)


def test_truncation_is_switched_off_by_name():
    llama = body("llama.cpp")
    off = {"top_k": 0, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0, "xtc_probability": 0.0, "mirostat": 0}
    assert off.items() <= llama.items()
    assert llama["post_sampling_probs"] is False
    assert {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}.items() <= body("vllm").items()
    assert body("vllm", top_k=5)["top_k"] == 5


def test_openai_itself_knows_no_top_k():
    assert not {"top_k", "min_p"} & body("openai").keys()
    with pytest.raises(InputError, match="--top-k"):
        body("openai", top_k=5)


def test_log_probabilities_in_both_forms():
    assert body("vllm", top_logprobs=20)["logprobs"] == 20
    chat = body("vllm", CHAT, top_logprobs=20)
    assert (chat["logprobs"], chat["top_logprobs"]) == (True, 20)
    assert "logprobs" not in body("vllm")


def test_where_prompts_go():
    assert (path_of(TEXT), path_of(CHAT)) == ("/completions", "/chat/completions")
    assert body("vllm", CHAT)["messages"] == [{"role": "user", "content": "2 + 2?"}]


@pytest.mark.parametrize(("n", "seed"), [(0, 0), (1, -1)])
def test_no_traces_or_no_seed(n, seed):
    with pytest.raises(InputError, match="at least"):
        body_of("m", TEXT, n, seed, Sampling(), DIALECTS["vllm"])


def test_a_clients_own_request_keeps_what_it_says():
    messages = [{"role": "user", "content": [{"type": "text", "text": "2 + 2?"}]}]
    own = {"messages": messages, "temperature": 0.2, "max_completion_tokens": 9, "top_logprobs": 3, "logprobs": True}
    sent = body_of("m", Prompt.of_body(own), 2, 7, Sampling(), DIALECTS["llama.cpp"])
    assert sent == own | {"model": "m", "n": 2, "seed": 7}
    for top, expected in ((20, 20), (1, 3)):
        sent = body_of("m", Prompt.of_body(own), 2, 7, Sampling(top_logprobs=top), DIALECTS["vllm"])
        assert sent == own | {"model": "m", "n": 2, "seed": 7, "logprobs": True, "top_logprobs": expected}
