"""What ``/v1/models`` says: which models a server has, and how long a prompt and its trace may be together."""

import json
from collections.abc import Mapping
from typing import Any

from pets.errors import ReplyError

# vLLM and SGLang; OpenRouter and Together; Groq; Mistral.
CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
LLAMA_CPP_FIELDS = ("n_ctx", "n_ctx_train")  # of a slot; of the model, where an older server says no more


def parse_models(content: bytes) -> list[dict[str, Any]]:
    """The models of a server's list, as it describes them.

    >>> parse_models(b'{"data": [{"id": "m", "max_model_len": 4096}]}')
    [{'id': 'm', 'max_model_len': 4096}]
    """
    try:
        return [model for model in json.loads(content)["data"] if isinstance(model["id"], str)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ReplyError("the server's list of models cannot be read.") from error


def context_tokens(model: Mapping[str, Any]) -> int | None:
    """The most tokens of prompt and trace together that a model of the list takes; ``None`` where it does not say.

    >>> context_tokens({"id": "m", "max_model_len": 4096}), context_tokens({"id": "m", "meta": {"n_ctx": 512}})
    (4096, 512)
    """
    meta = model.get("meta")
    values = [model.get(name) for name in CONTEXT_FIELDS]
    values += [meta.get(name) for name in LLAMA_CPP_FIELDS] if isinstance(meta, dict) else []
    return next((value for value in values if type(value) is int and value > 0), None)
