"""Prompts and sampling parameters refuse what makes no sense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.errors import InputError
from pets.samplers import Message, Prompt, Sampling


def test_the_default_is_the_models_own_distribution():
    plain = Sampling()
    assert (plain.temperature, plain.top_p, plain.top_k, plain.min_p) == (1.0, 1.0, 0, 0.0)


def test_a_chat_puts_the_system_message_first():
    assert Prompt.chat("hi", system="brief").content == (Message("system", "brief"), Message("user", "hi"))


@pytest.mark.parametrize("empty", ["", ()])
def test_an_empty_prompt(empty):
    with pytest.raises(InputError, match="prompt is empty"):
        Prompt(empty)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tokens": 0},
        {"temperature": -0.1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"min_p": 2.0},
        {"stop": ("",)},
        {"top_logprobs": 0},
        {"window": 0},
        {"temperature": float("nan")},
    ],
)
def test_parameters_outside_their_domain(wrong):
    with pytest.raises(InputError):
        Sampling(**wrong)


def test_prompts_with_other_bodies_are_others_and_all_can_be_keys():
    body = {"messages": [{"role": "user", "content": "2 + 2?"}]}
    prompts = [Prompt.of_body(body), Prompt.of_body(body | {"temperature": 0.5}), Prompt.chat("2 + 2?")]
    assert [prompt.content for prompt in prompts] == [(Message("user", "2 + 2?"),)] * 3
    assert len(dict.fromkeys(prompts, 0)) == 3 and Prompt.of_body(dict(body)) == prompts[0]


@given(st.text(st.characters(), min_size=1), st.text(st.characters()))
def test_a_prompt_has_no_more_tokens_than_it_has_bytes_and_a_template(text, schema):
    size = len(text.encode("utf-8", "surrogatepass"))
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "response_format": {"schema": schema}}
    more = len(schema.encode("utf-8", "surrogatepass"))
    for prompt, least in [(Prompt(text), size), (Prompt.chat(text), size), (Prompt.of_body(body), size + more)]:
        assert least < prompt.max_tokens <= 6 * least + 300


def test_a_bare_question_takes_an_instruction_once():
    asked = Prompt.question("2 + 2?").instructed("Be brief.")
    assert asked == Prompt.chat("2 + 2?\n\nBe brief.") and not asked.bare
    assert asked.instructed("Be brief.") is asked


@pytest.mark.parametrize("prompt", [Prompt("2 + 2 ="), Prompt.chat("2 + 2?"), Prompt.chat("2 + 2?", system="Add.")])
def test_a_prompt_of_its_own_is_left_alone(prompt):
    assert prompt.instructed("Be brief.") is prompt
