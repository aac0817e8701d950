"""OpenAI's own Python SDK, unmodified, is served by the local model."""

import pytest


@pytest.fixture
def client(local):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=local.url, api_key=local.key, max_retries=0) as client:
        yield client


def test_eight_choices_with_top_20_log_probabilities(client, local):
    reply = client.chat.completions.create(
        model=local.weights.name,
        messages=[{"role": "user", "content": "What is 2 + 2?"}],
        n=8,
        seed=1,
        max_tokens=5,
        logprobs=True,
        top_logprobs=20,
    )
    assert sorted(choice.index for choice in reply.choices) == list(range(8))
    for choice in reply.choices:
        assert all(len(token.top_logprobs) == 20 for token in choice.logprobs.content)


def test_a_stream(client, local):
    chunks = list(
        client.chat.completions.create(
            model=local.weights.name,
            messages=[{"role": "user", "content": "Count to three."}],
            seed=1,
            max_tokens=6,
            stream=True,
        )
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] in {"stop", "length"}


def test_the_model_is_listed(client, local):
    assert local.weights.name in {model.id for model in client.models.list()}
