"""The OpenAI Python SDK, unmodified, against the mock."""

from collections import Counter, defaultdict

import pytest

from pets.confidence import measure
from pets.mock import Faults

from .conftest import TRACES

ASK = {"model": "mock", "messages": [{"role": "user", "content": "Question q1"}]}


@pytest.fixture
def connect(openai, serve):
    clients = []

    def start(**settings):
        mock = serve(**settings)
        clients.append(openai.OpenAI(base_url=mock.v1, api_key="key", max_retries=settings.get("api_key") is None))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def test_eight_choices_with_twenty_log_probabilities(connect):
    reply = connect().chat.completions.create(**ASK, n=8, seed=0, logprobs=True, top_logprobs=20)
    assert len(reply.choices) == 8
    assert Counter(choice.finish_reason for choice in reply.choices) == {"stop": 7, "length": 1}
    assert sum(r"\boxed{A}" in choice.message.content for choice in reply.choices) == TRACES.count("A")
    for choice in reply.choices:
        tokens = choice.logprobs.content
        assert "".join(token.token for token in tokens) == choice.message.content
        assert {len(token.top_logprobs) for token in tokens} == {20}
        result = measure([[top.logprob for top in token.top_logprobs] for token in tokens], window=8)
        assert result.tail == pytest.approx(9.5, abs=1e-5)
    assert reply.usage.completion_tokens == sum(len(choice.logprobs.content) for choice in reply.choices)


def test_a_stream_of_three_choices(connect):
    client = connect()
    texts, usage, tops = defaultdict(str), None, set()
    options = {"stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 20}
    for chunk in client.chat.completions.create(**ASK, n=3, seed=0, **options):
        usage = chunk.usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            tops.update(len(token.top_logprobs) for token in (choice.logprobs.content if choice.logprobs else ()))
    whole = client.chat.completions.create(**ASK, n=3, seed=0)
    assert [texts[at] for at in range(3)] == [choice.message.content for choice in whole.choices]
    assert usage == whole.usage and tops == {20}


def test_completions(connect):
    client = connect()
    reply = client.completions.create(model="mock", prompt="q1", n=2, seed=0, logprobs=5)
    assert [len(choice.logprobs.tokens) for choice in reply.choices] and reply.choices[0].logprobs.text_offset[0] == 0
    chunks = client.completions.create(model="mock", prompt="q1", seed=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == reply.choices[0].text
    assert [model.id for model in client.models.list()] == ["mock"]


def test_errors_are_the_ones_that_the_sdk_knows(openai, connect):
    client = connect()
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(**ASK | {"model": "gpt"})
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ASK, n=500)
    assert caught.value.param == "n"
    with pytest.raises(openai.AuthenticationError):
        connect(api_key="another").models.list()


def test_the_sdk_comes_back_when_the_server_says_so(connect):
    client = connect(faults=Faults(rate_limit=0.5, retry_after=0.01), seed=1)
    replies = [client.with_options(max_retries=20).chat.completions.create(**ASK, seed=seed) for seed in range(10)]
    assert len(replies) == 10
