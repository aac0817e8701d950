"""What a server's list of models says."""

import pytest

from pets.errors import ReplyError
from pets.openai.models import context_tokens, parse_models


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ({"max_model_len": 32_768}, 32_768),  # vLLM, SGLang
        ({"context_length": 131_072}, 131_072),  # OpenRouter
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 8192}}, 4096),  # llama.cpp
        ({"meta": {"n_ctx_train": 8192}}, 8192),
        ({"max_model_len": None}, None),
        ({"max_model_len": "long"}, None),
        ({"max_model_len": 0, "meta": "none"}, None),
        ({}, None),  # OpenAI
    ],
)
def test_the_context_of_a_model(model, tokens):
    assert context_tokens({"id": "m", **model}) == tokens


def test_a_list_that_cannot_be_read_is_a_reply_error():
    assert [model["id"] for model in parse_models(b'{"data": [{"id": "a"}, {"id": 3}]}')] == ["a"]
    for content in (b"", b"{}", b"[]", b'{"data": 3}', b'{"data": [3]}', b"[" * 100_000):
        with pytest.raises(ReplyError):
            parse_models(content)
