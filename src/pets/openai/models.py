"""What a server says of itself: its models, how long a prompt and its trace may be together, how busy it is."""

import json
from collections.abc import Mapping
from typing import Any

from pets.errors import ReplyError

# vLLM and SGLang; OpenRouter and Together; Groq; Mistral.
CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
LLAMA_CPP_FIELDS = ("n_ctx", "n_ctx_train")  # of a slot; of the model, where an older server says no more

# Of vLLM, SGLang, llama.cpp and TGI: how many requests are decoded now.
RUNNING = (
    "vllm:num_requests_running",
    "sglang:num_running_reqs",
    "llamacpp:requests_processing",
    "tgi_batch_current_size",
)


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


def running_requests(metrics: bytes) -> int | None:
    """How many requests a server works on, by its metrics in Prometheus' form: all of its models together.

    >>> running_requests(b'vllm:num_requests_running{model_name="m"} 3.0')
    3
    """
    lines = [line for line in metrics.decode("utf-8", "replace").splitlines() if line.startswith(RUNNING)]
    counts = [float(line.rsplit(" ", 1)[1]) for line in lines if " " in line]
    return round(sum(counts)) if counts else None
