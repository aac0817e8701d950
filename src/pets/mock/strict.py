"""Hosts that refuse what they do not know, each in its own words: OpenAI's reasoning models, Mistral, Gemini.

The errors are those that their users report. A mock with such a flavour also counts tokens as the host does, and keeps
its model's thoughts to itself.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pets.openai.errors import ApiError

__all__ = ["Flavour", "StrictRefusalError", "check_fields", "usage_json"]

Flavour = Literal["openai", "mistral", "gemini"]
COMMON = {"model", "messages", "prompt", "n", "stop", "stream", "temperature", "top_p", "response_format", "tools"}
KNOWN: Mapping[Flavour, set[str]] = {
    "openai": COMMON
    | {"seed", "max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty", "logprobs", "user"}
    | {"top_logprobs", "stream_options", "reasoning_effort", "logit_bias"},
    "mistral": COMMON | {"max_tokens", "random_seed", "presence_penalty", "frequency_penalty", "reasoning_effort"},
    "gemini": COMMON | {"max_tokens", "max_completion_tokens", "stream_options", "reasoning_effort"},
}
# Fields that OpenAI knows, but not with a reasoning model.
NOT_WITH_REASONING = ("logprobs", "top_logprobs", "stop", "presence_penalty", "frequency_penalty", "top_p")


class StrictRefusalError(ApiError):
    """A refusal whose body has the host's own form."""

    def __init__(self, status: int, data: object) -> None:
        super().__init__(json.dumps(data), status=status)
        self._data = data

    def body(self) -> bytes:
        """The error as the host writes it."""
        return json.dumps(self._data).encode()


def check_fields(fields: Mapping[str, Any], flavour: Flavour) -> None:
    """Refuse a request that the host would refuse for one of its fields."""
    unknown = sorted(fields.keys() - KNOWN[flavour])
    if flavour == "openai":
        _check_openai(fields, unknown)
    elif unknown and flavour == "mistral":
        detail = [
            {
                "type": "extra_forbidden",
                "loc": ["body", name],
                "msg": "Extra inputs are not permitted",
                "input": fields[name],
            }
            for name in unknown
        ]
        message = {"detail": detail}
        refusal = {"object": "error", "message": message, "type": "invalid_request_error", "param": None, "code": None}
        raise StrictRefusalError(422, refusal)
    elif unknown:
        words = [f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.' for name in unknown]
        status = {"code": 400, "message": "\n".join(words), "status": "INVALID_ARGUMENT"}
        raise StrictRefusalError(400, [{"error": status}])


def _check_openai(fields: Mapping[str, Any], unknown: list[str]) -> None:
    if unknown:
        arguments = "argument" if len(unknown) == 1 else "arguments"
        raise ApiError(f"Unrecognized request {arguments} supplied: {', '.join(unknown)}")
    if "max_tokens" in fields:
        raise ApiError(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
            "instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    if fields.get("temperature", 1) != 1:
        raise ApiError(
            f"Unsupported value: 'temperature' does not support {fields['temperature']} with this model. Only the "
            "default (1) value is supported.",
            param="temperature",
            code="unsupported_value",
        )
    for name in NOT_WITH_REASONING:
        if name in fields:
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            raise ApiError(message, param=name, code="unsupported_parameter")


def usage_json(
    flavour: Flavour | None, prompt_tokens: int, tokens: int, thoughts: int, cached_tokens: int | None = None
) -> str:
    """The ``usage`` object of a host; ``thoughts`` of the ``tokens`` were never shown.

    >>> usage_json("openai", 10, 90, 80)
    '{"prompt_tokens":10,"completion_tokens":90,"total_tokens":100,"completion_tokens_details":{"reasoning_tokens":80}}'
    >>> usage_json("gemini", 10, 90, 80)
    '{"prompt_tokens":10,"completion_tokens":10,"total_tokens":100}'
    """
    shown = tokens - thoughts if flavour == "gemini" else tokens
    details = f',"completion_tokens_details":{{"reasoning_tokens":{thoughts}}}' if flavour == "openai" else ""
    if cached_tokens is not None:
        details += f',"prompt_tokens_details":{{"cached_tokens":{cached_tokens}}}'
    return (
        f'{{"prompt_tokens":{prompt_tokens},"completion_tokens":{shown},'
        f'"total_tokens":{prompt_tokens + tokens}{details}}}'
    )
